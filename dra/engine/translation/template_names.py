"""Names of ResourceClaimTemplates: each name spells a request completely, so that templates are made from names alone.

* ``koord-cpu-<CPUs>-<default|full|spread>[-required][-pcpu|-numa]-<lse|lsr>``: `CpuBinding`;
* ``koord-gpu[-c<core>][-r<ratio>][-m<MiB>]-s<cards>[-pcie|-numa]``: `GpuShare`, totals over all cards;
* ``koord-numa-<single|restricted|best>[.cpu-…][.gpu-<container>-…][.gpu-init-<container>-…]``: `AlignedRequest`, whose
  parts are named as above.

Each request has one name, and each other text is the name of no request: numbers have no leading zeros, parts have one
order.
"""

import re
from typing import Final

from dra.api.parameters.cpu_policies import CpuBindPolicy, CpuExclusivePolicy
from dra.engine.translation.requests import (
    AlignedRequest,
    ContainerPath,
    CpuBinding,
    DeviceTopologyScope,
    GpuShare,
    Request,
    gpu_request_name,
)
from dra.model.koordinator_classes import NumaTopologyPolicy, QosClass

PREFIX: Final = "koord-"
CPU_PREFIX: Final = "koord-cpu-"
GPU_PREFIX: Final = "koord-gpu"
ALIGNED_PREFIX: Final = "koord-numa-"
SEPARATOR: Final = "."
"""Separator of the parts of an aligned request."""
REQUIRED: Final = "-required"

POLICY_WORDS: Final[dict[CpuBindPolicy | None, str]] = {
    None: "default",
    CpuBindPolicy.FULL_PCPUS: "full",
    CpuBindPolicy.SPREAD_BY_PCPUS: "spread",
}
EXCLUSIVITY_WORDS: Final = {
    CpuExclusivePolicy.NONE: "",
    CpuExclusivePolicy.PCPU_LEVEL: "-pcpu",
    CpuExclusivePolicy.NUMA_NODE_LEVEL: "-numa",
}
NUMA_WORDS: Final = {
    NumaTopologyPolicy.SINGLE_NUMA_NODE: "single",
    NumaTopologyPolicy.RESTRICTED: "restricted",
    NumaTopologyPolicy.BEST_EFFORT: "best",
}
SCOPE_WORDS: Final[dict[DeviceTopologyScope | None, str]] = {
    None: "",
    DeviceTopologyScope.PCIE: "-pcie",
    DeviceTopologyScope.NUMA_NODE: "-numa",
}

_NUMA_POLICIES: Final = {word: policy for policy, word in NUMA_WORDS.items()}
_POLICIES: Final = {word: policy for policy, word in POLICY_WORDS.items()}
_EXCLUSIVITIES: Final = {word: policy for policy, word in EXCLUSIVITY_WORDS.items()}
_SCOPES: Final = {word: scope for scope, word in SCOPE_WORDS.items()}
_QOS_WORDS: Final = {"lse": QosClass.LSE, "lsr": QosClass.LSR}

_NUMBER: Final = r"([1-9][0-9]{0,12})"
_CPU_NAME: Final = re.compile(
    rf"{CPU_PREFIX}{_NUMBER}-({'|'.join(_POLICIES)})({REQUIRED})?({'|'.join(_EXCLUSIVITIES)})-({'|'.join(_QOS_WORDS)})"
)
_GPU_PART: Final = re.compile(r"gpu-(init-)?(0|[1-9][0-9]{0,2})(-.*)")
_GPU_NAME: Final = re.compile(
    rf"{GPU_PREFIX}(?:-c{_NUMBER})?(?:-r{_NUMBER})?(?:-m{_NUMBER})?-s{_NUMBER}({'|'.join(_SCOPES)})"
)


def name_of(request: Request) -> str:
    """Return the name of the template for a request."""
    if isinstance(request, AlignedRequest):
        return _aligned_name(request)
    if isinstance(request, CpuBinding):
        policy = POLICY_WORDS[request.policy] + (REQUIRED if request.required else "")
        exclusivity = EXCLUSIVITY_WORDS[request.exclusivity]
        return f"{CPU_PREFIX}{request.cpus}-{policy}{exclusivity}-{request.qos.name.lower()}"
    parts = (("c", request.core), ("r", request.ratio), ("m", request.memory_mebibytes), ("s", request.cards))
    amounts = "".join(f"-{letter}{number}" for letter, number in parts if number is not None)
    return f"{GPU_PREFIX}{amounts}{SCOPE_WORDS[request.scope]}"


def parse(name: str) -> Request | None:
    """Return the request that a name spells; None if the name is not that of a template made from a request."""
    request = _parse_cpu_name(name) or _parse_gpu_name(name) or _parse_aligned_name(name)
    return request if request is not None and request.is_valid else None


def _parse_cpu_name(name: str) -> CpuBinding | None:
    if (match := _CPU_NAME.fullmatch(name)) is None:
        return None
    cpus, policy, required, exclusivity, qos = match.groups()
    return CpuBinding(
        cpus=int(cpus),
        policy=_POLICIES[policy],
        required=required is not None,
        exclusivity=_EXCLUSIVITIES[exclusivity],
        qos=_QOS_WORDS[qos],
    )


def _parse_gpu_name(name: str) -> GpuShare | None:
    if (match := _GPU_NAME.fullmatch(name)) is None:
        return None
    *numbers, scope = match.groups()
    core, ratio, memory, cards = (int(text) if text else None for text in numbers)
    return GpuShare(core=core, ratio=ratio, memory_mebibytes=memory, cards=cards or 0, scope=_SCOPES[scope])


def _aligned_name(request: AlignedRequest) -> str:
    cpus = [name_of(request.cpus).removeprefix(PREFIX)] if request.cpus is not None else []
    gpus = [gpu_request_name(path) + name_of(share).removeprefix(GPU_PREFIX) for path, share in request.gpus]
    return SEPARATOR.join([f"{ALIGNED_PREFIX}{NUMA_WORDS[request.policy]}", *cpus, *gpus])


def _parse_aligned_name(name: str) -> AlignedRequest | None:
    first, *parts = name.removeprefix(ALIGNED_PREFIX).split(SEPARATOR)
    policy = _NUMA_POLICIES.get(first)
    if policy is None or not name.startswith(ALIGNED_PREFIX):
        return None
    cpus = _parse_cpu_name(f"{PREFIX}{parts[0]}") if parts else None
    gpus = [_parse_gpu_part(part) for part in parts[cpus is not None :]]
    known = tuple(gpu for gpu in gpus if gpu is not None)
    return AlignedRequest(policy=policy, cpus=cpus, gpus=known) if len(known) == len(gpus) else None


def _parse_gpu_part(part: str) -> tuple[ContainerPath, GpuShare] | None:
    if (match := _GPU_PART.fullmatch(part)) is None:
        return None
    init, index, rest = match.groups()
    share = _parse_gpu_name(f"{GPU_PREFIX}{rest}")
    return (("initContainers" if init else "containers", int(index)), share) if share is not None else None
