"""The objects of scripts, and parts of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.scenarios.differential.operations import Content, Stranger, Way

if TYPE_CHECKING:
    from tests.scenarios.differential.operations import CreatePod, Want

Json = dict[str, Any]

DRIVER: Final = "differential.dra"
RESOURCE: Final = f"{DRIVER}/device"
"""The extended resource."""

HELD: Final = "differential.dra/held"
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
PROTECTION: Final[Json] = {"metadata": {"finalizers": [FINALIZER]}}
ONCE: Final = "2026-01-01T00:00:00Z"

_SIMPLE: Final = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": 1}


def pod(operation: CreatePod, *, node: str) -> Json:
    """Return a pod."""
    container: Json = {"name": "main", "image": "none", "resources": {}}
    if operation.wants:
        container["resources"]["claims"] = [{"name": want.entry} for want in operation.wants]
    if operation.extended:
        container["resources"] |= {"requests": {RESOURCE: "1"}, "limits": {RESOURCE: "1"}}
    metadata: Json = {"name": operation.name, "finalizers": [HELD] if operation.held else []}
    spec: Json = {
        "containers": [container],
        "resourceClaims": [_source(want) for want in operation.wants],
        "terminationGracePeriodSeconds": 1,  # ours keeps the claims of pods deleted by force for as long
    }
    if node:
        spec["nodeName"] = node
    return {"metadata": metadata, "spec": spec}


def _source(want: Want) -> Json:
    source = {"resourceClaimName": want.claim} if want.claim else {"resourceClaimTemplateName": want.template}
    return {"name": want.entry, **source}


def deletion(way: Way) -> Json:
    """Return the options of a deletion."""
    return {"gracePeriodSeconds": 0} if way is Way.FORCED else {}


def claim(name: str) -> Json:
    """Return a claim as a user writes it."""
    return {"metadata": {"name": name}, "spec": _spec(Content.PLAIN)}


def template(name: str, content: Content) -> Json:
    """Return a template."""
    labelled = {"labels": {"from": name}, "annotations": {"note": "kept", "resource.kubernetes.io/other": "also"}}
    metadata = labelled if content is Content.LABELLED else {}
    return {"metadata": {"name": name}, "spec": {"metadata": metadata, "spec": _spec(content)}}


def _spec(content: Content) -> Json:
    request: Json = {"name": "device", "exactly": dict(_SIMPLE)}
    if content is Content.ADMIN:
        request["exactly"]["adminAccess"] = True
    if content is Content.CHOICE:
        request = {"name": "device", "firstAvailable": [{"name": name, **_SIMPLE} for name in ("best", "other")]}
    return {"devices": {"requests": [request]}}


def generated(owner: Json, entry: str) -> Json:
    """Return the claim that the controller would generate for an entry of the pod."""
    return {
        "metadata": {
            "generateName": f"orphan-{owner['metadata']['name'][:20]}-{entry[:20]}-",
            "annotations": {"resource.kubernetes.io/pod-claim-name": entry},
            "ownerReferences": [_owner(owner)],
        },
        "spec": _spec(Content.PLAIN),
    }


def extended(owner: Json) -> Json:
    """Return the claim that the scheduler makes for a pod's extended resources."""
    return {
        "metadata": {
            "generateName": f"{owner['metadata']['name'][:20]}-extended-resources-",
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [_owner(owner)],
        },
        "spec": {"devices": {"requests": [{"name": "container-0-request-0", "exactly": dict(_SIMPLE)}]}},
    }


def extended_status(name: str) -> Json:
    """Return what the scheduler writes into the pod's status about that claim."""
    mapping = {"containerName": "main", "resourceName": RESOURCE, "requestName": "container-0-request-0"}
    return {"extendedResourceClaimStatus": {"resourceClaimName": name, "requestMappings": [mapping]}}


def _owner(pod: Json) -> Json:
    meta = pod["metadata"]
    return {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}


def allocation(claim: Json) -> Json:
    """Return an allocation of everything that the claim asks for, for any node: rule 14 is a deviation of its own."""
    results = [_result(claim, request) for request in claim["spec"]["devices"]["requests"]]
    return {"devices": {"results": results}, "allocationTimestamp": ONCE}


def _result(claim: Json, request: Json) -> Json:
    name = request["name"]
    if "firstAvailable" in request:
        name = f"{name}/{request['firstAvailable'][0]['name']}"
    admin = {"adminAccess": True} if request.get("exactly", {}).get("adminAccess") else {}
    pool = claim["metadata"]["uid"]  # so that no two claims hold one device
    return {"request": name, "driver": DRIVER, "pool": pool, "device": "device-0", **admin}


def entry(pod: Json) -> Json:
    """Return a pod's entry of status.reservedFor."""
    return {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}


def stranger(kind: Stranger, name: str) -> Json:
    """Return the entry of somebody that no pod of the script is."""
    if kind is Stranger.FOREIGN:
        return {"apiGroup": "example.com", "resource": "widgets", "name": name, "uid": f"widget-{name}"}
    return {"resource": "pods", "name": name, "uid": f"{kind.value}-{name}"}


def running(ready: str) -> Json:
    """Return the status of a pod that runs, with its sandbox ready or not."""
    sandbox = {"type": "PodReadyToStartContainers", "status": ready, "lastTransitionTime": ONCE}
    return {"phase": "Running", "conditions": [sandbox]}


def node(name: str) -> Json:
    """Return a node that is ready, with its boot on record."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": ONCE, "lastHeartbeatTime": ONCE}
    boot = {"bootID": f"first of {name}"}
    return {"metadata": {"name": name}, "status": {"conditions": [ready], "nodeInfo": boot}}
