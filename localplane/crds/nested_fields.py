"""Simple JSONPaths, ``.spec.replicas``: what definitions use for scale and for selectable fields."""

from typing import Any

from localplane.objects import Object


def nested_field(obj: Object, path: str) -> Any:  # noqa: ANN401 - whatever lies there
    """Return what lies at a path, None if nothing does."""
    found: Any = obj
    for name in path.removeprefix(".").split("."):
        if not isinstance(found, dict):
            return None
        found = found.get(name)
    return found


def set_nested_field(obj: Object, path: str, value: object) -> None:
    """Put a value at a path."""
    *way, last = path.removeprefix(".").split(".")
    for name in way:
        if not isinstance(obj.get(name), dict):
            obj[name] = {}
        obj = obj[name]
    obj[last] = value
