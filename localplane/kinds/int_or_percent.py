"""Validates integers or percentages, such as ``maxUnavailable`` of Deployments and PodDisruptionBudgets."""

import re
from typing import Final

from localplane.kinds import field_errors
from localplane.status_errors import FieldError

_PERCENT_PATTERN: Final = re.compile("([0-9]+)%")
_PERCENT_ERROR: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)


def validate(path: str, value: int | str) -> list[FieldError]:
    """Return the error of a negative integer or of a text that is no percentage."""
    if isinstance(value, str):
        return [] if _PERCENT_PATTERN.fullmatch(value) else [field_errors.invalid(path, value, _PERCENT_ERROR)]
    return [] if value >= 0 else [field_errors.invalid(path, value, "must be greater than or equal to 0")]


def validate_at_most_100_percent(path: str, value: int | str) -> list[FieldError]:
    """Return the error of a percentage above 100."""
    if isinstance(value, str) and number_of(value) > 100:  # noqa: PLR2004 - percent
        return [field_errors.invalid(path, value, "must not be greater than 100%")]
    return []


def number_of(value: int | str) -> int:
    """Return an integer as it is, and the number of a percentage; 0 for another text."""
    if isinstance(value, int):
        return value
    matched = _PERCENT_PATTERN.fullmatch(value)
    return int(matched[1]) if matched else 0
