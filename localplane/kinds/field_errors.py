"""Builds field errors with apimachinery's messages, such as ``Invalid value: 0: must be greater than zero``.

A path is the text that users see, ``spec.devices.requests[0].name``; validation of nested fields appends to the path.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from localplane.objects import encode
from localplane.status_errors import FieldError, FieldErrorType

IMMUTABLE = "field is immutable"
NO_MODIFY = "field cannot be modified once set"

_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def format_value(value: object) -> str:
    """Return a value as Go prints the value in an error: JSON with <, > and & escaped, except in a plain string."""
    text = encode(value).decode()
    return text if isinstance(value, str) else text.translate(_HTML)


def required(path: str, detail: str = "") -> FieldError:
    """Return the error of a missing value."""
    return FieldError(FieldErrorType.REQUIRED, path, f"Required value: {detail}" if detail else "Required value")


def invalid(path: str, value: object, detail: str) -> FieldError:
    """Return the error of an invalid value; `detail` may be empty."""
    return FieldError(
        FieldErrorType.INVALID, path, f"Invalid value: {format_value(value)}" + (f": {detail}" if detail else "")
    )


def forbidden(path: str, detail: str) -> FieldError:
    """Return the error of a value that must not be set."""
    return FieldError(FieldErrorType.FORBIDDEN, path, f"Forbidden: {detail}")


def not_supported(path: str, value: object, known: Iterable[str]) -> FieldError:
    """Return the error of a value outside of the supported values."""
    listed = ", ".join(format_value(option) for option in known)
    return FieldError(
        FieldErrorType.UNSUPPORTED, path, f"Unsupported value: {format_value(value)}: supported values: {listed}"
    )


def duplicate(path: str, value: object) -> FieldError:
    """Return the error of a duplicate value."""
    return FieldError(FieldErrorType.DUPLICATE, path, f"Duplicate value: {format_value(value)}")


def not_found(path: str, value: object) -> FieldError:
    """Return the error of a reference to a missing object or entry."""
    return FieldError(FieldErrorType.NOT_FOUND, path, f"Not found: {format_value(value)}")


def too_many(path: str, count: int, limit: int) -> FieldError:
    """Return the error of a list with too many items."""
    items = "item" if limit == 1 else "items"
    return FieldError(FieldErrorType.TOO_MANY, path, f"Too many: {count}: must have at most {limit} {items}")


def too_long(path: str, limit: int) -> FieldError:
    """Return the error of a value with too many bytes."""
    unit = "byte" if limit == 1 else "bytes"
    return FieldError(FieldErrorType.TOO_LONG, path, f"Too long: may not be more than {limit} {unit}")


def too_few(path: str, count: int, limit: int) -> FieldError:
    """Return the error of a list with too few items."""
    items = "item" if limit == 1 else "items"
    return FieldError(FieldErrorType.TOO_FEW, path, f"Too few: {count}: must have at least {limit} {items}")


def too_short(path: str, limit: int) -> FieldError:
    """Return the error of a text with too few characters."""
    unit = "character" if limit == 1 else "characters"
    return FieldError(FieldErrorType.TOO_SHORT, path, f"Too short: must be at least {limit} {unit}")


def validate_immutable(path: str, new: object, old: object, *, text: object = None) -> list[FieldError]:
    """Return the error of a change to an immutable field; `text` replaces the new value in the message."""
    return [] if new == old else [invalid(path, new if text is None else text, IMMUTABLE)]


def validate_unmodified(path: str, new: object, old: object, *, detail: str = IMMUTABLE) -> list[FieldError]:
    """Return the error of a change in the form of generated validation, which shows no value."""
    return [] if new == old else [invalid(path, None, detail)]


def invalid_for_each(path: str, value: str, errors: Iterable[str]) -> list[FieldError]:
    """Return an error for each fault of a value."""
    return [invalid(path, value, error) for error in errors]


def validate_enum(path: str, value: object, known: Collection[str]) -> list[FieldError]:
    """Return the error of a value that is missing or outside of the supported values."""
    if not value:
        return [required(path)]
    return [] if value in known else [not_supported(path, value, known)]


def validate_items(
    path: str, items: Sequence[Any], check: Callable[[str, Any], list[FieldError]], *, limit: int | None = None
) -> list[FieldError]:
    """Return the errors of all items of a list; the items of a list longer than `limit` are not checked."""
    if limit is not None and len(items) > limit:
        return [too_many(path, len(items), limit)]
    return [cause for index, item in enumerate(items) for cause in check(f"{path}[{index}]", item)]


def validate_unique(
    path: str,
    items: Sequence[Any],
    key: Callable[[Any], Any],
    *,
    suffix: str = "",
    shown: Callable[[Any], Any] | None = None,
) -> list[FieldError]:
    """Return an error for each item with the key of an earlier item; the message shows `shown(item)` or the key."""
    seen: set[Any] = set()
    causes = []
    for index, item in enumerate(items):
        identity = key(item)
        if identity in seen:
            causes.append(duplicate(f"{path}[{index}]{suffix}", identity if shown is None else shown(item)))
        seen.add(identity)
    return causes


def validate_non_negative(path: str, holder: Mapping[str, Any], name: str) -> list[FieldError]:
    """Return the error of a negative number; an absent one is valid."""
    value = holder.get(name)
    if value is None or value >= 0:
        return []
    return [invalid(f"{path}.{name}", value, "must be greater than or equal to 0")]
