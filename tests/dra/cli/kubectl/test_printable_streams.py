"""What a command prints is printable, whoever wrote it."""

import io
import sys

from dra.cli.kubectl.printable_streams import PrintableStream, printable_streams


def test_everything_on_the_way_out_is_made_printable(monkeypatch):
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with printable_streams():
        sys.stdout.write("claim ml/\x1b[2Jtrain\n")
        sys.stderr.write("\x9b2J\n")
    assert out.getvalue() == "claim ml/\\u001b[2Jtrain\n"
    assert err.getvalue() == "\\u009b2J\n"
    assert sys.stdout is out, "for a while"


def test_all_else_is_the_streams_own():
    stream = PrintableStream(io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert stream.encoding == "ascii"
    assert stream.write("a\x1b") == 2
