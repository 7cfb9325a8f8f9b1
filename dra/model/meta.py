"""Object metadata, names and the base of all structs."""

from typing import Any, NewType, TypeAlias

import msgspec

Uid = NewType("Uid", str)
"""``metadata.uid``: the identity of an object. Names come back with other objects behind them, uids never."""

Key: TypeAlias = tuple[str, str]
"""(namespace, name); the namespace is empty for cluster-scoped objects."""


class Struct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """Base of all API structs: immutable, camelCase on the wire, unknown fields ignored.

    ``gc=False``: API objects are trees, so the cycle collector need not walk a hundred thousand of them.
    """


class OwnerReference(Struct, frozen=True):
    """``metadata.ownerReferences[]``."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: Uid = Uid("")
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Struct, frozen=True):
    """``metadata``, without managedFields (the bulk of it, and nobody here reads it)."""

    name: str = ""
    namespace: str = ""
    uid: Uid = Uid("")
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[OwnerReference] | None = None

    @property
    def key(self) -> Key:
        """(namespace, name)."""
        return (self.namespace, self.name)

    @property
    def deleting(self) -> bool:
        """Whether deletion has been asked for."""
        return self.deletion_timestamp is not None

    def annotation(self, key: str) -> str | None:
        """Return the annotation or None; an object without any has no map at all."""
        return self.annotations.get(key) if self.annotations else None


class PartialObjectMetadata(Struct, frozen=True):
    """An object of any kind of which only the metadata is known (``PartialObjectMetadata``)."""

    metadata: ObjectMeta


class RawObject(msgspec.Struct, gc=False):
    """An object of any kind: metadata typed, the whole of it as the server sent it."""

    metadata: ObjectMeta
    raw: bytes
    """Empty once nobody needs it any more."""


class UnstructuredObject(Struct, frozen=True):
    """An object of any kind: metadata typed, the whole of it as plain data for CEL rules."""

    metadata: ObjectMeta
    content: dict[str, Any]
