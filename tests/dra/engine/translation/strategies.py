"""Strategies for translated requests, and for pods that ask in Koordinator's form."""

from typing import Any, Final

from hypothesis import strategies as st

from dra.api.parameters.cpu_policies import CpuBindPolicy, CpuExclusivePolicy
from dra.engine.translation.gpu_requests import ALLOWED_SETS
from dra.engine.translation.requests import (
    MAX_CARDS,
    MAX_CPUS,
    MAX_MEBIBYTES,
    WHOLE_CARD,
    CpuBinding,
    GpuShare,
    Request,
)
from dra.model.koordinator_classes import QosClass


@st.composite
def cpu_bindings(draw: st.DrawFn) -> CpuBinding:
    """Draw a valid request for bound CPUs."""
    policy = draw(st.sampled_from([None, *CpuBindPolicy]))
    return CpuBinding(
        cpus=draw(st.integers(1, MAX_CPUS)),
        policy=policy,
        required=policy is not None and draw(st.booleans()),
        exclusivity=draw(st.sampled_from(CpuExclusivePolicy)),
        qos=draw(st.sampled_from([QosClass.LSE, QosClass.LSR])),
    )


@st.composite
def gpu_shares(draw: st.DrawFn) -> GpuShare:
    """Draw a valid request for shares of cards."""
    cards = draw(st.integers(1, MAX_CARDS))
    core = draw(st.none() | st.integers(1, WHOLE_CARD))
    in_bytes = draw(st.booleans())
    each = draw(st.integers(1, MAX_MEBIBYTES // cards if in_bytes else WHOLE_CARD))
    return GpuShare(
        cards=cards,
        core=core * cards if core else None,
        ratio=None if in_bytes else each * cards,
        memory_mebibytes=each * cards if in_bytes else None,
    )


def requests() -> st.SearchStrategy[Request]:
    """Return a strategy for valid requests."""
    return cpu_bindings() | gpu_shares()


GPU_AMOUNTS: Final = {
    "gpu": ("50", "100", "200", "101", "0"),
    "gpu-core": ("50", "100", "200", "1k", "500m", "150"),
    "gpu-memory": ("8Gi", "1", "64Gi", "1500m", "3Mi"),
    "gpu-memory-ratio": ("50", "100", "200", "33", "101"),
    "gpu.shared": ("1", "2", "0", "33"),
}
"""Amounts of each resource, valid and not."""

OTHER_RESOURCES: Final = {
    "memory": ("1Gi", "500M"),
    "nvidia.com/gpu": ("1", "2"),
    "koordinator.sh/rdma": ("100",),
    "kubernetes.io/fpga": ("100",),
    "huawei.com/npu-core": ("10",),
    "kubernetes.io/batch-cpu": ("500",),
    "kubernetes.io/batch-memory": ("1Gi",),
}

RESOURCE_SPECS: Final = (
    "{}",
    '{"preferredCPUBindPolicy":"FullPCPUs"}',
    '{"preferredCPUBindPolicy" : "SpreadByPCPUs", "preferredCPUExclusivePolicy":"PCPULevel"}',
    '{"requiredCPUBindPolicy":"SpreadByPCPUs","preferredCPUExclusivePolicy":"NUMANodeLevel"}',
    ' {"requiredCPUBindPolicy":"Default", "preferredCPUBindPolicy":null}\n',
    '{"requiredCPUBindPolicy":"","preferredCPUBindPolicy":"Default","preferredCPUExclusivePolicy":"None"}',
    '{"preferredCPUBindPolicy":"ConstrainedBurst"}',
    '{"requiredCPUBindPolicy":"FullPCPUs","preferredCPUBindPolicy":"ConstrainedBurst"}',
    '{"preferredCPUBindPolicy":"fullpcpus"}',
    '{"bindPolicy":"FullPCPUs","preferredCPUExclusivePolicy":"x"}',
    '{"preferredCPUBindPolicy":"Default","preferredCPUBindPolicy":"Default"}',
    '{"preferredCPUBindPolicy":true}',
    '{"preferredCPUBindPolicy":"Default",}',
    "FullPCPUs",
    "",
)
NUMA_SPECS: Final = ("{}", '{"numaTopologyPolicy":"SingleNUMANode"}', '{"numaTopologyPolicy":"Single"}', "x")


@st.composite
def _containers(draw: st.DrawFn, *, name: str) -> dict[str, Any]:
    limits: dict[str, str] = {}
    if draw(st.sampled_from([True, True, True, False])):
        limits["cpu"] = draw(st.sampled_from(["1", "2", "4", "2000m", "0", "1500m", "500m", "1k"]))
    prefixes = st.sampled_from(["koordinator.sh/"] * 4 + ["kubernetes.io/"])
    sets = [(), (), (), *ALLOWED_SETS, tuple(draw(st.sets(st.sampled_from(sorted(GPU_AMOUNTS)), max_size=3)))]
    for suffix in draw(st.sampled_from(sets)):
        limits[draw(prefixes) + suffix] = draw(st.sampled_from(GPU_AMOUNTS[suffix]))
    if draw(st.sampled_from([True, False, False, False])):
        other = draw(st.sampled_from(sorted(OTHER_RESOURCES)))
        limits[other] = draw(st.sampled_from(OTHER_RESOURCES[other]))
    resources: dict[str, Any] = {"limits": limits}
    match draw(st.sampled_from(["none", "none", "equal", "equal", "equal", "dropped", "changed", "requests-alone"])):
        case "equal":
            resources["requests"] = dict(limits)
        case "changed" if limits:
            resources["requests"] = limits | {draw(st.sampled_from(sorted(limits))): "1"}
        case "dropped" if limits:
            resources["requests"] = {draw(st.sampled_from(sorted(limits))): limits[min(limits)]}
        case "requests-alone":
            resources = {"requests": limits}
    return {"name": name, "image": "registry.example/image", "resources": resources}


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a pod that asks in Koordinator's form, rightly or wrongly."""
    init = [draw(_containers(name=f"i{index}")) for index in range(draw(st.sampled_from([0, 0, 0, 1, 2])))]
    for container in init:
        if draw(st.booleans()):
            container["restartPolicy"] = "Always"
    qos = draw(st.sampled_from(["", "LSR", "LSR", "LSR", "LSE", "LS", "BE", "SYSTEM", "lsr"]))
    usual = 5500 if qos == "BE" else 9500
    labels = {"koordinator.sh/qosClass": qos} if qos else {}
    if draw(st.sampled_from([True, False, False, False])):
        labels["koordinator.sh/priority-class"] = draw(
            st.sampled_from(["koord-prod", "koord-mid", "koord-batch", "koord-free", "other"])
        )
    annotations = {}
    if draw(st.booleans()):
        annotations["scheduling.koordinator.sh/resource-spec"] = draw(st.sampled_from(RESOURCE_SPECS))
    if draw(st.sampled_from([True, False, False, False])):
        annotations["scheduling.koordinator.sh/numa-topology-spec"] = draw(st.sampled_from(NUMA_SPECS))
    if draw(st.sampled_from([True] + [False] * 7)):
        annotations["reserve.dra/cpus"] = draw(st.sampled_from(["own", "other"]))
    containers = [draw(_containers(name=f"c{index}")) for index in range(draw(st.sampled_from([1, 1, 2, 3])))]
    spec: dict[str, Any] = {"containers": containers}
    spec["priority"] = draw(st.sampled_from([usual] * 6 + [0, 3999, 7000, 5999, 9000, 10000]))
    if init:
        spec["initContainers"] = init
    if draw(st.sampled_from([True] + [False] * 7)):
        name = draw(st.sampled_from(["mine", "koord-cpus", "koord-gpu-0"]))
        spec["resourceClaims"] = [{"name": name, "resourceClaimName": "mine"}]
        containers[0]["resources"]["claims"] = [{"name": name}]
    return {"metadata": {"name": "generated", "labels": labels, "annotations": annotations}, "spec": spec}
