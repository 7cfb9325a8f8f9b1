"""What is written for owners: claims, and the part of a status that names them."""

from typing import Any, Final

from dra.engine.generation.decide import CreateClaim, RecordClaims
from dra.engine.generation.owners import Owner, OwnerKind
from dra.model.claims import POD_CLAIM_NAME
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
                }
            ],
        },
        "spec": template.spec,
    }


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
