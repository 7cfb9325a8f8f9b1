"""JSON merge patch (RFC 7386)."""

from functools import partial

from dra.local.objects import Mutation, Object


def mutation(patch: Object) -> Mutation:
    """Return what the patch does to an object."""
    return partial(_merged, patch)


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
