"""Who claims are made for, and what is known around one of them."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from dra.engine.claims.generation.held_claims import HeldClaim
from dra.engine.reservations import placeholders
from dra.engine.reservations.amounts import NO_AMOUNTS
from dra.engine.reservations.pod_info import MalformedAnnotationError, PodInfo
from dra.model.claims import POD_CLAIM_NAME, ResourceClaim
from dra.model.meta import Key, OwnerReference, Struct, Uid
from dra.model.pods import Pod, PodResourceClaim, PodResourceClaimStatus
from dra.model.templates import POD_GROUP, PodGroup, ResourceClaimTemplate, is_pod_group

NO_TEMPLATES: Final[Mapping[str, ResourceClaimTemplate]] = MappingProxyType({})
NO_CLAIMS: Final[Mapping[str, ResourceClaim]] = MappingProxyType({})


class ClaimOwnerKind(StrEnum):
    """Kinds of objects whose spec may ask for claims from templates."""

    POD = "Pod"
    POD_GROUP = POD_GROUP


class ClaimOwner(Struct, frozen=True):
    """A pod or PodGroup, as far as its claims go. Equal owners want the same."""

    kind: ClaimOwnerKind
    key: Key
    uid: Uid
    entries: tuple[PodResourceClaim, ...] = ()
    """All entries of the spec, by claim name or by template."""

    recorded: tuple[PodResourceClaimStatus, ...] = ()
    """What the status says has been made."""

    done: bool = False
    """Whether it needs no claims any more: deleted, or ended."""

    group: str = ""
    """Name of the PodGroup that a pod belongs to."""

    claimant: PodInfo | None = None
    """The pod as reservations see it; None where there are none, or one of its annotations cannot be read."""

    node: str = ""
    """Where it is bound."""

    placeholder_of: OwnerReference | None = None
    """The reservation that it finds a place for."""

    @property
    def from_templates(self) -> tuple[PodResourceClaim, ...]:
        """The entries that somebody has to make a claim for."""
        return tuple(entry for entry in self.entries if entry.resource_claim_template_name is not None)

    def record(self, entry: str) -> PodResourceClaimStatus | None:
        """Return what the status says of an entry."""
        return next((status for status in self.recorded if status.name == entry), None)


def owner_from_pod(pod: Pod, *, reservations: bool = False) -> ClaimOwner | None:
    """Return the pod as an owner; None if no entry of it names a template: nothing is ever made for it.

    ``reservations`` tells whether there are any: else nothing is read, or kept, for them.
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
        done=pod.metadata.deleting or pod.terminal,
        group=(group.pod_group_name or "") if group is not None else "",
        claimant=_pod_info(pod) if reservations else None,
        node=pod.spec.node_name if reservations else "",
        placeholder_of=_placeholder_of(pod) if reservations else None,
    )


def _pod_info(pod: Pod) -> PodInfo | None:
    try:
        return PodInfo.from_metadata(pod.metadata, amounts=NO_AMOUNTS)
    except MalformedAnnotationError:
        return None  # the extender refuses the pod, and tells why


def _placeholder_of(pod: Pod) -> OwnerReference | None:
    uid = placeholders.reservation_uid_of(pod.metadata)
    return next((each for each in pod.metadata.owner_references or () if uid and each.uid == uid), None)


def owner_from_pod_group(group: PodGroup) -> ClaimOwner:
    """Return the PodGroup as an owner."""
    return ClaimOwner(
        kind=ClaimOwnerKind.POD_GROUP,
        key=group.metadata.key,
        uid=group.metadata.uid,
        entries=tuple(group.spec.resource_claims or ()),
        recorded=tuple(group.status.resource_claim_statuses or ()),
        done=group.metadata.deleting,
    )


class ClaimOwnerView(Struct, frozen=True):
    """One owner, and what its claims depend on."""

    owner: ClaimOwner
    named: Mapping[str, ResourceClaim] = NO_CLAIMS
    """The claims that its status names, as far as they are there."""

    owned: tuple[ResourceClaim, ...] = ()
    """The claims whose controller it is."""

    templates: Mapping[str, ResourceClaimTemplate] = NO_TEMPLATES
    group: ClaimOwner | None = None
    group_unknown: bool = False
    """Whether the pod's PodGroup has not been seen, on a server that has them: it may ask for the same claims."""

    group_error: str = ""
    """Why PodGroups cannot be read; empty if they can, or nobody has tried for long enough."""

    group_owned: tuple[ResourceClaim, ...] = ()
    """The claims whose controller its PodGroup is."""

    held: tuple[HeldClaim, ...] = ()
    """The claims that reservations hold for the pod."""


def claim_for_entry(claims: tuple[ResourceClaim, ...], entry: str) -> ResourceClaim | None:
    """Return the claim that was made for an entry: somebody may have made it and failed to record it."""
    return next((claim for claim in claims if claim.metadata.annotation(POD_CLAIM_NAME) == entry), None)


def belongs_to_owner(claim: ResourceClaim, view: ClaimOwnerView) -> bool:
    """Whether a claim was made for the owner, or for the PodGroup it belongs to."""
    controller = claim.controller
    if controller is None:
        return False
    if controller.uid == view.owner.uid:
        return True
    return bool(view.owner.group) and is_pod_group(controller) and controller.name == view.owner.group
