"""Pods that ask for CPUs and GPUs in Koordinator's form."""

from collections.abc import Mapping
from typing import Any

RESOURCE_SPEC = "scheduling.koordinator.sh/resource-spec"
QOS = "koordinator.sh/qosClass"
PRIORITY_CLASS = "koordinator.sh/priority-class"


def pod(
    *containers: dict[str, Any],
    init: tuple[dict[str, Any], ...] = (),
    qos: str = "",
    priority: int = 0,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a pod as in the API."""
    return {
        "metadata": {
            "name": "p",
            "labels": {**({QOS: qos} if qos else {}), **(labels or {})},
            "annotations": dict(annotations or {}),
        },
        "spec": {
            "priority": priority,
            "containers": list(containers),
            **({"initContainers": list(init)} if init else {}),
            **spec,
        },
    }


def lsr(*cpus: str, qos: str = "LSR", **more: Any) -> dict[str, Any]:
    """Return a pod with the priority class koord-prod whose containers ask for the given CPUs."""
    return pod(*(container(f"c{index}", cpu=each) for index, each in enumerate(cpus)), qos=qos, priority=9500, **more)


def container(
    name: str = "main",
    limits: Mapping[str, Any] | None = None,
    /,
    *,
    requests: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return a container with limits, and requests that equal the limits unless given."""
    limits = {**(limits or {}), **more}
    return {"name": name, "resources": {"limits": limits, "requests": dict(limits if requests is None else requests)}}


def gpus(name: str = "main", /, **amounts: Any) -> dict[str, Any]:
    """Return a container that asks for ``koordinator.sh/gpu*``; `core` stands for ``gpu-core``, and so on."""
    names = {"core": "gpu-core", "memory": "gpu-memory", "ratio": "gpu-memory-ratio", "shared": "gpu.shared"}
    return container(name, {f"koordinator.sh/{names.get(key, key)}": value for key, value in amounts.items()})


def sidecar(name: str, **limits: Any) -> dict[str, Any]:
    """Return an init container that goes on beside the others."""
    return {**container(name, limits), "restartPolicy": "Always"}
