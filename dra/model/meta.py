"""Object metadata, names and the base of all structs."""

from typing import Any, NewType, Self, TypeAlias

import msgspec

Uid = NewType("Uid", str)
"""``metadata.uid``: the identity of an object. A name can return with another object behind it, a uid never does."""

Key: TypeAlias = tuple[str, str]
"""(namespace, name) of an object; the namespace is empty for cluster-scoped objects."""


class Struct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """The base of all API structs: immutable, camelCase on the wire, unknown fields ignored.

    ``gc=False``: API objects are trees, so the cycle collector need not walk a hundred thousand of them.
    """


class OwnerReference(Struct, frozen=True):
    """``metadata.ownerReferences[]`` of an object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: Uid = Uid("")
    controller: bool | None = None
    """None: not given, which is no controller either, and yet not what a Reservation's owner with ``false`` means."""
    block_owner_deletion: bool = False


class ObjectMeta(Struct, frozen=True):
    """``metadata`` of an object without managedFields, which are its largest part and which only audits read."""

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
        """The pair (namespace, name) of the object."""
        return (self.namespace, self.name)

    @property
    def controller(self) -> OwnerReference | None:
        """The owner reference that is marked as the controller's, of which there is at most one; else None."""
        for owner in self.owner_references or ():  # asked for each pod many times in a round of the descheduler
            if owner.controller:
                return owner
        return None

    @property
    def deleting(self) -> bool:
        """Whether deletion of the object was requested."""
        return self.deletion_timestamp is not None

    def annotation(self, key: str) -> str | None:
        """Return the value of an annotation; None if the object does not have the annotation."""
        return self.annotations.get(key) if self.annotations else None


class BoundedObject(Struct, frozen=True):
    """The base of objects whose size their authors decide: an object that takes too much memory is not decoded.

    See `dra.kube.object_sizes`.
    """

    def reduced(self) -> Self | None:
        """Return the object without parts that can be left out; None if every part is needed."""
        return None


class PartialObjectMetadata(BoundedObject, frozen=True):
    """An object of any kind with only its metadata (``PartialObjectMetadata``)."""

    metadata: ObjectMeta


class RawObject(msgspec.Struct, gc=False):
    """An object of any kind, with typed metadata and the bytes that the server sent."""

    metadata: ObjectMeta
    raw: bytes
    """The whole object in JSON; emptied once no code needs it any longer."""


class IncompleteContent(dict[str, Any]):
    """The content of an object that is too large: its identity and its status, without a spec."""

    def __init__(self, content: dict[str, Any], *, fault: str) -> None:
        """Create the content; ``fault`` is why the rest is missing."""
        super().__init__(content)
        self.fault = fault


def content_fault(content: object) -> str:
    """Return why a part of an object's content is missing; empty if the content is whole."""
    return content.fault if isinstance(content, IncompleteContent) else ""


class UnstructuredObject(Struct, frozen=True):
    """An object of any kind, with typed metadata and the whole content as plain data for CEL rules."""

    metadata: ObjectMeta
    content: dict[str, Any]
