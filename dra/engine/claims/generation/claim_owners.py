"""Owners of generated claims, pods and PodGroups, and the view for a decision about one owner."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from dra.api.reservations.well_known import MalformedAnnotationError
from dra.engine.claims.generation.held_claims import HeldClaim
from dra.engine.reservations import placeholders
from dra.engine.reservations.pod_info import PodInfo
from dra.model.claims import POD_CLAIM_NAME, ResourceClaim
from dra.model.meta import Key, OwnerReference, Struct, Uid
from dra.model.pods import Pod, PodResourceClaim, PodResourceClaimStatus
from dra.model.quantities import NO_AMOUNTS
from dra.model.templates import POD_GROUP, PodGroup, ResourceClaimTemplate, is_pod_group

NO_TEMPLATES: Final[Mapping[str, ResourceClaimTemplate]] = MappingProxyType({})
NO_CLAIMS: Final[Mapping[str, ResourceClaim]] = MappingProxyType({})


class ClaimOwnerKind(StrEnum):
    """Kinds of objects whose spec may request claims from templates."""

    POD = "Pod"
    POD_GROUP = POD_GROUP


class ClaimOwner(Struct, frozen=True):
    """A pod or PodGroup, reduced to what its claims depend on; equal owners need the same claims."""

    kind: ClaimOwnerKind
    key: Key
    uid: Uid
    entries: tuple[PodResourceClaim, ...] = ()
    """All entries of the spec, by claim name or by template."""

    recorded: tuple[PodResourceClaimStatus, ...] = ()
    """Claims that the status records as made."""

    needs_no_claims: bool = False
    """Whether the owner no longer needs claims: deleted, or ended."""

    pod_group: str = ""
    """Name of the PodGroup that a pod belongs to."""

    pod_info: PodInfo | None = None
    """The pod as reservations see it; None if there are no reservations, or one of its annotations is malformed."""

    node: str = ""
    """Node that the pod is bound to."""

    placeholder_of: OwnerReference | None = None
    """Reservation that the pod is the placeholder of."""

    @property
    def from_templates(self) -> tuple[PodResourceClaim, ...]:
        """Return the entries that require a generated claim."""
        return tuple(entry for entry in self.entries if entry.resource_claim_template_name is not None)

    def record(self, entry: str) -> PodResourceClaimStatus | None:
        """Return the status of an entry; None if the status does not name the entry."""
        return next((status for status in self.recorded if status.name == entry), None)


def owner_from_pod(pod: Pod, *, reservations: bool = False) -> ClaimOwner | None:
    """Return the pod as an owner; None if no entry of the pod names a template, since no claim is ever generated then.

    ``reservations`` says whether reservations exist: otherwise nothing is read, or kept, for them.
    """
    entries = tuple(pod.spec.resource_claims or ())
    if all(entry.resource_claim_template_name is None for entry in entries):
        return None
    group = pod.spec.scheduling_group
    return ClaimOwner(
        kind=ClaimOwnerKind.POD,
        key=pod.metadata.key,
        uid=pod.metadata.uid,
        entries=entries,
        recorded=tuple(pod.status.resource_claim_statuses or ()),
        needs_no_claims=pod.metadata.deleting or pod.terminal,
        pod_group=(group.pod_group_name or "") if group is not None else "",
        pod_info=_pod_info(pod) if reservations else None,
        node=pod.spec.node_name if reservations else "",
        placeholder_of=_placeholder_of(pod) if reservations else None,
    )


def _pod_info(pod: Pod) -> PodInfo | None:
    try:
        return PodInfo.from_metadata(pod.metadata, amounts=NO_AMOUNTS)
    except MalformedAnnotationError:
        return None  # the extender refuses the pod, and reports why


def _placeholder_of(pod: Pod) -> OwnerReference | None:
    uid = placeholders.reservation_uid_of(pod.metadata)
    return next((owner for owner in pod.metadata.owner_references or () if uid and owner.uid == uid), None)


def owner_from_pod_group(group: PodGroup) -> ClaimOwner:
    """Return the PodGroup as an owner."""
    return ClaimOwner(
        kind=ClaimOwnerKind.POD_GROUP,
        key=group.metadata.key,
        uid=group.metadata.uid,
        entries=tuple(group.spec.resource_claims or ()),
        recorded=tuple(group.status.resource_claim_statuses or ()),
        needs_no_claims=group.metadata.deleting,
    )


class ClaimOwnerView(Struct, frozen=True):
    """The snapshot of one owner, and everything that its claims depend on."""

    owner: ClaimOwner
    named: Mapping[str, ResourceClaim] = NO_CLAIMS
    """Existing claims that the owner's status names."""

    owned: tuple[ResourceClaim, ...] = ()
    """Claims that the owner controls."""

    templates: Mapping[str, ResourceClaimTemplate] = NO_TEMPLATES
    group: ClaimOwner | None = None
    group_unknown: bool = False
    """Whether the pod's PodGroup has not been seen although the server serves PodGroups: it may request the same
    claims."""

    group_error: str = ""
    """Why PodGroups cannot be read; empty if they can, or if reading has not failed for long enough."""

    group_owned: tuple[ResourceClaim, ...] = ()
    """Claims that the pod's PodGroup controls."""

    held: tuple[HeldClaim, ...] = ()
    """Claims that reservations hold for the pod."""


def claim_for_entry(claims: tuple[ResourceClaim, ...], entry: str) -> ResourceClaim | None:
    """Return the claim that was generated for an entry; a crash may have prevented its record in the status."""
    return next((claim for claim in claims if claim.metadata.annotation(POD_CLAIM_NAME) == entry), None)


def belongs_to_owner(claim: ResourceClaim, view: ClaimOwnerView) -> bool:
    """Return whether a claim was generated for the owner, or for the owner's PodGroup."""
    controller = claim.controller
    if controller is None:
        return False
    if controller.uid == view.owner.uid:
        return True
    return bool(view.owner.pod_group) and is_pod_group(controller) and controller.name == view.owner.pod_group
