"""`-w` prints the list, then rows that have changed."""

from dra.cli.kubectl.formats import Style
from dra.cli.kubectl.listings import Listing, Row
from dra.cli.kubectl.output import Format
from dra.cli.kubectl.reading.watching import Printer


def listing(**states):
    rows = tuple(
        Row(name=f"claim/{n}", cells=(n, s), content=lambda n=n, s=s: {"name": n, "state": s})
        for n, s in states.items()
    )
    return Listing(header=("NAME", "STATE"), rows=rows)


def test_only_rows_that_have_changed_come_again_and_no_second_header(capsys):
    printer = Printer(Style())
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
    printer = Printer(Style(output=Format.JSONPATH, template='{.name}={.state}{"\\n"}'))
    printer.tell(listing(a="x", b="x"))
    printer.tell(listing(a="y", b="x"))
    assert capsys.readouterr().out == "a=x\nb=x\na=y\n"


def test_names_come_without_a_header(capsys):
    Printer(Style(output=Format.NAME)).tell(listing(a="x"))
    assert capsys.readouterr().out == "claim/a\n"
