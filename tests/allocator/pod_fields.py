"""Fields of pods that exclude nodes beside devices, CPU and memory, and pods that are on the nodes already.

A field of `kubectl dra simulate` that is not simulated must never let a pod fit that kube-scheduler refuses. Residents
use ports, and are what affinity, spread and anti-affinity are about.
"""

from random import Random
from typing import Any, Final

from tests.allocator.objects import LABEL

Json = dict[str, Any]

RATE: Final = 0.35
"""Part of the pods that have such a field."""

RUNTIME_CLASS: Final[Json] = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "heavy"},
    "handler": "heavy",
    "overhead": {"podFixed": {"cpu": "2"}},
}
"""A class with an overhead that small nodes lack."""

PORT: Final = 8080

_RESIDENT: Final = {"app": "resident"}
_APART: Final = {"matchLabels": _RESIDENT}
_IN_ZONE: Final = {"topologyKey": "zone", "labelSelector": _APART}


def add_fields(chance: Random, spec: Json, names: list[str]) -> list[Json]:
    """Add a field to the spec of some pods; return the residents of the named nodes."""
    if chance.random() >= RATE:
        return []
    homes = [name for name in names if chance.random() < 0.5]
    resident: Json = {"containers": [{"name": "main", "image": "none"}]}
    match chance.choice(["port", "port", "network", "apart", "together", "spread", "volume", "runtime", "repelled"]):
        case "port":
            address = {"hostIP": chance.choice(["10.0.0.1", "10.0.0.2"])} if chance.random() < 0.3 else {}
            spec["containers"][0]["ports"] = [_port(chance.choice([PORT, PORT, 9090])) | address]
            resident["containers"][0]["ports"] = [_port(PORT) | {"hostIP": "10.0.0.1"}]
        case "network":
            spec |= {"hostNetwork": True}
            spec["containers"][-1]["ports"] = [{"containerPort": PORT}]
            resident["containers"][0]["ports"] = [_port(PORT)]
        case "apart":
            spec["affinity"] = {"podAntiAffinity": _required(_IN_ZONE)}
        case "together":
            spec["affinity"] = {"podAffinity": _required(_IN_ZONE)}
        case "spread":
            spec["topologySpreadConstraints"] = [_IN_ZONE | {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
        case "volume":
            source = {"persistentVolumeClaim": {"claimName": "none"}}
            spec["volumes"] = [{"name": "v"} | (source if chance.random() < 0.5 else {"csi": {"driver": "none"}})]
        case "runtime":
            spec["runtimeClassName"] = RUNTIME_CLASS["metadata"]["name"]
        case _:
            of_question = {"topologyKey": "zone", "labelSelector": {"matchLabels": {LABEL: ""}}}
            resident["affinity"] = {"podAntiAffinity": _required(of_question)}
    return [{"node": home, "spec": resident} for home in homes]


def resident_manifests(asked: Json, name: str) -> list[Json]:
    """Return the residents of a question that was `named` so, as pods that are on their nodes."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-resident-{number}", "labels": _RESIDENT},
            "spec": _of_question(resident["spec"], name) | {"nodeName": f"{name}-{resident['node']}"},
        }
        for number, resident in enumerate(asked.get("residents", ()))
    ]


def _of_question(spec: Json, name: str) -> Json:
    """Return the spec of a resident, which keeps away the pod of its own question alone."""
    if "affinity" not in spec:
        return spec
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {LABEL: name}}}
    return spec | {"affinity": {"podAntiAffinity": _required(term)}}


def _port(number: int) -> Json:
    return {"containerPort": number, "hostPort": number}


def _required(term: Json) -> Json:
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
