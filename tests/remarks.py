"""Lines that are printed after the last test, also where processes of pytest-xdist run the tests."""

from typing import Final

import pytest

_LINES: Final = pytest.StashKey[list[str]]()
_SENT: Final = "remarks"
"""Name of the lines in what a process of pytest-xdist hands to the main process at its end."""


def remark(config: pytest.Config, line: str) -> None:
    """Print the line after the last test, once, whichever processes say the same."""
    lines = config.stash.setdefault(_LINES, [])
    if line not in lines:
        lines.append(line)


def send(config: pytest.Config) -> None:
    """Hand the lines of this process to the main process, if there is another one."""
    output = getattr(config, "workeroutput", None)
    if output is not None:
        output[_SENT] = config.stash.get(_LINES, [])


def receive(config: pytest.Config, output: dict[str, list[str]]) -> None:
    """Take over the lines of a process that has ended."""
    for line in output.get(_SENT, []):
        remark(config, line)


def lines(config: pytest.Config) -> list[str]:
    """Return the lines to print."""
    return config.stash.get(_LINES, [])
