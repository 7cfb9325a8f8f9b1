"""Exchanges recorded from a real kube-apiserver 1.37.1, and the objects in them without what differs each time."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localplane.kinds.builtin import builtin_kinds
from localplane.kinds.catalog import Catalog
from localplane.kinds.kind import Kind
from localplane.schemas import openapi_reader
from localplane.schemas.builtin_schemas import OBJECT_META, Dialect, load_builtin_schemas

_VOLATILE = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")


@dataclass(frozen=True)
class Exchange:
    """One request and its answer."""

    name: str
    method: str
    path: str
    query: dict[str, str]
    content_type: str | None
    body: str | None
    status: int
    warnings: list[str]
    answer: Any

    @property
    def raw(self) -> bytes:
        return (self.body or "").encode()

    @property
    def message(self) -> str | None:
        return self.answer["message"] if self.status >= 400 else None


def _load() -> dict[str, Exchange]:
    file = Path(__file__).with_name("schemas") / "recorded.json"
    return {each["name"]: Exchange(**each) for each in json.loads(file.read_text(encoding="utf-8"))}


EXCHANGES = _load()


def named(*beginnings: str) -> list[Exchange]:
    """Return the exchanges whose names begin so, in the order they were made."""
    return [each for name, each in EXCHANGES.items() if name.startswith(beginnings)]


def custom_kind() -> Kind:
    """Return the custom kind of the recordings."""
    definition = json.loads(EXCHANGES["make-crd"].raw)
    schema = openapi_reader.custom_resource_schema(
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
        metadata=load_builtin_schemas(Dialect.STOCK).definition(OBJECT_META),
        kind=("example.com", "v1", "R"),
    )
    return Kind(group="example.com", plural="rs", name="R", is_custom=True, schema=schema)


def catalog() -> Catalog:
    """Return the kinds of the recordings."""
    found = Catalog(builtin_kinds())
    found.add(custom_kind())
    if found.find("apiextensions.k8s.io", "v1", "customresourcedefinitions") is None:
        found.add(
            Kind(
                group="apiextensions.k8s.io",
                plural="customresourcedefinitions",
                name="CustomResourceDefinition",
                namespaced=False,
            )
        )
    return found


def lasting(obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object without what the server gave it anew."""
    meta = {name: each for name, each in obj["metadata"].items() if name not in _VOLATILE}
    return obj | {"metadata": meta}


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield where an object of ours contradicts a recorded one, which may say more: the real server has defaults."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            yield from differences(value, theirs.get(key, "nothing"), f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif ours and ours != theirs:
        yield path, ours, theirs
