"""Builds field errors that `localplane.kinds.field_errors` lacks: without a value, or of an empty path."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from localplane.status_errors import FieldError, FieldErrorType

ROOT_PATH: Final = "<nil>"
"""Path of the whole object, as Go prints a nil path."""


def child_path(path: str, name: str) -> str:
    """Return the path of a field in an object."""
    return f"{path}.{name}" if path else name


def format_number(value: float) -> str:
    """Return a number as Go's %v prints it: 1.0 is 1."""
    return str(int(value)) if value == int(value) and abs(value) < _EXACT_INTEGERS_BELOW else str(value)


_EXACT_INTEGERS_BELOW: Final = 1e21


def invalid_without_value(path: str, detail: str, fault: FieldErrorType = FieldErrorType.INVALID) -> FieldError:
    """Return the error of an object or a list, whose value is too long to show."""
    return FieldError(fault, path, f"Invalid value: {detail}")


def with_root_path(causes: Iterable[FieldError]) -> list[FieldError]:
    """Return causes with the root path in place of an empty path."""
    return [cause if cause.field else replace(cause, field=ROOT_PATH) for cause in causes]
