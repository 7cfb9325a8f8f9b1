"""Why a field is refused, in the words of apimachinery's field errors: ``Invalid value: 0: must be greater than zero``.

A path is the text that users see, ``spec.devices.requests[0].name``; whoever descends appends to it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from dra.local.objects import encode
from dra.local.refusals import Cause, Fault

IMMUTABLE = "field is immutable"
NO_MODIFY = "field cannot be modified once set"

_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def shown(value: object) -> str:
    """Return a value as Go prints it in an error: JSON, with the letters that JSON inside of HTML must not have."""
    text = encode(value).decode()
    return text if isinstance(value, str) else text.translate(_HTML)


def required(path: str, detail: str = "") -> Cause:
    """Refuse that a value is missing."""
    return Cause(Fault.REQUIRED, path, f"Required value: {detail}" if detail else "Required value")


def invalid(path: str, value: object, detail: str) -> Cause:
    """Refuse a value; `detail` may be empty."""
    return Cause(Fault.INVALID, path, f"Invalid value: {shown(value)}" + (f": {detail}" if detail else ""))


def forbidden(path: str, detail: str) -> Cause:
    """Refuse that there is a value."""
    return Cause(Fault.FORBIDDEN, path, f"Forbidden: {detail}")


def unsupported(path: str, value: object, known: Iterable[str]) -> Cause:
    """Refuse a value that is none of the known ones."""
    listed = ", ".join(shown(each) for each in known)
    return Cause(Fault.UNSUPPORTED, path, f"Unsupported value: {shown(value)}: supported values: {listed}")


def duplicate(path: str, value: object) -> Cause:
    """Refuse a value that is there already."""
    return Cause(Fault.DUPLICATE, path, f"Duplicate value: {shown(value)}")


def not_found(path: str, value: object) -> Cause:
    """Refuse a value that refers to nothing."""
    return Cause(Fault.NOT_FOUND, path, f"Not found: {shown(value)}")


def too_many(path: str, count: int, limit: int) -> Cause:
    """Refuse a list for its length."""
    items = "item" if limit == 1 else "items"
    return Cause(Fault.TOO_MANY, path, f"Too many: {count}: must have at most {limit} {items}")


def too_long(path: str, limit: int) -> Cause:
    """Refuse a text for its length."""
    unit = "byte" if limit == 1 else "bytes"
    return Cause(Fault.TOO_LONG, path, f"Too long: may not be more than {limit} {unit}")


def immutable(path: str, new: object, old: object, *, text: object = None) -> list[Cause]:
    """Refuse a change; `text` is what is shown of the new value where that is not the value itself."""
    return [] if new == old else [invalid(path, new if text is None else text, IMMUTABLE)]


def unmodified(path: str, new: object, old: object, *, detail: str = IMMUTABLE) -> list[Cause]:
    """Refuse a change as generated validation does, which shows no value."""
    return [] if new == old else [invalid(path, None, detail)]


def texts(path: str, value: str, faults: Iterable[str]) -> list[Cause]:
    """Refuse a text, for each of its faults."""
    return [invalid(path, value, fault) for fault in faults]


def one_of(path: str, value: object, known: Collection[str]) -> list[Cause]:
    """Refuse a value that is none of the known ones; it may not be missing."""
    if not value:
        return [required(path)]
    return [] if value in known else [unsupported(path, value, known)]


def each(
    path: str, items: Sequence[Any], check: Callable[[str, Any], list[Cause]], *, limit: int | None = None
) -> list[Cause]:
    """Check all items of a list; one that is too long is refused without looking into it."""
    if limit is not None and len(items) > limit:
        return [too_many(path, len(items), limit)]
    return [cause for index, item in enumerate(items) for cause in check(f"{path}[{index}]", item)]


def unique(
    path: str,
    items: Sequence[Any],
    key: Callable[[Any], Any],
    *,
    suffix: str = "",
    shown: Callable[[Any], Any] | None = None,
) -> list[Cause]:
    """Refuse items whose key is that of an earlier one; the key is shown, or what `shown` makes of the item."""
    seen: set[Any] = set()
    causes = []
    for index, item in enumerate(items):
        found = key(item)
        if found in seen:
            causes.append(duplicate(f"{path}[{index}]{suffix}", found if shown is None else shown(item)))
        seen.add(found)
    return causes


def not_negative(path: str, holder: Mapping[str, Any], name: str) -> list[Cause]:
    """Refuse a number below zero."""
    value = holder.get(name)
    if value is None or value >= 0:
        return []
    return [invalid(f"{path}.{name}", value, "must be greater than or equal to 0")]
