"""A question to allocators as objects of the API: a node, slices, claims, what others hold, and a pod that asks.

Names, pools and zones of the question are made unique, so that a cluster holds many questions at once. A slice for all
nodes is for the nodes of other questions, too: such a question has to be asked alone (`alone`).
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from dra.engine.allocator.claims_to_allocate import ALLOCATION_RESULTS_MAX_SIZE

Json = dict[str, Any]

RESOURCE: Final = "resource.k8s.io/v1"

LABEL: Final = "allocator.dra/question"

ROOM: Final = {"cpu": "64", "memory": "256Gi", "pods": "110"}


def alone(question: Json) -> bool:
    """Whether the nodes of other questions would see devices of this one."""
    places = [place for each in question["slices"] for place in _places(each)]
    return any(place.get("allNodes") for place in places)


def named(question: Json, name: str, *, namespace: str) -> Json:
    """Return a question whose node, slices, pools, zones and claims bear a name; their order stays."""
    found = deepcopy(question)
    node = found["node"]["metadata"]
    node["name"] = f"{name}-{node['name']}"
    node["labels"] = {key: f"{name}-{value}" for key, value in node["labels"].items()}
    for each in found["slices"]:
        each["metadata"]["name"] = f"{name}-{each['metadata']['name']}"
        each["spec"]["pool"] = each["spec"]["pool"] | {"name": f"{name}-{each['spec']['pool']['name']}"}
        for place in _places(each):
            _name(place, name)
    for held in found["held"]:
        held["pool"] = f"{name}-{held['pool']}"
    for claim in found["claims"]:
        claim["metadata"] |= {"name": f"{name}-{claim['metadata']['name']}", "namespace": namespace}
    return found


def _places(found: Json) -> list[Json]:
    """Return a slice's spec and its devices: each of them may say on which nodes it can be used."""
    return [found["spec"], *found["spec"].get("devices", ())]


def _name(place: Json, name: str) -> None:
    if "nodeName" in place:
        place["nodeName"] = f"{name}-{place['nodeName']}"
    if "nodeSelector" in place:
        place["nodeSelector"] = selector = deepcopy(place["nodeSelector"])
        for term in selector["nodeSelectorTerms"]:
            for expression in term["matchExpressions"]:
                expression["values"] = [f"{name}-{value}" for value in expression["values"]]


@dataclass(frozen=True, kw_only=True)
class Objects:
    """What a cluster is given for a question; all bear the label `LABEL` with the question's name."""

    nodes: list[Json]
    slices: list[Json]
    held: list[tuple[Json, Json]]
    """Claims of others, each with the allocation in its status."""
    claims: list[Json]
    pod: Json


def objects(question: Json, name: str) -> Objects:
    """Return the objects of a question that was `named` so."""
    node = question["node"]["metadata"]["name"]
    held = [
        (
            _claim(name, f"{name}-held-{start}", _one("any")),
            {"devices": {"results": question["held"][start : start + ALLOCATION_RESULTS_MAX_SIZE]}},
        )
        for start in range(0, len(question["held"]), ALLOCATION_RESULTS_MAX_SIZE)
    ]
    claims = [_claim(name, each["metadata"]["name"], each["spec"]) for each in question["claims"]]
    return Objects(
        nodes=[_node(name, node, question["node"]["metadata"]["labels"])],
        slices=[
            {"apiVersion": RESOURCE, "kind": "ResourceSlice", "metadata": _metadata(name, **each["metadata"])}
            | {"spec": each["spec"]}
            for each in question["slices"]
        ],
        held=held,
        claims=claims,
        pod=_pod(name, node, [each["metadata"]["name"] for each in claims]),
    )


def canary(name: str) -> Objects:
    """Return objects of which the pod is placed as soon as the scheduler has seen all that was made before them."""
    node, driver = f"{name}-node", "canary.example"
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "pool": pool, "nodeName": node, "devices": [{"name": "d"}]}
    found = {"apiVersion": RESOURCE, "kind": "ResourceSlice", "metadata": _metadata(name, name=name), "spec": spec}
    return Objects(
        nodes=[_node(name, node, {})],
        slices=[found],
        held=[],
        claims=[_claim(name, name, _one("canary"))],
        pod=_pod(name, node, [name]),
    )


def device_classes(classes: list[Json]) -> list[Json]:
    """Return the DeviceClasses of questions, and the canary's after them."""
    only = [{"cel": {"expression": 'device.driver == "canary.example"'}}]
    every = [*classes, {"metadata": {"name": "canary"}, "spec": {"selectors": only}}]
    return [{"apiVersion": RESOURCE, "kind": "DeviceClass", **each} for each in every]


def _one(device_class: str) -> Json:
    return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": device_class}}]}}


def _metadata(question: str, **more: Any) -> Json:
    return {**more, "labels": more.get("labels", {}) | {LABEL: question}}


def _node(question: str, name: str, labels: Json) -> Json:
    status = {"capacity": ROOM, "allocatable": ROOM}
    return {"apiVersion": "v1", "kind": "Node", "metadata": _metadata(question, name=name, labels=labels)} | {
        "status": status
    }


def _claim(question: str, name: str, spec: Json) -> Json:
    metadata = _metadata(question, name=name)
    return {"apiVersion": RESOURCE, "kind": "ResourceClaim", "metadata": metadata, "spec": spec}


def _pod(name: str, node: str, claims: list[str]) -> Json:
    only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [only]}}}
    names = [f"claim-{number}" for number in range(len(claims))]
    container = {"name": "main", "image": "none", "resources": {"claims": [{"name": each} for each in names]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(name, name=name),
        "spec": {
            "affinity": affinity,
            "tolerations": [{"operator": "Exists"}],  # no kubelet says that the node is ready
            "containers": [container],
            "resourceClaims": [
                {"name": each, "resourceClaimName": claim} for each, claim in zip(names, claims, strict=True)
            ],
        },
    }
