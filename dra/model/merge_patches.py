"""JSON merge patches (RFC 7386), as API servers apply these to objects."""

from collections.abc import Mapping
from typing import Any


def merged(target: object, patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON value with a patch applied: null removes a field, and what is no object becomes one."""
    result = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value) if isinstance(value, Mapping) else value
    return result
