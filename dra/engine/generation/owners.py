"""Who claims are made for, and what is known around one of them."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from dra.model.claims import POD_CLAIM_NAME, ResourceClaim
from dra.model.meta import Key, Struct, Uid
from dra.model.pods import Pod, PodResourceClaim, PodResourceClaimStatus
from dra.model.templates import POD_GROUP, PodGroup, ResourceClaimTemplate

NO_TEMPLATES: Final[Mapping[str, ResourceClaimTemplate]] = MappingProxyType({})
NO_CLAIMS: Final[Mapping[str, ResourceClaim]] = MappingProxyType({})


class OwnerKind(StrEnum):
    """Kinds of objects whose spec may ask for claims from templates."""

    POD = "Pod"
    POD_GROUP = POD_GROUP


class Owner(Struct, frozen=True):
    """A pod or PodGroup, as far as its claims go. Equal owners want the same."""

    kind: OwnerKind
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

    @property
    def from_templates(self) -> tuple[PodResourceClaim, ...]:
        """The entries that somebody has to make a claim for."""
        return tuple(entry for entry in self.entries if entry.resource_claim_template_name is not None)

    def record(self, entry: str) -> PodResourceClaimStatus | None:
        """Return what the status says of an entry."""
        return next((status for status in self.recorded if status.name == entry), None)


def of_pod(pod: Pod) -> Owner | None:
    """Return the pod as an owner; None if no entry of it names a template: nothing is ever made for it."""
    entries = tuple(pod.spec.resource_claims or ())
    if all(entry.resource_claim_template_name is None for entry in entries):
        return None
    group = pod.spec.scheduling_group
    return Owner(
        kind=OwnerKind.POD,
        key=pod.metadata.key,
        uid=pod.metadata.uid,
        entries=entries,
        recorded=tuple(pod.status.resource_claim_statuses or ()),
        done=pod.metadata.deleting or pod.terminal,
        group=(group.pod_group_name or "") if group is not None else "",
    )


def of_group(group: PodGroup) -> Owner:
    """Return the PodGroup as an owner."""
    return Owner(
        kind=OwnerKind.POD_GROUP,
        key=group.metadata.key,
        uid=group.metadata.uid,
        entries=tuple(group.spec.resource_claims or ()),
        recorded=tuple(group.status.resource_claim_statuses or ()),
        done=group.metadata.deleting,
    )


class OwnerView(Struct, frozen=True):
    """One owner, and what its claims depend on."""

    owner: Owner
    named: Mapping[str, ResourceClaim] = NO_CLAIMS
    """The claims that its status names, as far as they are there."""

    owned: tuple[ResourceClaim, ...] = ()
    """The claims whose controller it is."""

    templates: Mapping[str, ResourceClaimTemplate] = NO_TEMPLATES
    group: Owner | None = None
    group_unknown: bool = False
    """Whether the pod's PodGroup has not been seen, on a server that has them: it may ask for the same claims."""

    group_owned: tuple[ResourceClaim, ...] = ()
    """The claims whose controller its PodGroup is."""


def made_for(claims: tuple[ResourceClaim, ...], entry: str) -> ResourceClaim | None:
    """Return the claim that was made for an entry: somebody may have made it and failed to record it."""
    return next((claim for claim in claims if claim.metadata.annotation(POD_CLAIM_NAME) == entry), None)


def belongs(claim: ResourceClaim, view: OwnerView) -> bool:
    """Whether a claim was made for the owner, or for the PodGroup it belongs to."""
    controller = claim.controller
    if controller is None:
        return False
    if controller.uid == view.owner.uid:
        return True
    return bool(view.owner.group) and controller.kind == POD_GROUP and controller.name == view.owner.group
