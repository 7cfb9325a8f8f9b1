"""What people see: headings, commands with their output, and one line that moves while something goes on.

On a terminal that line is rewritten in place; elsewhere it is printed now and then. Colours only on a terminal, and not
where NO_COLOR is set (https://no-color.org).
"""

import os
import sys
from collections.abc import Iterable
from typing import Final, TextIO

from dra.kube.clock import SYSTEM, Clock

PLAIN_PROGRESS_INTERVAL: Final = 5.0
"""Seconds between two progress lines where they cannot be rewritten."""

_BOLD, _DIM, _GREEN, _RED, _CYAN = "1", "2", "32", "31", "36"
_BAR_WIDTH: Final = 24


class Screen:
    """Where a story is told."""

    def __init__(self, out: TextIO | None = None, *, clock: Clock = SYSTEM) -> None:
        self._out = out or sys.stdout
        self._clock = clock
        self._live = self._out.isatty() and os.environ.get("TERM") != "dumb"
        self._coloured = self._live and not os.environ.get("NO_COLOR")
        self._pending = ""
        self._printed_at = clock.now()
        self._plain = not (self._out.encoding or "").lower().startswith("utf")

    def title(self, text: str) -> None:
        """Begin a chapter."""
        self._line("")
        self._line(self._painted(text, _BOLD))

    def say(self, text: str) -> None:
        """Tell something."""
        self._line(f"  {text}")

    def good(self, text: str) -> None:
        """Tell that something went well."""
        self._line(f"  {self._painted('✓', _GREEN)} {text}")

    def bad(self, text: str) -> None:
        """Tell that something went wrong."""
        self._line(f"  {self._painted('✗', _RED)} {text}")

    def code(self, lines: Iterable[str]) -> None:
        """Show what stands in a file."""
        for line in lines:
            self._line(f"      {self._painted(line, _DIM)}")

    def command(self, command: str, output: str) -> None:
        """Show a command and what came of it."""
        self._line(f"  {self._painted(f'$ {command}', _CYAN)}")
        for line in output.rstrip().splitlines():
            self._line(f"    {line}")

    def progress(self, done: int, of: int, text: str) -> None:
        """Show how far something has come."""
        filled = _BAR_WIDTH * done // max(of, 1)
        line = f"  {'█' * filled}{'░' * (_BAR_WIDTH - filled)} {text}"
        now = self._clock.now()
        if self._live:
            if line != self._pending:
                self._write(f"\r\033[K{self._cut(line)}")
                self._pending = line
        elif now - self._printed_at >= PLAIN_PROGRESS_INTERVAL:
            self._line(line)

    def settle(self) -> None:
        """Leave the progress line as it is and go on below it."""
        if self._pending:
            self._write("\n")
            self._pending = ""

    def close(self) -> None:
        """Leave the terminal as it was found."""
        self.settle()

    def _line(self, text: str) -> None:
        if self._pending:
            self._write("\r\033[K")
            self._pending = ""
        self._write(text + "\n")
        self._printed_at = self._clock.now()

    def _write(self, text: str) -> None:
        self._out.write(text.translate(_ASCII_SUBSTITUTES) if self._plain else text)
        self._out.flush()

    def _cut(self, line: str) -> str:
        """Return what fits into one line: a longer one could not be rewritten."""
        try:
            width = os.get_terminal_size(self._out.fileno()).columns
        except OSError:
            width = 80
        return line[: width - 1]

    def _painted(self, text: str, colour: str) -> str:
        return f"\033[{colour}m{text}\033[0m" if self._coloured else text


_ASCII_SUBSTITUTES: Final = str.maketrans(
    {"█": "#", "░": ".", "✓": "+", "✗": "x", "·": "-", "–": "-", "…": "...", "×": "x", "→": "->"}
)
"""For terminals that know no other letters."""
