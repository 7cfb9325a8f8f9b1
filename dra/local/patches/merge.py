"""JSON merge patch (RFC 7386)."""

from functools import partial
from typing import Any

from dra.local import refusals
from dra.local.objects import Mutation, Object
from dra.local.schemas.decoding import word


def mutation(patch: Object) -> Mutation:
    """Return what the patch does to an object."""
    return partial(_merged, patch)


def checked(body: Any) -> Object:  # noqa: ANN401 - JSON
    """Return a patch that is an object; raises `Refusal` 400 for any other value."""
    if not isinstance(body, dict):
        what = f"json: cannot unmarshal {word(body)} into Go value of type map[string]interface {{}}"
        raise refusals.bad_request(f"error decoding patch: {what}")
    return body


def _merged(patch: Object, target: Object) -> Object:
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        elif isinstance(value, dict):
            inner = target.get(name)
            target[name] = _merged(value, inner if isinstance(inner, dict) else {})
        else:
            target[name] = value
    return target
