"""What one value may look like: the type that everything reads that must know structure.

Strict decoding, strategic patches, server-side apply and OpenAPI take a `Schema`, whether the kind is built in
(`structures`, from data) or custom (`of_openapi`, from the definition's own schema). Schemas of built-in kinds are
cyclic, so they are compared by identity and never copied deeply.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final


class ElementRelationship(StrEnum):
    """``x-kubernetes-list-type``, ``x-kubernetes-map-type``: how parts of a value are owned and merged."""

    ATOMIC = "atomic"
    SET = "set"
    MAP = "map"
    GRANULAR = "granular"


class Omission(StrEnum):
    """When Go leaves a field out."""

    EMPTY = "empty"
    """``omitempty``: null, false, 0, "", an empty list or map; never a struct that is no pointer."""

    ZERO = "zero"
    """``omitzero``: also a struct whose fields are all zero."""

    ALWAYS = "always"
    """Never left out: written as null, "" or {} even if nobody gave it a value."""


_NO_FIELDS: Final[Mapping[str, "Schema"]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schema:
    """One node of the structure of a kind."""

    type: str = ""
    """``object``, ``array``, ``string``, ``integer``, ``number``, ``boolean``; empty: anything."""
    format: str = ""
    """Of scalars: ``int32``, ``int64``, ``double``, ``byte``, ``date-time``, ``int-or-string``, ``quantity``, …"""
    fields: Mapping[str, "Schema"] = field(default_factory=lambda: _NO_FIELDS)
    """Of an object with known fields."""
    values: "Schema | None" = None
    """Of an object that is a map: what its values are."""
    items: "Schema | None" = None
    """Of an array."""
    preserve: bool = False
    """Whether unknown fields are kept (``x-kubernetes-preserve-unknown-fields``); known ones are still checked."""
    embedded: bool = False
    """Whether it is an object of the API with its own apiVersion, kind and metadata."""
    required: tuple[str, ...] = ()
    nullable: bool = False
    enum: tuple[Any, ...] = ()
    default: Any = None
    collection: ElementRelationship = ElementRelationship.ATOMIC
    """Of arrays ATOMIC, SET or MAP; of objects GRANULAR or ATOMIC."""
    keys: tuple[str, ...] = ()
    """Of an array that is a map: the fields that tell its elements apart."""
    merge_key: str = ""
    """``x-kubernetes-patch-merge-key``."""
    strategies: frozenset[str] = frozenset()
    """``x-kubernetes-patch-strategy``: ``merge``, ``replace``, ``retainKeys``."""
    definition: str = ""
    """The name in OpenAPI of the type this is: ``io.k8s.api.core.v1.PodSpec``; empty for what is written in place."""
    go: str = ""
    """The type of the field in Go, which error texts name: ``[]v1.Container``; empty unless built in."""
    omission: Omission = Omission.EMPTY
    within: str = ""
    """The embedded Go struct that the field comes from."""
    kinds: tuple[tuple[str, str, str], ...] = ()
    """Group, version and kind of the objects that look like this."""

    @property
    def pointer(self) -> bool:
        """Whether Go tells an empty value from none."""
        return self.go.startswith("*")

    @property
    def is_map(self) -> bool:
        """Whether it is an object with any keys and values of one kind."""
        return self.values is not None
