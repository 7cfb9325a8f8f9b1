"""The text about a field that a document has and its model does not know: the field that was probably meant."""

import difflib
from collections.abc import Iterable, Sequence
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

from pydantic import BaseModel

UNKNOWN_FIELD: Final = "extra_forbidden"
"""Type of pydantic's error about such a field."""

NEAR: Final = 0.7
"""Similarity from which on another field may be meant: less, and words that share an ending would."""

_TYPED_MAX: Final = 64
"""Characters of a field's name that are compared: the name is a user's."""


def unknown_field_text(model: type[BaseModel], where: Sequence[str | int]) -> str:
    """Return what to say about an unknown field at a position in a document of a model.

    The text names the field that is nearest to what was written; if none is near, all that are valid there.
    """
    known = _known_fields(model, where[:-1])
    by_letters = {name.lower(): name for name in known}
    near = difflib.get_close_matches(str(where[-1])[:_TYPED_MAX].lower(), by_letters, n=1, cutoff=NEAR)
    if near:
        return f"unknown field; did you mean {by_letters[near[0]]}?"
    return f"unknown field; known are {', '.join(known)}" if known else "unknown field"


def _known_fields(model: type[BaseModel], where: Iterable[str | int]) -> list[str]:
    """Return the names of the fields that are valid at a position in a document."""
    at: Any = model
    for step in where:
        if isinstance(at, type) and issubclass(at, BaseModel):
            at = {field.alias or name: field.annotation for name, field in at.model_fields.items()}.get(str(step))
        else:
            at = get_args(at)[-1 if isinstance(step, str) else 0] if get_args(at) else None  # of a map, of a tuple
        at = _bare(at)
    if not (isinstance(at, type) and issubclass(at, BaseModel)):
        return []
    return sorted(field.alias or name for name, field in at.model_fields.items())


def _bare(annotation: Any) -> Any:  # noqa: ANN401 - a type as an annotation has it
    """Return an annotation without None and without what `Annotated` adds."""
    if get_origin(annotation) in (Union, UnionType):
        annotation = next((part for part in get_args(annotation) if part is not type(None)), None)
    return _bare(get_args(annotation)[0]) if hasattr(annotation, "__metadata__") else annotation
