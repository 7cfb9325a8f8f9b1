"""Questions to schedulers, made from a seed: a pod, nodes that it may use, and what may be wrong with their devices.

A question is one of `cases` with more nodes: pools are distributed over these and broken in every way that nobody
checks, nodes are cordoned, tainted, not ready or full, DeviceTaintRules taint pools, and the pod asks for extended
resources beside its claims, and has `pod_fields`. The pod selects the nodes of its question, so that a cluster holds
many questions at once.
"""

from copy import deepcopy
from itertools import count
from random import Random
from typing import Final

from tests.allocator import cases, pod_fields
from tests.allocator.cases import Json
from tests.allocator.objects import LABEL

RESOURCE: Final = "example.com/a"
"""The extended resource of the DeviceClass ``a``."""

PREFIX: Final = "deviceclass.resource.kubernetes.io/"

SERVED: Final = (RESOURCE, RESOURCE, f"{PREFIX}a", f"{PREFIX}red", f"{PREFIX}bold", f"{PREFIX}any", "example.com/none")
"""Extended resources: four of device classes by their implicit names, and one that no class serves."""

NEW: Final = {"key": "node.kubernetes.io/not-ready", "operator": "Exists"}
"""Toleration of all pods: the API server taints new nodes, and nobody here takes that taint away."""

UNREACHABLE: Final = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
DEDICATED: Final = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}


def device_classes() -> list[Json]:
    """Return the DeviceClasses of all questions; class ``a`` serves an extended resource."""
    found = deepcopy(cases.question(0)["classes"])
    next(each for each in found if each["metadata"]["name"] == "a")["spec"]["extendedResourceName"] = RESOURCE
    return found


def question(seed: int) -> Json:
    """Return the question of a seed."""
    chance = Random(f"pods-{seed}")  # noqa: S311 - the same question each time, no secret
    asked = _ungated(seed)
    nodes = [_node(chance, f"n{number}") for number in range(1, chance.choice([2, 3, 3, 4]))]
    names = [each["metadata"]["name"] for each in nodes]
    _place(chance, asked["slices"], names)
    if chance.random() < 0.35:
        _break(chance, asked["slices"])
    if chance.random() < 0.25:
        asked["claims"] = []
    elif chance.random() < 0.5:  # else most pods would ask for more than there is
        asked["claims"] = asked["claims"][:1]
        devices = asked["claims"][0]["spec"]["devices"]
        devices |= {"requests": devices["requests"][:1], "constraints": []}
    extended = chance.random() < 0.4 or not asked["claims"]
    rules = [_rule(chance, each) for each in asked["slices"] if chance.random() < 0.07]
    pinned = chance.choice(names) if asked["claims"] and chance.random() < 0.08 else ""
    timed, pod = chance.random() < 0.7, _pod(chance, extended=extended)
    more = Random(f"fields-{seed}")  # noqa: S311 - of its own, so that the rest of a question stays
    return asked | {
        "classes": device_classes(),
        "nodes": nodes,
        "rules": rules,
        "pinned": pinned,
        "timed": timed,
        "residents": pod_fields.add_fields(more, pod, names),
        "pod": pod,
    }


def _ungated(seed: int) -> Json:
    """Return a question that an API server with default feature gates takes."""
    asked = (cases.question(number) for number in count(seed * 1_000))
    return next(each for each in asked if not each["lists"] and not each["fractional"])


def _node(chance: Random, name: str) -> Json:
    """Return a node: most are usable."""
    taints = [taint for taint in (UNREACHABLE, DEDICATED) if chance.random() < 0.08]
    room = {"cpu": chance.choice(["64", "64", "64", "1"])}
    if chance.random() < 0.12:
        room[RESOURCE] = chance.choice(["0", "1", "4"])  # a device plugin serves the resource there
    spec: Json = {"unschedulable": True} if chance.random() < 0.08 else {}
    return {
        "metadata": {"name": name, "labels": {"zone": chance.choice(["a", "a", "b"])}},
        "spec": spec | ({"taints": taints} if taints else {}),
        "room": room,
    }


def _place(chance: Random, slices: list[Json], names: list[str]) -> None:
    """Distribute the pools over the nodes, each where it is one node's, and let no slice be for all nodes."""
    homes: dict[str, str] = {}
    for each in slices:
        spec = each["spec"]
        home = homes.setdefault(spec["pool"]["name"], chance.choice(names))
        for place in (spec, *spec.get("devices", ())):
            if place.get("nodeName") == cases.NODE:
                place["nodeName"] = home if chance.random() < 0.97 else chance.choice(names)
            if place.pop("allNodes", None):
                zones = {"key": "zone", "operator": "In", "values": ["a", "b"]}
                place["nodeSelector"] = {"nodeSelectorTerms": [{"matchExpressions": [zones]}]}


def _break(chance: Random, slices: list[Json]) -> None:
    """Break a pool as a driver may, or somebody who writes slices by hand."""
    spec = chance.choice(slices)["spec"] if slices else {}
    devices = spec.get("devices") or []
    match chance.choice(["missing", "disagree", "twice", "counters", "colors", "newer"]):
        case "missing":
            for each in slices:
                if each["spec"]["pool"]["name"] == spec["pool"]["name"]:
                    each["spec"]["pool"] = each["spec"]["pool"] | {"resourceSliceCount": len(slices) + 1}
        case "disagree":
            spec["pool"] = spec["pool"] | {"resourceSliceCount": chance.choice([1, 2, 3])}
        case "twice" if len(slices) > 1:
            other = chance.choice(slices)["spec"]
            if other is not spec and devices and other.get("devices"):
                other |= {"driver": spec["driver"], "pool": spec["pool"]}
                other["devices"][0]["name"] = devices[0]["name"]
        case "counters" if devices:
            uses = {"counterSet": "missing", "counters": {"memory": {"value": "1"}}}
            chance.choice(devices)["consumesCounters"] = [uses]
        case "colors" if devices:
            chance.choice(devices)["attributes"].pop("color", None)
        case "newer":
            spec["pool"] = spec["pool"] | {"generation": 3}
        case _:
            pass


def _rule(chance: Random, found: Json) -> Json:
    """Return a DeviceTaintRule for a pool, or for one device of it."""
    selector = {"driver": found["spec"]["driver"], "pool": found["spec"]["pool"]["name"]}
    if found["spec"].get("devices") and chance.random() < 0.5:
        selector["device"] = chance.choice(found["spec"]["devices"])["name"]
    taint = {"key": chance.choice("kl"), "value": "v", "effect": chance.choice(["NoSchedule", "NoExecute", "None"])}
    return {
        "metadata": {"name": f"rule-{found['metadata']['name']}"},
        "spec": {"deviceSelector": selector, "taint": taint},
    }


def _pod(chance: Random, *, extended: bool) -> Json:
    """Return the spec of a pod, without its claims."""
    names = ["main", *(["second"] if chance.random() < 0.3 else [])]
    initial = [f"init-{number}" for number in range(chance.choice([0, 0, 1, 2]))]
    spec: Json = {
        "containers": [_container(chance, each, extended=extended) for each in names],
        "initContainers": [_container(chance, each, extended=extended) for each in initial],
    }
    for each in spec["initContainers"]:
        if chance.random() < 0.4:
            each["restartPolicy"] = "Always"
    dedicated = [{"key": "dedicated", "operator": "Exists"}] if chance.random() < 0.3 else []
    return spec | {"tolerations": [NEW, *dedicated]}


def _container(chance: Random, name: str, *, extended: bool) -> Json:
    limits = {"cpu": chance.choice(["100m", "100m", "2"])}
    if extended and chance.random() < 0.7:
        limits[chance.choice(SERVED)] = chance.choice(["1", "1", "1", "2", "3", "0"])
    return {"name": name, "image": "none", "resources": {"limits": limits, "requests": dict(limits)}}


def manifest(asked: Json, name: str) -> Json:
    """Return the pod of a question that was `named` so."""
    spec = deepcopy(asked["pod"])
    claims = [each["metadata"]["name"] for each in asked["claims"]]
    spec["resourceClaims"] = [{"name": f"claim-{n}", "resourceClaimName": each} for n, each in enumerate(claims)]
    if claims:
        resources = spec["containers"][0]["resources"]
        resources["claims"] = [{"name": each["name"]} for each in spec["resourceClaims"]]
    spec["nodeSelector"] = {LABEL: name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {LABEL: name}}, "spec": spec}
