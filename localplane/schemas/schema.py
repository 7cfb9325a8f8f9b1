"""Defines `Schema`, the structure of values, for all code that depends on structure.

Strict decoding, strategic patches, server-side apply and OpenAPI take a `Schema`, whether the kind is built in
(`builtin_schemas`, from recorded data) or custom (`openapi_reader.custom_resource_schema`, from the schema of the
definition). Schemas of built-in kinds are cyclic: compare by identity, and never copy deeply.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final


class ElementRelationship(StrEnum):
    """Values of ``x-kubernetes-list-type`` and ``x-kubernetes-map-type``: how parts of a value are owned and merged."""

    ATOMIC = "atomic"
    SET = "set"
    MAP = "map"
    GRANULAR = "granular"


class Omission(StrEnum):
    """Conditions under which Go omits a field, by struct tag."""

    EMPTY = "empty"
    """``omitempty`` omits null, false, 0, "", an empty list or map; never a struct that is no pointer."""

    ZERO = "zero"
    """``omitzero`` also omits a struct whose fields are all zero."""

    ALWAYS = "always"
    """Without a tag, an absent field is written as null, "" or {}."""


_NO_FIELDS: Final[Mapping[str, "Schema"]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schema:
    """The schema of one value in the structure of a kind."""

    type: str = ""
    """JSON type: ``object``, ``array``, ``string``, ``integer``, ``number``, ``boolean``; empty for any."""
    format: str = ""
    """Scalar format: ``int32``, ``int64``, ``double``, ``byte``, ``date-time``, ``int-or-string``, ``quantity``, …"""
    fields: Mapping[str, "Schema"] = field(default_factory=lambda: _NO_FIELDS)
    """Schemas of the known fields of an object."""
    values: "Schema | None" = None
    """Schema of the values of a map."""
    items: "Schema | None" = None
    """Schema of the elements of an array."""
    preserve: bool = False
    """Whether unknown fields are kept (``x-kubernetes-preserve-unknown-fields``); known ones are still checked."""
    embedded: bool = False
    """Whether the value is an embedded API object with its own apiVersion, kind and metadata."""
    required: tuple[str, ...] = ()
    nullable: bool = False
    enum: tuple[Any, ...] = ()
    default: Any = None
    relationship: ElementRelationship = ElementRelationship.ATOMIC
    """ATOMIC, SET or MAP for an array; GRANULAR or ATOMIC for an object."""
    list_map_keys: tuple[str, ...] = ()
    """Key fields of the elements, for an array of type map."""
    merge_key: str = ""
    """Merge key of strategic merge patch (``x-kubernetes-patch-merge-key``)."""
    patch_strategies: frozenset[str] = frozenset()
    """Strategies of strategic merge patch (``x-kubernetes-patch-strategy``): ``merge``, ``replace``, ``retainKeys``."""
    definition: str = ""
    """OpenAPI name of the type: ``io.k8s.api.core.v1.PodSpec``; empty for an inline schema."""
    go_type: str = ""
    """Go type of the field, for error messages: ``[]v1.Container``; empty for custom kinds."""
    omission: Omission = Omission.EMPTY
    embedded_struct: str = ""
    """Name of the embedded Go struct that declares the field, if any."""
    kinds: tuple[tuple[str, str, str], ...] = ()
    """Group, version and kind of the objects with this schema."""

    @property
    def pointer(self) -> bool:
        """Return whether the Go field is a pointer, which distinguishes an empty value from an absent one."""
        return self.go_type.startswith("*")

    @property
    def is_map(self) -> bool:
        """Return whether the value is a map: an object with arbitrary keys and values of one schema."""
        return self.values is not None
