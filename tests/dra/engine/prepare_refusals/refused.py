"""A pod of an LSR request that is bound to a node, and its claim, which the node's driver refuses to prepare."""

from typing import Any

import msgspec

from dra.engine.prepare_refusals.decide import EvictionHistory, Refusal, RefusedClaimView, StartingPod
from dra.engine.prepare_refusals.reasons import PrepareRefusalReason
from dra.model.claims import ResourceClaim
from dra.model.meta import Uid

NAMESPACE = "ml"
TEMPLATE = "koord-cpu-2-full-required-lsr"
REPLICA_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-web", "controller": True}
WAITING = {"name": "main", "restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}}


def ready(
    status: str = "False", *, reason: str = PrepareRefusalReason.CPUS_IN_USE, driver: str = "cpu.reserve.dra"
) -> dict[str, Any]:
    """Return the status of an allocated device with the condition that its driver reports."""
    condition = {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": "no cores",
        "lastTransitionTime": "2026-11-20T12:00:00Z",
    }
    return {"driver": driver, "pool": "n1", "device": "cpus", "conditions": [condition]}


def claim_document(
    *devices: dict[str, Any], generated: bool = True, entries: tuple[str, ...] = ("p",), allocated: bool = True
) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
    result = {"request": "cpus", "driver": "cpu.reserve.dra", "pool": "n1", "device": "cpus"}
    return {
        "metadata": {
            "name": "p-cpus",
            "namespace": NAMESPACE,
            "uid": "uid-claim",
            "ownerReferences": [owner] if generated else [],
        },
        "status": {
            **({"allocation": {"devices": {"results": [result]}}} if allocated else {}),
            "reservedFor": [{"resource": "pods", "name": each, "uid": f"uid-{each}"} for each in entries],
            "devices": list(devices or (ready(),)),
        },
    }


def pod_document(
    *,
    owner: dict[str, Any] | None = REPLICA_SET,
    template: str = TEMPLATE,
    container: dict[str, Any] | None = None,
    init: dict[str, Any] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "p",
            "namespace": NAMESPACE,
            "uid": "uid-p",
            "resourceVersion": "7",
            "ownerReferences": [owner] if owner else [],
            **metadata,
        },
        "spec": {
            "nodeName": "n1",
            "resourceClaims": [{"name": "koord-cpus", "resourceClaimTemplateName": template}],
        },
        "status": {
            "phase": "Pending",
            "resourceClaimStatuses": [{"name": "koord-cpus", "resourceClaimName": "p-cpus"}],
            "containerStatuses": [container or WAITING],
            **({"initContainerStatuses": [init]} if init else {}),
        },
    }


def view(
    *,
    claim: dict[str, Any] | None = None,
    pod: dict[str, Any] | None = None,
    enabled: bool = True,
) -> RefusedClaimView:
    """Return what is known of a claim that is refused since 0."""
    return RefusedClaimView(
        refusal=Refusal(claim=Uid("uid-claim"), reason=PrepareRefusalReason.CPUS_IN_USE, since=0.0),
        claim=msgspec.convert(claim or claim_document(), ResourceClaim),
        pod=msgspec.convert(pod or pod_document(), StartingPod),
        is_enabled=enabled,
        history=EvictionHistory(),
    )
