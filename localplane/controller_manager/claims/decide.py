"""Decides what the stock claim controller writes for a claim or a pod.

The rules are those of ``syncClaim`` and ``syncPod`` (kube-controller-manager, pkg/controller/resourceclaim, 1.37):
entries of pods that have ended or are gone are removed, the last of them together with the allocation; bound pods that
are not listed are listed. Entries of other objects than pods are never removed.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from dra.engine.claims.generation.manifests import generate_name
from dra.model.claims import DELETE_PROTECTION, POD_CLAIM_NAME, RESERVED_FOR_MAX_SIZE, ResourceClaim
from dra.model.meta import Struct, Uid
from dra.model.pods import Pod, PodResourceClaim
from dra.model.references import ConsumerReference
from dra.model.templates import ResourceClaimTemplate


class ClaimPlan(Struct, frozen=True):
    """The next write for a claim; the merge patches are None where nothing is to be written."""

    status: dict[str, Any] | None = None
    finalizers: list[str] | None = None
    """The finalizers that are left without the protection of the allocation."""

    delete: bool = False


def plan_claim(claim: ResourceClaim, pods: Mapping[Uid, Pod]) -> ClaimPlan:
    """Return the next write for a claim; ``pods`` are all pods by uid."""
    valid = [entry for entry in claim.entries if _is_valid(entry, pods)]
    is_unused = not valid and (claim.protected or claim.status.allocation is not None)
    if len(valid) < len(claim.entries) or (is_unused and claim.metadata.deleting and claim.status.allocation):
        status: dict[str, Any] = {"reservedFor": [_to_document(entry) for entry in valid] or None}
        if is_unused:
            status |= {"allocation": None, "devices": None}
        return ClaimPlan(status=status)
    if not valid and claim.protected and claim.status.allocation is None:
        return ClaimPlan(finalizers=[name for name in claim.metadata.finalizers or () if name != DELETE_PROTECTION])
    owner = pods.get(claim.generated_for) if claim.generated_for is not None else None
    return ClaimPlan(delete=not valid and owner is not None and owner.terminal and not claim.metadata.deleting)


def _is_valid(entry: ConsumerReference, pods: Mapping[Uid, Pod]) -> bool:
    if not entry.is_pod:
        return True
    pod = pods.get(entry.uid)
    return pod is not None and not pod.terminal and bool(pod.spec.node_name or not pod.metadata.deleting)


def listing_patch(claim: ResourceClaim, pod: Pod) -> dict[str, Any] | None:
    """Return the status that lists a bound pod; None if the pod may use the claim already, or the list is full."""
    if claim.status.allocation is None or len(claim.entries) >= RESERVED_FOR_MAX_SIZE:
        return None
    group = pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group is not None else None
    if any(entry.uid == pod.metadata.uid or (entry.is_pod_group and entry.name == group) for entry in claim.entries):
        return None
    mine = {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
    return {"reservedFor": [*(_to_document(entry) for entry in claim.entries), mine]}


def lacking_entries(pod: Pod, owned: Iterable[ResourceClaim]) -> list[PodResourceClaim]:
    """Return the entries of a pod that name a template and have no claim yet; ``owned``: the claims of the pod."""
    made = _claims_by_entry(owned)
    recorded = {status.name for status in pod.status.resource_claim_statuses or ()}
    return [
        entry
        for entry in pod.spec.resource_claims or ()
        if entry.resource_claim_template_name and entry.name not in made and entry.name not in recorded
    ]


def claim_statuses(pod: Pod, owned: Iterable[ResourceClaim]) -> list[dict[str, str]] | None:
    """Return the claims that the pod's status is to name; None if it does, or a claim is lacking."""
    made = _claims_by_entry(owned)
    wanted = [entry.name for entry in pod.spec.resource_claims or () if entry.resource_claim_template_name]
    recorded = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses or ()}
    if not wanted or wanted == list(recorded) or any(name not in made and name not in recorded for name in wanted):
        return None
    return [{"name": name, "resourceClaimName": made.get(name) or recorded.get(name) or ""} for name in wanted]


def claim_manifest(pod: Pod, entry: str, template: ResourceClaimTemplate) -> dict[str, Any]:
    """Return the claim for an entry of a pod."""
    metadata = template.spec.metadata
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid, "controller": True}
    return {
        "metadata": {
            "generateName": generate_name(pod.metadata.name, entry),
            "labels": metadata.labels or {},
            "annotations": {**(metadata.annotations or {}), POD_CLAIM_NAME: entry},
            "ownerReferences": [owner],
        },
        "spec": template.spec.spec,
    }


def _claims_by_entry(owned: Iterable[ResourceClaim]) -> dict[str, str]:
    return {claim.metadata.annotation(POD_CLAIM_NAME) or "": claim.metadata.name for claim in owned}


def _to_document(entry: ConsumerReference) -> dict[str, str]:
    group = {"apiGroup": entry.api_group} if entry.api_group else {}
    return {**group, "resource": entry.resource, "name": entry.name, "uid": entry.uid}
