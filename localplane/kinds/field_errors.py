"""Why a field is refused, in the words of apimachinery's field errors: ``Invalid value: 0: must be greater than zero``.

A path is the text that users see, ``spec.devices.requests[0].name``; whoever descends appends to it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from localplane.objects import encode
from localplane.status_errors import FieldError, FieldErrorType

IMMUTABLE = "field is immutable"
NO_MODIFY = "field cannot be modified once set"

_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def format_value(value: object) -> str:
    """Return a value as Go prints it in an error: JSON, with the letters that JSON inside of HTML must not have."""
    text = encode(value).decode()
    return text if isinstance(value, str) else text.translate(_HTML)


def required(path: str, detail: str = "") -> FieldError:
    """Refuse that a value is missing."""
    return FieldError(FieldErrorType.REQUIRED, path, f"Required value: {detail}" if detail else "Required value")


def invalid(path: str, value: object, detail: str) -> FieldError:
    """Refuse a value; `detail` may be empty."""
    return FieldError(
        FieldErrorType.INVALID, path, f"Invalid value: {format_value(value)}" + (f": {detail}" if detail else "")
    )


def forbidden(path: str, detail: str) -> FieldError:
    """Refuse that there is a value."""
    return FieldError(FieldErrorType.FORBIDDEN, path, f"Forbidden: {detail}")


def not_supported(path: str, value: object, known: Iterable[str]) -> FieldError:
    """Refuse a value that is none of the known ones."""
    listed = ", ".join(format_value(each) for each in known)
    return FieldError(
        FieldErrorType.UNSUPPORTED, path, f"Unsupported value: {format_value(value)}: supported values: {listed}"
    )


def duplicate(path: str, value: object) -> FieldError:
    """Refuse a value that is there already."""
    return FieldError(FieldErrorType.DUPLICATE, path, f"Duplicate value: {format_value(value)}")


def not_found(path: str, value: object) -> FieldError:
    """Refuse a value that refers to nothing."""
    return FieldError(FieldErrorType.NOT_FOUND, path, f"Not found: {format_value(value)}")


def too_many(path: str, count: int, limit: int) -> FieldError:
    """Refuse a list for its length."""
    items = "item" if limit == 1 else "items"
    return FieldError(FieldErrorType.TOO_MANY, path, f"Too many: {count}: must have at most {limit} {items}")


def too_long(path: str, limit: int) -> FieldError:
    """Refuse a text for its length."""
    unit = "byte" if limit == 1 else "bytes"
    return FieldError(FieldErrorType.TOO_LONG, path, f"Too long: may not be more than {limit} {unit}")


def validate_immutable(path: str, new: object, old: object, *, text: object = None) -> list[FieldError]:
    """Refuse a change; `text` is what is shown of the new value where that is not the value itself."""
    return [] if new == old else [invalid(path, new if text is None else text, IMMUTABLE)]


def validate_unmodified(path: str, new: object, old: object, *, detail: str = IMMUTABLE) -> list[FieldError]:
    """Refuse a change as generated validation does, which shows no value."""
    return [] if new == old else [invalid(path, None, detail)]


def invalid_for_each(path: str, value: str, faults: Iterable[str]) -> list[FieldError]:
    """Refuse a text, for each of its faults."""
    return [invalid(path, value, fault) for fault in faults]


def validate_enum(path: str, value: object, known: Collection[str]) -> list[FieldError]:
    """Refuse a value that is none of the known ones; it may not be missing."""
    if not value:
        return [required(path)]
    return [] if value in known else [not_supported(path, value, known)]


def validate_items(
    path: str, items: Sequence[Any], check: Callable[[str, Any], list[FieldError]], *, limit: int | None = None
) -> list[FieldError]:
    """Check all items of a list; one that is too long is refused without looking into it."""
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
    """Refuse items whose key is that of an earlier one; the key is shown, or what `shown` makes of the item."""
    seen: set[Any] = set()
    causes = []
    for index, item in enumerate(items):
        found = key(item)
        if found in seen:
            causes.append(duplicate(f"{path}[{index}]{suffix}", found if shown is None else shown(item)))
        seen.add(found)
    return causes


def validate_non_negative(path: str, holder: Mapping[str, Any], name: str) -> list[FieldError]:
    """Refuse a number below zero."""
    value = holder.get(name)
    if value is None or value >= 0:
        return []
    return [invalid(f"{path}.{name}", value, "must be greater than or equal to 0")]
