"""Makes the streams that commands print to safe: all output is escaped, whichever function prints it."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

from dra.model.terminal_escapes import escape_terminal


class PrintableStream:
    """A text stream that escapes control characters in its output; all other methods are the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text and return its length, as callers expect."""
        self._stream.write(escape_terminal(text, on_a_terminal=self._stream.isatty()))
        return len(text)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the stream has
        return getattr(self._stream, name)


@contextlib.contextmanager
def printable_streams() -> Iterator[None]:
    """Make standard output and standard error printable within the block."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", PrintableStream(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
