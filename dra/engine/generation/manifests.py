"""What is written for owners: claims, and the part of a status that names them."""

from typing import Any, Final

import msgspec

from dra.engine.actions import Annotate
from dra.engine.generation.decide import CreateClaim, HandOver, RecordClaims
from dra.engine.generation.owners import Owner, OwnerKind
from dra.engine.reservations import devices
from dra.model.claims import POD_CLAIM_NAME
from dra.model.meta import OwnerReference
from dra.model.references import POD_GROUPS

FIELD_MANAGER: Final = "ResourceClaimController"
"""Upstream's: whoever takes over from whom goes on with the same fields."""

_LONGEST_BASE: Final = 57
"""Characters of a generated name before the server's five: together a DNS label."""


def claim(action: CreateClaim, *, group_version: str = "") -> dict[str, Any]:
    """Return the claim to create."""
    owner, template = action.owner, action.template.spec
    labels = template.metadata.labels
    return {
        "metadata": {
            "generateName": base_name(owner.key[1], action.entry),
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
                *_holders(owner),
            ],
        },
        "spec": template.spec,
    }


def _holders(owner: Owner) -> list[dict[str, Any]]:
    """Return the reservation that a claim is made for: it must be an owner before the placeholder ends."""
    reservation = owner.placeholder_of
    if reservation is None:
        return []
    holder: dict[str, Any] = msgspec.to_builtins(devices.owner(reservation.name, reservation.uid))
    return [holder]


def handed_over(action: HandOver) -> Annotate:
    """Return the write that gives a held claim to a pod: whoever owns it besides stays."""
    owner, claim = action.owner, action.held.claim
    controller = OwnerReference(
        api_version=api_version(owner), kind=owner.kind.value, name=owner.key[1], uid=owner.uid, controller=True
    )
    return Annotate(
        claim=claim.metadata.key,
        annotations=((POD_CLAIM_NAME, action.entry),),
        owners=(controller, *(claim.metadata.owner_references or ())),
    )


def api_version(owner: Owner, *, group_version: str = "") -> str:
    """Return the owner's ``apiVersion``."""
    return "v1" if owner.kind is OwnerKind.POD else f"{POD_GROUPS.group}/{group_version}"


def base_name(owner: str, entry: str) -> str:
    """Return ``generateName``: both names, each cut in proportion where they are too long."""
    name = f"{owner}-{entry}-"
    if len(name) <= _LONGEST_BASE:
        return name
    cut = [part[: len(part) * _LONGEST_BASE // len(name)] for part in (owner, entry)]
    return "-".join(cut)


def statuses(action: RecordClaims) -> dict[str, Any]:
    """Return what is applied to the owner's status."""
    claims = [
        {"name": c.name, **({"resourceClaimName": c.resource_claim_name} if c.resource_claim_name is not None else {})}
        for c in action.claims
    ]
    return {"metadata": {"name": action.owner.key[1]}, "status": {"resourceClaimStatuses": claims}}
