"""The output of the demo: headings, commands with their output, and a progress line.

On a terminal the progress line is rewritten in place; elsewhere it is printed at intervals. Colours appear only on a
terminal, and not where NO_COLOR is set (https://no-color.org).
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
    """The terminal, or the file, that the demo writes to."""

    def __init__(self, out: TextIO | None = None, *, clock: Clock = SYSTEM) -> None:
        self._out = out or sys.stdout
        self._clock = clock
        self._live = self._out.isatty() and os.environ.get("TERM") != "dumb"
        self._coloured = self._live and not os.environ.get("NO_COLOR")
        self._pending = ""
        self._printed_at = clock.now()
        self._plain = not (self._out.encoding or "").lower().startswith("utf")

    def title(self, text: str) -> None:
        """Print the heading of a chapter."""
        self._line("")
        self._line(self._painted(text, _BOLD))

    def say(self, text: str) -> None:
        """Print a plain line of text."""
        self._line(f"  {text}")

    def good(self, text: str) -> None:
        """Print a success, marked with a tick."""
        self._line(f"  {self._painted('✓', _GREEN)} {text}")

    def bad(self, text: str) -> None:
        """Print a failure, marked with a cross."""
        self._line(f"  {self._painted('✗', _RED)} {text}")

    def code(self, lines: Iterable[str]) -> None:
        """Print the content of a file, indented."""
        for line in lines:
            self._line(f"      {self._painted(line, _DIM)}")

    def command(self, command: str, output: str) -> None:
        """Print a command and its output."""
        self._line(f"  {self._painted(f'$ {command}', _CYAN)}")
        for line in output.rstrip().splitlines():
            self._line(f"    {line}")

    def progress(self, done: int, of: int, text: str) -> None:
        """Update the progress line: ``done`` of ``of``, with a text behind the bar."""
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
        """Keep the progress line as it is and continue below it."""
        if self._pending:
            self._write("\n")
            self._pending = ""

    def close(self) -> None:
        """Restore the terminal: end a progress line."""
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
        """Return the part that fits into one line: a longer line could not be rewritten."""
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
"""Replacements for terminals whose encoding is not UTF-8."""
