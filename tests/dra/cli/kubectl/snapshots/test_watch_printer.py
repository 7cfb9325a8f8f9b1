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
    printer.tell(listing(train="Pending", other="InUse"))
    printer.tell(listing(train="Pending", other="InUse"))
    printer.tell(listing(train="InUse", other="InUse"))
    printer.tell(listing(other="InUse"))
    assert capsys.readouterr().out.splitlines() == [
        "NAME    STATE",
        "train   Pending",
        "other   InUse",
        "train   InUse",
        "train   Gone",
    ]


def test_as_data_each_change_is_an_object(capsys):
    printer = WatchPrinter(PrintOptions(output=OutputFormat.JSONPATH, template='{.name}={.state}{"\\n"}'))
    printer.tell(listing(a="x", b="x"))
    printer.tell(listing(a="y", b="x"))
    assert capsys.readouterr().out == "a=x\nb=x\na=y\n"


def test_names_come_without_a_header(capsys):
    WatchPrinter(PrintOptions(output=OutputFormat.NAME)).tell(listing(a="x"))
    assert capsys.readouterr().out == "claim/a\n"
