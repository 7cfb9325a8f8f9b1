"""Strategies for translated requests, and for pods that ask in Koordinator's form."""

from typing import Any, Final

from hypothesis import strategies as st

from dra.api.parameters.cpu_policies import CpuBindPolicy, CpuExclusivePolicy
from dra.engine.translation.gpu_requests import ALLOWED_SETS
from dra.engine.translation.requests import (
    ALIGNING_POLICIES,
    MAX_ALIGNED_CONTAINERS,
    MAX_CARDS,
    MAX_CONTAINER_INDEX,
    MAX_CPUS,
    MAX_MEBIBYTES,
    WHOLE_CARD,
    AlignedRequest,
    CpuBinding,
    DeviceTopologyScope,
    GpuShare,
    Request,
)
from dra.model.koordinator_classes import NumaTopologyPolicy, QosClass


@st.composite
def cpu_bindings(draw: st.DrawFn) -> CpuBinding:
    """Draw a valid request for bound CPUs."""
    policy = draw(st.sampled_from([None, *CpuBindPolicy]))
    return CpuBinding(
        cpus=draw(st.integers(1, MAX_CPUS)),
        policy=policy,
        required=draw(st.booleans()),
        exclusivity=draw(st.sampled_from(CpuExclusivePolicy)),
        qos=draw(st.sampled_from([QosClass.LSE, QosClass.LSR])),
    )


@st.composite
def gpu_shares(draw: st.DrawFn, *, scoped: bool = True) -> GpuShare:
    """Draw a valid request for shares of cards; `scoped`: it may have a required scope."""
    cards = draw(st.integers(1, MAX_CARDS))
    core = draw(st.none() | st.integers(1, WHOLE_CARD))
    in_bytes = draw(st.booleans())
    each = draw(st.integers(1, MAX_MEBIBYTES // cards if in_bytes else WHOLE_CARD))
    scope = None
    if scoped and cards > 1 and not in_bytes and draw(st.booleans()):
        each, scope = WHOLE_CARD, draw(st.sampled_from(DeviceTopologyScope))
    return GpuShare(
        cards=cards,
        core=core * cards if core else None,
        ratio=None if in_bytes else each * cards,
        memory_mebibytes=each * cards if in_bytes else None,
        scope=scope,
    )


@st.composite
def aligned_requests(draw: st.DrawFn) -> AlignedRequest:
    """Draw a valid request for CPUs and cards of one NUMA node."""
    policy = draw(st.sampled_from(ALIGNING_POLICIES))
    both = policy is NumaTopologyPolicy.BEST_EFFORT
    cpus = draw(cpu_bindings() if both else st.none() | cpu_bindings())
    paths = st.tuples(st.sampled_from(["containers", "initContainers"]), st.integers(0, MAX_CONTAINER_INDEX))
    at_least = int(both or cpus is None)
    found = draw(st.sets(paths, min_size=at_least, max_size=MAX_ALIGNED_CONTAINERS))
    shares = gpu_shares(scoped=not both and len(found) == 1)
    return AlignedRequest(policy=policy, cpus=cpus, gpus=tuple((each, draw(shares)) for each in sorted(found)))


def requests() -> st.SearchStrategy[Request]:
    """Return a strategy for valid requests."""
    return cpu_bindings() | gpu_shares() | aligned_requests()


GPU_AMOUNTS: Final = {
    "gpu": ("50", "100", "200", "101", "0"),
    "gpu-core": ("50", "100.0", "2e2", "1k", "0.5", "150", "9E"),
    "gpu-memory": ("8Gi", "1", "64Gi", "1500m", "3Mi", "0.5Gi", "8e9", "1Ei", "70368744177665", "99999Gi", "1Pi"),
    "gpu-memory-ratio": ("50", "100", "200", "33", "101"),
    "gpu.shared": ("1", "2", "0", "33"),
}
"""Amounts of each resource, valid and not."""

VALID_GPU_REQUESTS: Final[tuple[dict[str, str], ...]] = (
    {"gpu": "50"},
    {"gpu": "400"},
    {"gpu-memory": "8Gi"},
    {"gpu-memory": "1", "gpu-core": "30"},
    {"gpu-memory-ratio": "33"},
    {"gpu-memory-ratio": "300", "gpu-core": "3e2"},
    {"gpu-memory": "64Gi", "gpu-core": "200"},
    {"gpu-memory": "1000001", "gpu.shared": "3"},
    {"gpu-memory-ratio": "100", "gpu.shared": "2"},
    {"gpu-memory": "64Ti", "gpu-core": "3200", "gpu.shared": "32"},
    {"gpu-memory-ratio": "150", "gpu-core": "75", "gpu.shared": "3"},
)

OTHER_RESOURCES: Final = {
    "memory": ("1Gi", "500M"),
    "nvidia.com/gpu": ("1", "2", "0"),
    "koordinator.sh/rdma": ("100", "0"),
    "kubernetes.io/fpga": ("100",),
    "huawei.com/npu-core": ("10",),
    "kubernetes.io/batch-cpu": ("500",),
    "kubernetes.io/batch-memory": ("1Gi",),
}

RESOURCE_SPECS: Final = (
    *["{}", '{"preferredCPUBindPolicy":"FullPCPUs"}'] * 4,
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
NUMA_SPECS: Final = (
    "{}",
    *['{"numaTopologyPolicy":"SingleNUMANode"}'] * 4,
    *['{"numaTopologyPolicy":"Restricted", "singleNUMANodeExclusive": "Preferred"}'] * 2,
    *['{"numaTopologyPolicy":"BestEffort"}'] * 4,
    '{"numaTopologyPolicy":"None"}',
    '{"numaTopologyPolicy":""}',
    '{"numaTopologyPolicy":"SingleNUMANode","singleNUMANodeExclusive":"Required"}',
    '{"numaTopologyPolicy":"Restricted","numaTopologyPolicy":"Restricted"}',
    '{"numaTopologyPolicy":"Single"}',
    "x",
)


POD_RESOURCES: Final = (
    *[{"requests": {"cpu": "400"}, "limits": {"cpu": "400"}}] * 3,
    {"limits": {"cpu": "400"}},
    {"requests": {"cpu": "400"}},
    {"requests": {"cpu": "400500m"}, "limits": {"cpu": "400500m"}},
    {"limits": {"memory": "400Gi"}},
)
"""Resources of whole pods, more than all containers have."""

RULES: Final = ("device-allocate-hint", "device-joint-allocate", "gpu-partition-spec")
HINTS: Final = (
    *[f'{{"gpu":{{"requiredTopologyScope":"{scope}"}}}}' for scope in ("PCIe", "NUMANode", "Device", "Node", "", "x")],
    ' { "gpu" : { "requiredTopologyScope" : "PCIe" } } ',
    '{"gpu":{"requiredTopologyScope":null}}',
    '{"gpu":{}}',
    '{"gpu":{"exclusivePolicy":"PCIeLevel"}}',
    '{"rdma":{"requiredTopologyScope":"PCIe"}}',
    '{"gpu":{"requiredTopologyScope":"PCIe"}}' + " " * 1024,
)


@st.composite
def _containers(draw: st.DrawFn, *, name: str) -> dict[str, Any]:
    limits: dict[str, str] = {}
    if draw(st.sampled_from([True, True, True, False])):
        limits["cpu"] = draw(st.sampled_from(["1", "2", "4", "2000m", "12", "2.0", "4e0", "0", "1500m"]))
    asked: dict[str, str] = draw(st.sampled_from([{}, {}, *VALID_GPU_REQUESTS]))
    if draw(st.integers(0, 9)) == 0:
        suffixes = draw(st.sampled_from(ALLOWED_SETS) | st.sets(st.sampled_from(sorted(GPU_AMOUNTS)), max_size=3))
        asked = {suffix: draw(st.sampled_from(GPU_AMOUNTS[suffix])) for suffix in sorted(suffixes)}
    prefixes = st.sampled_from(["koordinator.sh/"] * 4 + ["kubernetes.io/"])
    limits |= {draw(prefixes) + suffix: amount for suffix, amount in asked.items()}
    if draw(st.integers(0, 11)) == 0:
        other = draw(st.sampled_from(sorted(OTHER_RESOURCES)))
        limits[other] = draw(st.sampled_from(OTHER_RESOURCES[other]))
    resources: dict[str, Any] = {"limits": limits}
    match draw(st.sampled_from(["none"] * 6 + ["equal"] * 8 + ["changed", "requests-alone"])):
        case "equal":
            resources["requests"] = dict(limits)
        case "changed" if names := sorted(
            limits.keys() - {"nvidia.com/gpu"} - ({"cpu"} if limits.get("cpu") == "0" else set())
        ):
            resources["requests"] = limits | {draw(st.sampled_from(names)): "1"}  # no more than the limit
        case "requests-alone" if "nvidia.com/gpu" not in limits:
            resources = {"requests": limits}
    return {"name": name, "image": "registry.example/image", "resources": resources}


@st.composite
def _annotations(draw: st.DrawFn) -> dict[str, str]:
    annotations = {}
    if draw(st.sampled_from([True, False, False])):
        annotations["scheduling.koordinator.sh/resource-spec"] = draw(st.sampled_from(RESOURCE_SPECS))
    if draw(st.integers(0, 2)) == 0:
        annotations["scheduling.koordinator.sh/numa-topology-spec"] = draw(st.sampled_from(NUMA_SPECS))
    if draw(st.integers(0, 15)) == 0:
        rule = draw(st.sampled_from(RULES))
        annotations[f"scheduling.koordinator.sh/{rule}"] = draw(st.sampled_from(["{}", "x", ""]))
    if draw(st.integers(0, 5)) == 0:
        annotations["scheduling.koordinator.sh/device-allocate-hint"] = draw(st.sampled_from(HINTS))
    if draw(st.integers(0, 7)) == 0:
        annotations["reserve.dra/cpus"] = draw(st.sampled_from(["own", "other"]))
    return annotations


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a pod that asks in Koordinator's form, rightly or wrongly."""
    init = [draw(_containers(name=f"i{index}")) for index in range(draw(st.sampled_from([0, 0, 0, 1, 2])))]
    for container in init:
        if draw(st.booleans()):
            container["restartPolicy"] = "Always"
    qos = draw(st.sampled_from([""] * 4 + ["LSR"] * 4 + ["LSE"] * 2 + ["LS", "BE", "SYSTEM", "lsr"]))
    usual = 5500 if qos == "BE" else 9500
    labels = {"koordinator.sh/qosClass": qos} if qos else {}
    if draw(st.integers(0, 7)) == 0:
        labels["koordinator.sh/priority-class"] = draw(
            st.sampled_from(["koord-prod", "koord-mid", "koord-batch", "koord-free", "other"])
        )
    if draw(st.integers(0, 31)) == 0:
        labels["koordinator.sh/gpu-isolation-provider"] = "HAMi-core"
    annotations = draw(_annotations())
    containers = [draw(_containers(name=f"c{index}")) for index in range(draw(st.sampled_from([1, 1, 1, 2, 2, 3, 7])))]
    spec: dict[str, Any] = {"containers": containers}
    spec["priority"] = draw(st.sampled_from([usual] * 24 + [0, 3999, 7000, 5999, 9000, 10000]))
    if init:
        spec["initContainers"] = init
    if draw(st.integers(0, 7)) == 0:
        spec["resources"] = draw(st.sampled_from(POD_RESOURCES))
    if draw(st.integers(0, 7)) == 0:
        name = draw(st.sampled_from(["mine", "koord-cpus", "koord-gpu-0", "koord-numa"]))
        spec["resourceClaims"] = [{"name": name, "resourceClaimName": "mine"}]
        containers[0]["resources"]["claims"] = [{"name": name}]
    return {"metadata": {"name": "generated", "labels": labels, "annotations": annotations}, "spec": spec}
