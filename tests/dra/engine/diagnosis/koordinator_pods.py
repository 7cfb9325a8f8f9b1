"""Pods that request CPUs and GPUs in Koordinator's form, as an API server stores them, and claims of theirs."""

from typing import Any

from dra.engine.translation.translated_pods import translate, translated_pod
from tests.dra.engine.translation.examples import container, gpus, lsr
from tests.dra.engine.translation.examples import pod as asking_pod

CPU_DRIVER = "cpu.reserve.dra"
GPU_DRIVER = "gpu.reserve.dra"


def stored(pod: dict[str, Any], *, translated: bool = False, on: str = "", **claims: str) -> dict[str, Any]:
    """Return a pod ``ml/a`` as it is stored; `claims` are the claims made for its entries, dashes as underscores."""
    made = translated_pod(pod, translate(pod).entries) if translated else pod
    statuses = [{"name": entry.replace("_", "-"), "resourceClaimName": name} for entry, name in claims.items()]
    identity = {"name": "a", "namespace": "ml", "uid": "uid-a", "resourceVersion": "1"}
    return {
        "metadata": made["metadata"] | identity,
        "spec": made["spec"] | {"nodeName": on},
        "status": {"phase": "Pending", "resourceClaimStatuses": statuses},
    }


def half(**more: Any) -> dict[str, Any]:
    return stored(asking_pod(gpus(gpu="50")), **more)


def bound(**more: Any) -> dict[str, Any]:
    return stored(lsr("2", "1"), **more)


def unequal() -> dict[str, Any]:
    """A bound pod whose limit is not its request; the translation refuses it."""
    found = container("main", {"cpu": "2"}, requests={"cpu": "1"})
    return stored(asking_pod(found, qos="LSR", priority=9500))


def offers(node: str = "n1", *, cards: int = 2, **pool: Any) -> list[dict[str, Any]]:
    """Return the slices of a node with cards of 16Gi for shares, and one device for its 14 CPUs."""
    gpu = {
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": "16Gi"}, "core": {"value": "100"}},
    }
    devices = [
        {
            "name": f"gpu-{minor}",
            "attributes": {"minor": {"int": minor}, "uuid": {"string": f"GPU-{minor}"}},
            **gpu,
        }
        for minor in range(cards)
    ]
    cpus = {"name": "cpus", "allowMultipleAllocations": True, "capacity": {"dra.cpu/cpu": {"value": "14"}}}
    return [_slice(node, GPU_DRIVER, devices, **pool), _slice(node, CPU_DRIVER, [cpus], **pool)]


def _slice(node: str, driver: str, devices: list[dict[str, Any]], **pool: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{node}-{driver}", "resourceVersion": "1"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1} | pool,
            "devices": devices,
        },
    }


def share(name: str, device: str, *, driver: str = GPU_DRIVER, cpuset: str = "", **consumed: str) -> dict[str, Any]:
    """Return a claim of pod ``ml/a`` with a share of a device of node n1."""
    result = {"request": "r", "driver": driver, "pool": "n1", "device": device, "shareID": f"share-{name}"}
    amounts = {"dra.cpu/cpu" if key == "cpu" else key: text for key, text in consumed.items()}
    status: dict[str, Any] = {
        "allocation": {"devices": {"results": [result | {"consumedCapacity": amounts}]}},
        "reservedFor": [{"resource": "pods", "name": "a", "uid": "uid-a"}],
    }
    if cpuset:
        reported = {"driver": driver, "pool": "n1", "device": device, "data": {"cpuset": cpuset}}
        status["devices"] = [reported]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "uid-a", "controller": True}
    return {
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": driver}}]}},
        "status": status,
    }
