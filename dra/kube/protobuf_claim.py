"""Claims in the API server's protobuf form, changed without altering any byte of the rest.

The ``opaque.parameters`` for a driver are stored exactly as they were sent, spaces included, and are immutable. But a
response in JSON has lost these spaces, and so has an object that a JSON patch was applied to. So the API server takes
every JSON write on such a claim for a change of it, and refuses it with 422: a claim that a Python client created,
whose ``json.dumps`` inserts spaces, cannot even be annotated by kubectl (seen on 1.36.3). Upstream's components use
protobuf and are not affected.

Only the fields that this project writes are declared here; protobuf keeps all others unchanged.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from dra.model import annotations
from dra.model.claims import ResourceClaim

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"

_MAGIC: Final = b"k8s\0"

_PACKAGE: Final = "dra_reserve.exact"

_Message: TypeAlias = Any  # classes made at run time

_Kind: TypeAlias = "descriptor_pb2.FieldDescriptorProto.Type.ValueType | str"  # a scalar, or the name of a message

_STRING: Final = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
_BYTES: Final = descriptor_pb2.FieldDescriptorProto.TYPE_BYTES
_BOOL: Final = descriptor_pb2.FieldDescriptorProto.TYPE_BOOL

_MESSAGES: Final[dict[str, dict[str, tuple[int, _Kind, bool]]]] = {
    # k8s.io/apimachinery/pkg/runtime/generated.proto
    "Unknown": {"raw": (2, _BYTES, False)},
    # k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto; a map is a list of pairs
    "ObjectMeta": {
        "uid": (5, _STRING, False),
        "resource_version": (6, _STRING, False),
        "deletion_timestamp": (9, _BYTES, False),
        "annotations": (12, "Pair", True),
        "owner_references": (13, "Owner", True),
        "finalizers": (14, _STRING, True),
    },
    "Owner": {
        "kind": (1, _STRING, False),
        "name": (3, _STRING, False),
        "uid": (4, _STRING, False),
        "api_version": (5, _STRING, False),
        "controller": (6, _BOOL, False),
        "block_owner_deletion": (7, _BOOL, False),
    },
    "Pair": {"key": (1, _STRING, False), "value": (2, _STRING, False)},
    # k8s.io/api/resource/v1/generated.proto
    "ResourceClaim": {"metadata": (1, "ObjectMeta", False), "status": (3, "Status", False)},
    "Status": {"allocation": (1, _BYTES, False), "reserved_for": (2, "Entry", True), "devices": (4, _BYTES, True)},
    "Entry": {
        "api_group": (1, _STRING, False),
        "resource": (3, _STRING, False),
        "name": (4, _STRING, False),
        "uid": (5, _STRING, False),
    },
}
"""Fields of each message: name → (number, type, whether it is repeated)."""


def _classes() -> dict[str, _Message]:
    file = descriptor_pb2.FileDescriptorProto(name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind, repeated) in fields.items():
            field_type = descriptor_pb2.FieldDescriptorProto
            added = message.field.add(
                name=field,
                number=number,
                label=field_type.LABEL_REPEATED if repeated else field_type.LABEL_OPTIONAL,
            )
            if isinstance(kind, str):
                added.type, added.type_name = field_type.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                added.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES
    }


_CLASSES: Final = _classes()


class ProtobufClaim:
    """A claim in protobuf, some fields of which can be changed."""

    def __init__(self, body: bytes) -> None:
        """Decode a response of the API server; raises ValueError if it is not protobuf."""
        if not body.startswith(_MAGIC):
            raise ValueError("the answer is not in Kubernetes' protobuf form")
        self._envelope = _CLASSES["Unknown"].FromString(body.removeprefix(_MAGIC))
        self._claim = _CLASSES["ResourceClaim"].FromString(self._envelope.raw)

    @property
    def uid(self) -> str:
        """Return the ``metadata.uid`` of the claim."""
        return str(self._claim.metadata.uid)

    @property
    def resource_version(self) -> str:
        """Return the ``metadata.resourceVersion`` of the claim."""
        return str(self._claim.metadata.resource_version)

    def is_like(self, claim: ResourceClaim) -> bool:
        """Return whether a decision on `claim` also holds for this version: all fields that a decision reads are equal.

        An allocation cannot be replaced by another one while the list of entries stays the same.
        """
        metadata, status = self._claim.metadata, self._claim.status
        entries = [(entry.api_group, entry.resource, entry.name, entry.uid) for entry in status.reserved_for]
        return (
            metadata.uid == claim.metadata.uid
            and annotations.retained_annotations({pair.key: pair.value for pair in metadata.annotations})
            == annotations.retained_annotations(claim.metadata.annotations or {})
            and list(metadata.finalizers) == list(claim.metadata.finalizers or ())
            and metadata.HasField("deletion_timestamp") == claim.metadata.deleting
            and status.HasField("allocation") == (claim.status.allocation is not None)
            and bool(entries)
            and entries == [(entry.api_group, entry.resource, entry.name, entry.uid) for entry in claim.entries]
        )

    def apply(self, patch: Mapping[str, Any]) -> None:
        """Apply a JSON merge patch of this project; raises KeyError for fields that no such patch has."""
        for part, fields in patch.items():
            change = {"metadata": self._change_metadata, "status": self._change_status}[part]
            for field, value in fields.items():
                change(field, value)

    def encode(self) -> bytes:
        """Return the claim in the form that can be written."""
        self._envelope.raw = self._claim.SerializeToString()
        return _MAGIC + bytes(self._envelope.SerializeToString())

    def _change_metadata(self, field: str, value: Any) -> None:  # noqa: ANN401 - of a JSON patch
        metadata = self._claim.metadata
        if field == "finalizers":
            metadata.finalizers[:] = value or ()
            return
        if field == "ownerReferences":
            del metadata.owner_references[:]
            for owner in value or ():
                names = {"api_version": "apiVersion", "block_owner_deletion": "blockOwnerDeletion"}
                fields = ("kind", "name", "uid", "api_version", "controller", "block_owner_deletion")
                given = {name: owner.get(names.get(name, name)) for name in fields}
                metadata.owner_references.add(**{name: value for name, value in given.items() if value is not None})
            return
        if field != "annotations":
            raise KeyError(field)
        kept = {pair.key: pair.value for pair in metadata.annotations} | value
        del metadata.annotations[:]
        for key, text in kept.items():
            if text is not None:
                metadata.annotations.add(key=key, value=text)

    def _change_status(self, field: str, value: Any) -> None:  # noqa: ANN401 - likewise
        status = self._claim.status
        if field == "reservedFor":
            del status.reserved_for[:]
            for entry in value or ():
                status.reserved_for.add(
                    api_group=entry.get("apiGroup", ""),
                    resource=entry["resource"],
                    name=entry["name"],
                    uid=entry["uid"],
                )
        elif field in {"allocation", "devices"} and value is None:
            status.ClearField(field)
        else:
            raise KeyError(field)
