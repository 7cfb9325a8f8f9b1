"""What `localplane.kinds.field_errors` has not: causes whose values nobody shows, or whose path is empty."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from localplane.status_errors import FieldError, FieldErrorType

ROOT_PATH: Final = "<nil>"
"""How Go prints the path of the whole object."""


def child_path(path: str, name: str) -> str:
    """Return the path of a field."""
    return f"{path}.{name}" if path else name


def format_number(value: float) -> str:
    """Return a number as Go's %v prints it: 1.0 is 1."""
    return str(int(value)) if value == int(value) and abs(value) < _EXACT_INTEGERS_BELOW else str(value)


_EXACT_INTEGERS_BELOW: Final = 1e21


def invalid_without_value(path: str, detail: str, fault: FieldErrorType = FieldErrorType.INVALID) -> FieldError:
    """Refuse an object or a list, which is too long to be shown."""
    return FieldError(fault, path, f"Invalid value: {detail}")


def with_root_path(causes: Iterable[FieldError]) -> list[FieldError]:
    """Return causes of which each has a path."""
    return [cause if cause.field else replace(cause, field=ROOT_PATH) for cause in causes]
