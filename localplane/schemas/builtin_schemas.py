"""Loads the schemas of built-in kinds, recorded from a real API server (`python -m tests.cluster.schemas`).

The types are those of the newest release that the plane emulates; older releases are served with the same types.

There are two dialects: Kubernetes' own fields, and these with the fields of KEP-5194. The data file is read on first
use, and each type when it is first needed.
"""

from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Final

import msgspec

from localplane.objects import Object
from localplane.schemas.openapi_reader import REF_PREFIX, OpenApiReader
from localplane.schemas.schema import Schema


class Dialect(StrEnum):
    """API dialects, which select the known fields: the values of ``--api``."""

    STOCK = "stock"
    KEP = "kep"


_RESOURCE: Final = "io.k8s.api.resource.v1."
_CONSUMER_REFERENCE: Final = f"{_RESOURCE}ResourceClaimConsumerReference"

_KEP_FIELDS: Final[dict[str, dict[str, Object]]] = {
    f"{_RESOURCE}ResourceClaimSpec": {
        "reservedFor": {
            "allOf": [{"$ref": REF_PREFIX + _CONSUMER_REFERENCE}],
            "x-go": "*v1.ResourceClaimConsumerReference empty",
        },
    },
    f"{_RESOURCE}AllocationResult": {"reservedForAnyPod": {"type": "boolean", "x-go": "*bool empty"}},
}
"""Fields that KEP-5194 adds; claims and claim templates share the type of their spec."""

OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
DELETE_OPTIONS: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"


class BuiltinSchemas:
    """The schemas of all built-in types in one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        definitions = dict(_recorded_definitions())
        if dialect is Dialect.KEP:
            for name, fields in _KEP_FIELDS.items():
                definitions[name] = definitions[name] | {"properties": definitions[name]["properties"] | fields}
        self.definitions: Final[dict[str, Object]] = definitions
        """OpenAPI definitions by name; read-only."""
        self._reader: Final = OpenApiReader(definitions)
        self._names: Final = {
            (kind["group"], kind["version"], kind["kind"]): name
            for name, definition in definitions.items()
            for kind in definition.get("x-kubernetes-group-version-kind", ())
            if len(definition["x-kubernetes-group-version-kind"]) == 1
        }

    def find(self, group: str, version: str, kind: str) -> Schema | None:
        """Return the schema of a built-in kind, None if there is none."""
        name = self.name(group, version, kind)
        return None if name is None else self._reader.definition(name)

    def name(self, group: str, version: str, kind: str) -> str | None:
        """Return the OpenAPI name of a built-in kind, None if there is none."""
        return self._names.get((group, version, kind))

    def definition(self, name: str) -> Schema:
        """Return the schema of a type by its OpenAPI name."""
        return self._reader.definition(name)


@cache
def load_builtin_schemas(dialect: Dialect) -> BuiltinSchemas:
    """Return the schemas of a dialect; cached."""
    return BuiltinSchemas(dialect)


def recorded_version() -> str:
    """Return the version of Kubernetes whose types were recorded, such as ``v1.37.1``."""
    return str(_recorded_structures()["kubernetes"])


def _recorded_definitions() -> dict[str, Object]:
    definitions: dict[str, Object] = _recorded_structures()["definitions"]
    return definitions


@cache
def _recorded_structures() -> Object:
    raw = resources.files(__package__).joinpath("structures.json").read_bytes()
    structures: Object = msgspec.json.decode(raw)
    return structures
