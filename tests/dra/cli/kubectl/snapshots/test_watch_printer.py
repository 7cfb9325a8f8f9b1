"""`-w` prints the list, then rows that have changed."""

from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import OutputFormat
from dra.cli.kubectl.resource_table import ResourceTable, TableRow
from dra.cli.kubectl.snapshots.watch_printer import WatchPrinter


def listing(**states):
    rows = tuple(
        TableRow(name=f"claim/{n}", cells=(n, s), content=lambda n=n, s=s: {"name": n, "state": s})
        for n, s in states.items()
    )
    return ResourceTable(header=("NAME", "STATE"), rows=rows)


def test_only_rows_that_have_changed_come_again_and_no_second_header(capsys):
    printer = WatchPrinter(PrintOptions())
    printer.print_changes(listing(train="Pending", other="InUse"))
    printer.print_changes(listing(train="Pending", other="InUse"))
    printer.print_changes(listing(train="InUse", other="InUse"))
    printer.print_changes(listing(other="InUse"))
    assert capsys.readouterr().out.splitlines() == [
        "NAME    STATE",
        "train   Pending",
        "other   InUse",
        "train   InUse",
        "train   Gone",
    ]


def test_as_data_each_change_is_an_object(capsys):
    printer = WatchPrinter(PrintOptions(format=OutputFormat.JSONPATH, template='{.name}={.state}{"\\n"}'))
    printer.print_changes(listing(a="x", b="x"))
    printer.print_changes(listing(a="y", b="x"))
    assert capsys.readouterr().out == "a=x\nb=x\na=y\n"


def test_names_come_without_a_header(capsys):
    WatchPrinter(PrintOptions(format=OutputFormat.NAME)).print_changes(listing(a="x"))
    assert capsys.readouterr().out == "claim/a\n"
