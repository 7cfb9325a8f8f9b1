"""Manifests written for owners: claims, and the part of a status that names the claims."""

from typing import Any, Final

import msgspec

from dra.engine.claims import claim_holders
from dra.engine.claims.actions import PatchMetadata
from dra.engine.claims.generation.claim_owners import ClaimOwner, ClaimOwnerKind
from dra.engine.claims.generation.decide import CreateClaim, HandOverClaim, RecordClaims
from dra.model.claims import POD_CLAIM_NAME
from dra.model.meta import OwnerReference
from dra.model.references import POD_GROUPS

FIELD_MANAGER: Final = "ResourceClaimController"
"""Field manager of upstream's controller: after a takeover, either controller continues with the same fields."""

_LONGEST_BASE: Final = 57
"""Maximum number of characters of a generated name before the server's five: together a DNS label."""


def claim_manifest(action: CreateClaim, *, group_version: str = "") -> dict[str, Any]:
    """Return the manifest of the claim to create."""
    owner, template = action.owner, action.template.spec
    labels = template.metadata.labels
    return {
        "metadata": {
            "generateName": generate_name(owner.key[1], action.entry),
            "annotations": {**(template.metadata.annotations or {}), POD_CLAIM_NAME: action.entry},
            **({"labels": labels} if labels else {}),
            "ownerReferences": [
                {
                    "apiVersion": api_version(owner, group_version=group_version),
                    "kind": owner.kind.value,
                    "name": owner.key[1],
                    "uid": owner.uid,
                    "controller": True,
                },
                *_reservation_owner_references(owner),
            ],
        },
        "spec": template.spec,
    }


def _reservation_owner_references(owner: ClaimOwner) -> list[dict[str, Any]]:
    """Return the owner reference to the claim's reservation, which must be an owner before the placeholder ends."""
    reservation = owner.placeholder_of
    if reservation is None:
        return []
    holder: dict[str, Any] = msgspec.to_builtins(
        claim_holders.reservation_owner_reference(reservation.name, reservation.uid)
    )
    return [holder]


def hand_over_write(action: HandOverClaim) -> PatchMetadata:
    """Return the write that hands a held claim over to a pod; other owner references stay."""
    owner, claim = action.owner, action.held.claim
    controller = OwnerReference(
        api_version=api_version(owner), kind=owner.kind.value, name=owner.key[1], uid=owner.uid, controller=True
    )
    return PatchMetadata(
        claim=claim.metadata.key,
        annotations=((POD_CLAIM_NAME, action.entry),),
        owners=(controller, *(claim.metadata.owner_references or ())),
    )


def api_version(owner: ClaimOwner, *, group_version: str = "") -> str:
    """Return the ``apiVersion`` of the owner."""
    return "v1" if owner.kind is ClaimOwnerKind.POD else f"{POD_GROUPS.group}/{group_version}"


def generate_name(owner: str, entry: str) -> str:
    """Return ``generateName``: both names, each shortened in proportion if the result is too long."""
    name = f"{owner}-{entry}-"
    if len(name) <= _LONGEST_BASE:
        return name
    cut = [part[: len(part) * _LONGEST_BASE // len(name)] for part in (owner, entry)]
    return "-".join(cut)


def claim_statuses_manifest(action: RecordClaims) -> dict[str, Any]:
    """Return the manifest to apply to the owner's status."""
    claims = [
        {"name": c.name, **({"resourceClaimName": c.resource_claim_name} if c.resource_claim_name is not None else {})}
        for c in action.claims
    ]
    return {"metadata": {"name": action.owner.key[1]}, "status": {"resourceClaimStatuses": claims}}
