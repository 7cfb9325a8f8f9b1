"""What `dra.local.kinds.causes` has not: causes whose values nobody shows, or whose path is empty."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from dra.local.refusals import Cause, Fault

WHOLE: Final = "<nil>"
"""How Go prints the path of the whole object."""


def child(path: str, name: str) -> str:
    """Return the path of a field."""
    return f"{path}.{name}" if path else name


def plain(value: float) -> str:
    """Return a number as Go's %v prints it: 1.0 is 1."""
    return str(int(value)) if value == int(value) and abs(value) < _EXACT else str(value)


_EXACT: Final = 1e21


def unshown(path: str, detail: str, fault: Fault = Fault.INVALID) -> Cause:
    """Refuse an object or a list, which is too long to be shown."""
    return Cause(fault, path, f"Invalid value: {detail}")


def placed(causes: Iterable[Cause]) -> list[Cause]:
    """Return causes of which each has a path."""
    return [cause if cause.field else replace(cause, field=WHOLE) for cause in causes]
