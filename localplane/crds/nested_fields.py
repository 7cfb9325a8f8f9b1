"""Reads and writes fields by simple JSONPaths such as ``.spec.replicas``, for scale and selectable fields."""

from typing import Any

from localplane.objects import Object


def nested_field(obj: Object, path: str) -> Any:  # noqa: ANN401 - whatever lies there
    """Return the value at a path, None if there is none."""
    found: Any = obj
    for name in path.removeprefix(".").split("."):
        if not isinstance(found, dict):
            return None
        found = found.get(name)
    return found


def set_nested_field(obj: Object, path: str, value: object) -> None:
    """Set the value at a path; create the objects on the way."""
    *way, last = path.removeprefix(".").split(".")
    for name in way:
        if not isinstance(obj.get(name), dict):
            obj[name] = {}
        obj = obj[name]
    obj[last] = value
