"""The workload a claim is reserved for: the KEP's fields, in whichever form the API server can carry them.

An API server that knows KEP-5194 has ``spec.reservedFor`` and ``status.allocation.reservedForAnyPod``; a stock one
drops both, so they live in annotations there (specs/kep-5194.md, "Carrying the fields"). The fields win. Nothing
outside this module knows that there are two forms.
"""

import hashlib
from typing import Any, Final

import msgspec

from dra.model.claims import AllocationResult, DeviceRequestAllocationResult, ResourceClaim
from dra.model.meta import Struct, Uid
from dra.model.references import ConsumerReference

RESERVED_FOR: Final = "reserve.dra/reserved-for"
"""Set by the creator of the claim: ``RESOURCE[.GROUP]/NAME``."""

RESERVED_FOR_UID: Final = "reserve.dra/reserved-for-uid"
"""The uid of that object; left out when the claim comes before the workload, then written back by the controller."""

RESOLVED_UID: Final = "reserve.dra/resolved-uid"
"""The same uid again if the controller filled it in: such a one is forgotten at release, the creator's never."""

RESOLVED_FOR: Final = "reserve.dra/resolved-for"
"""The reference for which the controller found that uid: after the reference is edited the uid is another object's."""

RESERVED_FOR_ANY_POD: Final = "reserve.dra/reserved-for-any-pod"
"""``"true"`` stands for ``status.allocation.reservedForAnyPod``."""

ENTERED_ALLOCATION: Final = "reserve.dra/entered-allocation"
"""Digest of the allocation the workload entry was made for: a missing entry was then released by its owner."""

PRE_LIST: Final = "reserve.dra/pre-list"
"""``"true"`` on a claim without a workload, or on a pod: waiting pods are listed before they are scheduled."""

FORCE_RELEASE: Final = "reserve.dra/force-release"
"""Set by a person, to the claim's own uid: what cannot be known for certain shall not keep the claim any more."""

NO_UID: Final = Uid("")
"""An identity that is not known yet."""

RESOLVED_UID_ANNOTATIONS: Final = frozenset({RESERVED_FOR_UID, RESOLVED_UID, RESOLVED_FOR})
"""Annotations that remember a uid found by the controller."""

_ENTRY_ANNOTATIONS: Final = (RESERVED_FOR_ANY_POD, ENTERED_ALLOCATION)


class WorkloadReservation(Struct, frozen=True):
    """What a claim says about the workload it is reserved for."""

    reference: ConsumerReference
    """The workload; its uid is empty as long as nobody has told it."""

    native: bool = False
    """Whether the API server has the KEP's fields: then the scheduler makes the entry with the allocation."""

    any_pod: bool = False
    """Whether any pod that references the claim may use the present allocation, listed or not."""

    entered: str = ""
    """Digest of the allocation for which the entry was last made; empty if there is no such mark."""

    resolved: bool = False
    """Whether the uid was found by the controller rather than told by the creator."""

    former: Uid = NO_UID
    """The uid that the controller found before the reference was edited; empty if it was not."""


def workload_reservation(claim: ResourceClaim) -> WorkloadReservation | None:
    """Return the workload reservation of a claim, or None if it has none.

    Raises MalformedReferenceError if the annotation cannot be read; the text tells how to write it.
    """
    meta = claim.metadata
    allocation = claim.status.allocation
    entered = meta.annotation(ENTERED_ALLOCATION) or ""
    if claim.spec.reserved_for is not None:
        any_pod = bool(allocation and allocation.reserved_for_any_pod)
        return WorkloadReservation(reference=claim.spec.reserved_for, native=True, any_pod=any_pod, entered=entered)
    text = meta.annotation(RESERVED_FOR)
    if text is None:
        return None
    uid = Uid(meta.annotation(RESERVED_FOR_UID) or NO_UID)
    resolved = bool(uid) and meta.annotation(RESOLVED_UID) == uid
    if resolved and meta.annotation(RESOLVED_FOR) not in {None, text}:
        return WorkloadReservation(reference=ConsumerReference.parse(text), former=uid)
    reference = ConsumerReference.parse(text, uid=uid)
    return WorkloadReservation(
        reference=reference,
        any_pod=meta.annotation(RESERVED_FOR_ANY_POD) == "true",
        entered=entered,
        resolved=resolved,
    )


class _DigestedResult(Struct, frozen=True):
    """The fields of a device result that have always been part of a digest, under their names and in their order.

    A release that learns of further fields must make the same digest of an allocation as the release before, or each
    workload that has released its claim would be entered again.
    """

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, str] | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    tolerations: list[dict[str, Any]] | None = None


def allocation_digest(allocation: AllocationResult) -> str:
    """Return 16 hex digits that tell one allocation of a claim from the next (devices, nodes and timestamp)."""
    results = allocation.devices.results
    digested = None if results is None else [_digested(each) for each in results]
    identity = (digested, allocation.node_selector, allocation.allocation_timestamp)
    return hashlib.sha256(msgspec.json.encode(identity)).hexdigest()[:16]


def _digested(result: DeviceRequestAllocationResult) -> _DigestedResult:
    return _DigestedResult(**{name: getattr(result, name) for name in _DigestedResult.__struct_fields__})


def entry_annotations(allocation: AllocationResult) -> dict[str, str | None]:
    """Return the annotations that remember an entry made for this allocation."""
    return {RESERVED_FOR_ANY_POD: "true", ENTERED_ALLOCATION: allocation_digest(allocation)}


def resolved_uid_annotations(claim: ResourceClaim, uid: Uid) -> dict[str, str | None]:
    """Return the annotations that remember a uid found by the controller for the claim's reference."""
    return {RESERVED_FOR_UID: uid, RESOLVED_UID: uid, RESOLVED_FOR: claim.metadata.annotation(RESERVED_FOR)}


def annotation_removals(claim: ResourceClaim, *, uid_too: bool) -> dict[str, str | None]:
    """Return the removal (key: None) of those of our annotations that are present on the claim.

    The creator's reference stays; the uid goes (``uid_too``) only if the controller had filled it in.
    """
    meta = claim.metadata
    stale = [key for key in _ENTRY_ANNOTATIONS if meta.annotation(key) is not None]
    if uid_too and meta.annotation(RESOLVED_UID) is not None:
        stale += [key for key in (RESOLVED_UID, RESOLVED_FOR) if meta.annotation(key) is not None]
        if meta.annotation(RESERVED_FOR_UID) == meta.annotation(RESOLVED_UID):
            stale.append(RESERVED_FOR_UID)
    return dict.fromkeys(stale)
