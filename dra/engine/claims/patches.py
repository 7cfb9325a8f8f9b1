"""Convert actions into JSON merge patches.

A merge patch leaves unnamed fields alone, so fields that this version does not know survive. The controller adds
``metadata.resourceVersion``, which makes each patch a compare-and-swap. Only `AddEntries` goes without. Tombstones are
a strategic merge patch, which adds to a list by its key. Other entries are a JSON patch that tests the annotation
`workload_reservations.ENTERED_ALLOCATION`: such a patch may arrive late, after the owner of the workload has released
the claim.
"""

from collections.abc import Set as AbstractSet
from typing import Any, assert_never

import msgspec

from dra.engine.claims.actions import AddEntries, ClaimWrite, Deallocate, PatchMetadata, SetReservedFor
from dra.engine.claims.view import TOMBSTONE_RESOURCE
from dra.model import workload_reservations
from dra.model.claims import ResourceClaim, ResourceClaimStatus
from dra.model.meta import Uid

LISTED_AT = "reserve.dra/listed-at"
"""Annotation whose change makes the kubelet sync a pod again."""


def subresource(write: ClaimWrite) -> str | None:
    """Return the subresource of a write.

    Status writes cannot change metadata, and metadata writes cannot change the status.
    """
    return None if isinstance(write, PatchMetadata) else "status"


def merge_patch_of(write: ClaimWrite) -> dict[str, Any]:
    """Return the merge patch of a claim write, without the resourceVersion."""
    match write:
        case SetReservedFor(entries=entries) | AddEntries(entries=entries):
            return {"status": {"reservedFor": msgspec.to_builtins(entries)}}
        case Deallocate():
            return {"status": {"allocation": None, "reservedFor": None, "devices": None}}
        case PatchMetadata(annotations=annotations, finalizers=finalizers, owners=owners):
            metadata: dict[str, Any] = {}
            if annotations:
                metadata["annotations"] = dict(annotations)
            if finalizers is not None:
                metadata["finalizers"] = list(finalizers)
            if owners is not None:
                metadata["ownerReferences"] = msgspec.to_builtins(owners)
            return {"metadata": metadata}
        case _:
            assert_never(write)


def is_merged_by_uid(write: AddEntries) -> bool:
    """Return whether the entries are added by a strategic merge patch: tombstones may arrive at any time."""
    return all(entry.resource == TOMBSTONE_RESOURCE for entry in write.entries)


def entries_json_patch(write: AddEntries, before: ResourceClaim) -> list[dict[str, Any]]:
    """Return the JSON patch that adds entries, valid if no entry was made since ``before`` and the claim is the same.

    The annotation `workload_reservations.ENTERED_ALLOCATION` is written after each entry, so its value has changed by
    the time that the owner could have released an entry.
    """
    meta = before.metadata
    if meta.annotations:
        mark = {
            "path": f"/metadata/annotations/{_escaped(workload_reservations.ENTERED_ALLOCATION)}",
            "value": meta.annotation(workload_reservations.ENTERED_ALLOCATION),
        }
    else:
        mark = {"path": "/metadata/annotations", "value": None}
    entries = msgspec.to_builtins(write.entries)
    if before.entries:
        added = [{"op": "add", "path": "/status/reservedFor/-", "value": entry} for entry in entries]
    else:
        added = [
            {"op": "test", "path": "/status/reservedFor", "value": None},
            {"op": "add", "path": "/status/reservedFor", "value": entries},
        ]
    return [{"op": "test", "path": "/metadata/uid", "value": meta.uid}, {"op": "test", **mark}, *added]


def _escaped(key: str) -> str:
    """Return an annotation key escaped for a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def ungate_patch(other_gates: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the merge patch that removes this project's gate from a pod; a merge patch replaces the whole list."""
    return {"spec": {"schedulingGates": [{"name": gate} for gate in other_gates] or None}}


def resync_patch(stamp: str) -> dict[str, Any]:
    """Return the merge patch that makes the kubelet sync a pod again; ``stamp`` must differ from the previous value."""
    return {"metadata": {"annotations": {LISTED_AT: stamp}}}


def describe_write(write: ClaimWrite, before: ResourceClaim) -> str:
    """Return one log line that describes the changes of a claim write."""
    name = "/".join(before.metadata.key)
    match write:
        case SetReservedFor(entries=entries):
            old, new = {e.uid for e in before.entries}, {e.uid for e in entries}
            return f"claim {name}: {len(new)} entries, {len(new - old)} added, {len(old - new)} removed"
        case AddEntries(entries=entries):
            return f"claim {name}: entered whatever is listed: {', '.join(str(e) for e in entries)}"
        case Deallocate():
            return f"claim {name}: deallocated"
        case PatchMetadata(annotations=annotations):
            return f"claim {name}: annotations {', '.join(key for key, _ in annotations) or 'unchanged'}"
        case _:
            assert_never(write)


def only_removes_entries(write: ClaimWrite, listed: AbstractSet[Uid]) -> bool:
    """Return whether no pod waits for the write: it removes entries of the list and adds none."""
    return isinstance(write, SetReservedFor) and {entry.uid for entry in write.entries} <= listed


def is_written(write: ClaimWrite, *, before: ResourceClaim, after: ResourceClaim) -> bool:
    """Return whether a claim has exactly the state that a write should have produced.

    Then a chain of writes may continue from its version.
    """
    expected = apply_write(before, write)
    return _written_state(after) == _written_state(expected)


def _written_state(claim: ResourceClaim) -> object:
    meta = claim.metadata
    return (meta.uid, meta.annotations or {}, meta.finalizers or [], claim.status)


def apply_write(claim: ResourceClaim, write: ClaimWrite) -> ResourceClaim:
    """Return the claim as it is after a write, for dry runs and simulation; the resourceVersion stays unchanged."""
    match write:
        case SetReservedFor(entries=entries):
            status = msgspec.structs.replace(claim.status, reserved_for=list(entries))
            return msgspec.structs.replace(claim, status=status)
        case AddEntries(entries=entries):
            merged = {e.uid: e for e in (*claim.entries, *entries)}
            return apply_write(claim, SetReservedFor(claim=claim.metadata.key, entries=tuple(merged.values())))
        case Deallocate():
            return msgspec.structs.replace(claim, status=ResourceClaimStatus())
        case PatchMetadata(annotations=annotations, finalizers=finalizers, owners=owners):
            meta = claim.metadata
            given = {**(meta.annotations or {}), **dict(annotations)}
            kept = {key: value for key, value in given.items() if value is not None}
            meta = msgspec.structs.replace(meta, annotations=kept)
            if finalizers is not None:
                meta = msgspec.structs.replace(meta, finalizers=list(finalizers))
            if owners is not None:
                meta = msgspec.structs.replace(meta, owner_references=list(owners))
            return msgspec.structs.replace(claim, metadata=meta)
        case _:
            assert_never(write)
