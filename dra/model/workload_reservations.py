"""The workload reservation of a claim: KEP-5194's fields, in the form that the API server can store.

An API server with KEP-5194 has ``spec.reservedFor`` and ``status.allocation.reservedForAnyPod``. An API server without
it drops both, so annotations hold them there. The fields take precedence. No code outside of this module knows that
there are two forms.
"""

import hashlib
from enum import StrEnum
from typing import Any, Final

import msgspec

from dra.model.claims import (
    EXTENDED_RESOURCE_CLAIM,
    POD_CLAIM_NAME,
    AllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from dra.model.meta import OwnerReference, Struct, Uid
from dra.model.references import RESERVATIONS, ConsumerReference

RESERVED_FOR: Final = "reserve.dra/reserved-for"
"""Annotation with the reference to the workload, ``RESOURCE[.GROUP]/NAME``, set by the creator of the claim."""

RESERVED_FOR_UID: Final = "reserve.dra/reserved-for-uid"
"""Annotation with the workload's uid; the controller adds it if the claim was created before the workload."""

RESOLVED_UID: Final = "reserve.dra/resolved-uid"
"""Annotation with the same uid if the controller added it: the controller removes only such a uid on release."""

RESOLVED_FOR: Final = "reserve.dra/resolved-for"
"""Annotation with the reference that the controller resolved; once it is edited, the uid is another object's."""

RESERVED_FOR_ANY_POD: Final = "reserve.dra/reserved-for-any-pod"
"""Annotation whose value ``"true"`` stands for ``status.allocation.reservedForAnyPod``."""

ENTERED_ALLOCATION: Final = "reserve.dra/entered-allocation"
"""Annotation with the digest of the allocation that got a workload entry; if that entry is missing, its owner has
released the claim."""

PRE_LIST: Final = "reserve.dra/pre-list"
"""Annotation ``"true"`` on a claim without a workload, or on a pod: waiting pods are listed before scheduling."""

FORCE_RELEASE: Final = "reserve.dra/force-release"
"""Annotation that a user sets to the claim's own uid: uncertain knowledge shall no longer keep the claim."""

WHEN_SUSPENDED: Final = "reserve.dra/when-suspended"
"""Annotation with a `SuspensionPolicy`; without it, the configuration of the controller decides."""

NO_UID: Final = Uid("")
"""The uid of an object whose identity is not known yet."""

RESOLVED_UID_ANNOTATIONS: Final = frozenset({RESERVED_FOR_UID, RESOLVED_UID, RESOLVED_FOR})
"""Annotations that record a uid found by the controller."""

_ENTRY_ANNOTATIONS: Final = (RESERVED_FOR_ANY_POD, ENTERED_ALLOCATION)


class SuspensionPolicy(StrEnum):
    """The handling of an allocated claim while its workload is suspended; Kueue suspends workloads that it evicts."""

    KEEP = "keep"  # the resumed workload gets the same devices
    RELEASE = "release"  # other claims may get the devices


class WorkloadReservation(Struct, frozen=True):
    """The reservation of a claim for a workload, as the claim states it."""

    reference: ConsumerReference
    """The workload; its uid is empty until the creator or the controller sets it."""

    native: bool = False
    """Whether the API server has the KEP's fields: then the scheduler adds the entry with the allocation."""

    any_pod: bool = False
    """Whether any pod that references the claim may use the present allocation, listed or not."""

    entered: str = ""
    """Digest of the allocation for which the entry was last added; empty if the claim has no such annotation."""

    resolved: bool = False
    """Whether the controller found the uid; otherwise the creator set it."""

    former: Uid = NO_UID
    """The uid that the controller found before the reference was edited; empty if it was not edited."""

    single_user: str = ""
    """``pod train-0`` if the claim was generated for this pod; empty if the pods of the workload share the claim.

    A reservation outlives the pods of a claim. Nobody could ever use the claim of a single pod after that pod, and a
    workload whose next pods need the devices would wait for itself.
    """


def workload_reservation(claim: ResourceClaim) -> WorkloadReservation | None:
    """Return the workload reservation of a claim; None if the claim has none.

    Raises MalformedReferenceError if the annotation cannot be parsed; the text explains the format.
    """
    meta = claim.metadata
    allocation = claim.status.allocation
    entered = meta.annotation(ENTERED_ALLOCATION) or ""
    if claim.spec.reserved_for is not None:
        any_pod = bool(allocation and allocation.reserved_for_any_pod)
        return WorkloadReservation(
            reference=claim.spec.reserved_for,
            native=True,
            any_pod=any_pod,
            entered=entered,
            single_user=_single_user(claim, claim.spec.reserved_for),
        )
    text = meta.annotation(RESERVED_FOR)
    if text is None:
        return None
    uid = Uid(meta.annotation(RESERVED_FOR_UID) or NO_UID)
    resolved = bool(uid) and meta.annotation(RESOLVED_UID) == uid
    if resolved and meta.annotation(RESOLVED_FOR) not in {None, text}:
        reference = ConsumerReference.parse(text)
        return WorkloadReservation(reference=reference, former=uid, single_user=_single_user(claim, reference))
    reference = ConsumerReference.parse(text, uid=uid)
    return WorkloadReservation(
        reference=reference,
        any_pod=meta.annotation(RESERVED_FOR_ANY_POD) == "true",
        entered=entered,
        resolved=resolved,
        single_user=_single_user(claim, reference),
    )


def _single_user(claim: ResourceClaim, reference: ConsumerReference) -> str:
    """Return what a claim was generated for, unless a PodGroup shares the claim or the reference names that pod.

    A Reservation hands its claims to one pod after the other, and keeps them itself in between. The controller
    reference alone proves nothing: operators let a driver or launcher pod own a claim, which all pods of the workload
    name.
    """
    pod = claim.owning_pod
    if pod is not None and any(claim.metadata.annotation(key) for key in (POD_CLAIM_NAME, EXTENDED_RESOURCE_CLAIM)):
        return "" if reference.is_pod and reference.name == pod.name else f"pod {pod.name}"
    owners = claim.metadata.owner_references or ()
    holder = next((o for o in owners if o.kind == "Reservation" and _group_of(o) == RESERVATIONS.group), None)
    return f"Reservation {holder.name}" if holder is not None else ""


def _group_of(owner: OwnerReference) -> str:
    return owner.api_version.rpartition("/")[0]


class _DigestedResult(Struct, frozen=True):
    """The fields of a device result that have always been part of a digest, under their names and in their order.

    A release that knows further fields must compute the same digest of an allocation as the release before. Otherwise
    each workload that has released its claim would be entered again.
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
    """Return 16 hex digits that distinguish allocations of a claim: a hash of devices, nodes and timestamp."""
    results = allocation.devices.results
    digested = None if results is None else [_digested(result) for result in results]
    identity = (digested, allocation.node_selector, allocation.allocation_timestamp)
    return hashlib.sha256(msgspec.json.encode(identity)).hexdigest()[:16]


def _digested(result: DeviceRequestAllocationResult) -> _DigestedResult:
    return _DigestedResult(**{name: getattr(result, name) for name in _DigestedResult.__struct_fields__})


def entry_annotations(allocation: AllocationResult) -> dict[str, str | None]:
    """Return the annotations that record an entry added for this allocation."""
    return {RESERVED_FOR_ANY_POD: "true", ENTERED_ALLOCATION: allocation_digest(allocation)}


def resolved_uid_annotations(claim: ResourceClaim, uid: Uid) -> dict[str, str | None]:
    """Return the annotations that record a uid found by the controller for the claim's reference."""
    return {RESERVED_FOR_UID: uid, RESOLVED_UID: uid, RESOLVED_FOR: claim.metadata.annotation(RESERVED_FOR)}


def annotation_removals(claim: ResourceClaim, *, uid_too: bool) -> dict[str, str | None]:
    """Return the removal (key: None) of the annotations that the controller has added to the claim.

    The creator's reference stays; the uid is removed (``uid_too``) only if the controller had added it.
    """
    meta = claim.metadata
    stale = [key for key in _ENTRY_ANNOTATIONS if meta.annotation(key) is not None]
    if uid_too and meta.annotation(RESOLVED_UID) is not None:
        stale += [key for key in (RESOLVED_UID, RESOLVED_FOR) if meta.annotation(key) is not None]
        if meta.annotation(RESERVED_FOR_UID) == meta.annotation(RESOLVED_UID):
            stale.append(RESERVED_FOR_UID)
    return dict.fromkeys(stale)
