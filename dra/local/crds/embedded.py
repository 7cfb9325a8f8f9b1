"""Whole objects inside of custom objects (``x-kubernetes-embedded-resource``): they need a kind and a version."""

from collections.abc import Iterator
from typing import Final

from dra.local.crds.causes import child
from dra.local.crds.pruning import EMBEDDED, Node, inner
from dra.local.kinds import causes, names, objectmeta
from dra.local.refusals import Cause

_LONGEST_VERSION: Final = 2
"""Parts of an apiVersion."""


def check(value: object, schema: Node | None, path: str = "") -> Iterator[Cause]:
    """Yield what is wrong with the embedded objects of a value."""
    if schema is None:
        return
    if isinstance(value, dict):
        if schema.get(EMBEDDED):
            yield from _resource(value, path)
        properties = schema.get("properties") or {}
        for name, field in value.items():
            here = child(path, name) if name in properties else f"{path}[{name}]"
            yield from check(field, inner(schema, name)[1], here)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from check(item, schema.get("items"), f"{path}[{index}]")


def _resource(value: Node, path: str) -> Iterator[Cause]:
    for name in ("apiVersion", "kind"):
        where, text = child(path, name), value.get(name)
        if name not in value:
            yield causes.required(where)
        elif not isinstance(text, str):
            yield causes.invalid(where, text, "must be a string")
        elif not text:
            yield causes.invalid(where, text, "must not be empty")
        elif name == "apiVersion" and len(text.split("/")) > _LONGEST_VERSION:
            yield causes.invalid(where, text, f"unexpected GroupVersion string: {text}")
        elif name == "kind" and (faults := names.label(text.lower())):
            detail = "may have mixed case, but should otherwise match: " + ",".join(faults)
            yield causes.invalid(where, text, detail)
    meta = value.get("metadata")
    if isinstance(meta, dict):
        yield from objectmeta.validate_template(meta, child(path, "metadata"))
