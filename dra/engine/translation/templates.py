"""ResourceClaimTemplates for requests in Koordinator's form.

A node has one device for all of its CPUs (``--cpu-devices node``), and a card is a device with the capacities `memory`
and `core`; both are consumable, so the scheduler adds up what claims take.

Memory is counted in bytes alone. A ratio becomes bytes for each size of card in the cluster, as an alternative
(``firstAvailable``) with a selector for that size, the smallest card first. Bytes are rounded down to MiB, the step of
the capacity: rounded up, two halves of a card of 81559 MiB would not fit on the card.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, Final

from dra.api.koordinator import well_known
from dra.api.parameters.cpu_policies import CpuBindPolicy, CpuExclusivePolicy
from dra.api.parameters.opaque import API_VERSION
from dra.engine.translation.requests import WHOLE_CARD, CpuBinding, GpuShare, Request
from dra.model import quantities
from dra.model.koordinator_classes import QosClass

MAX_ALTERNATIVES: Final = 8
"""Maximum subrequests of a request (``FirstAvailableDeviceRequestMaxSize``)."""

MEBI: Final = 2**20

_CPU_REQUEST: Final = "cpus"
_GPU_REQUEST: Final = "gpu"
_CPU_ATTRIBUTES: Final = f"device.attributes['{well_known.CPU_DRIVER}']"
_UUID: Final = f"{well_known.GPU_DRIVER}/uuid"

_SCOPES: Final = (("-pcie", "resource.kubernetes.io/pcieRoot"), ("-numa", "resource.kubernetes.io/numaNode"), ("", ""))
"""Suffix of a subrequest, and the attribute that all of its cards share; the narrowest scope first."""


def template_manifest(
    name: str, namespace: str, request: Request, *, card_sizes: Sequence[int] = ()
) -> dict[str, Any] | None:
    """Return the template for a request; None if a ratio is requested and no card is published.

    `card_sizes`: bytes of memory of each size of card in the cluster, the most frequent first; a template has
    alternatives for eight of them.
    """
    devices = _cpu_devices(request) if isinstance(request, CpuBinding) else _gpu_devices(request, card_sizes)
    if devices is None:
        return None
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {well_known.LABEL_MADE_FROM: well_known.KOORDINATOR},
        },
        "spec": {"spec": {"devices": devices}},
    }


def _cpu_devices(request: CpuBinding) -> dict[str, Any]:
    opaque = {"driver": well_known.CPU_DRIVER, "parameters": _cpu_config(request)}
    exactly = {
        "deviceClassName": well_known.CPU_DRIVER,
        "selectors": _selectors(_cpu_selector(request)),
        "capacity": {"requests": _cpu_amounts(request)},
    }
    return {
        "requests": [{"name": _CPU_REQUEST, "exactly": exactly}],
        "config": [{"requests": [_CPU_REQUEST], "opaque": opaque}],
    }


def _cpu_amounts(request: CpuBinding) -> dict[str, str]:
    """Return what a pod consumes of a node's device; of cores only if the pod cannot do without."""
    amounts = {well_known.CPU_CAPACITY: str(request.cpus)}
    if request.required:
        whole = request.policy is CpuBindPolicy.FULL_PCPUS
        capacity = well_known.WHOLE_CORE_CAPACITY if whole else well_known.DISTINCT_CORE_CAPACITY
        amounts[capacity] = str(request.cpus)
    return amounts


def _cpu_config(request: CpuBinding) -> dict[str, str]:
    config = {"apiVersion": API_VERSION, "kind": "CpuConfig"}
    if request.policy is not None:
        config["requiredCPUBindPolicy" if request.required else "preferredCPUBindPolicy"] = request.policy.value
    if request.exclusivity is not CpuExclusivePolicy.NONE:
        config["preferredCPUExclusivePolicy"] = request.exclusivity.value
    if request.qos is QosClass.LSR:
        config["sharedWith"] = "BestEffort"
    return config


def _cpu_selector(request: CpuBinding) -> str:
    """Return the condition on a node's device: devices without a bind policy stand for less than a whole node.

    Nodes with the bind policy FullPCPUsOnly take whole cores alone, nodes with SpreadByPCPUs at most one CPU of each
    core. A required policy excludes nodes whose own policy is the other one. The driver keeps `freeCores` current: with
    too few cores, it could never prepare the claim.
    """
    policy = f"{_CPU_ATTRIBUTES}.bindPolicy"
    whole_cores = f"{request.cpus} % {_CPU_ATTRIBUTES}.threadsPerCore == 0"
    enough_cores = f"{_CPU_ATTRIBUTES}.freeCores >= {request.cpus}"
    conditions = [f"'bindPolicy' in {_CPU_ATTRIBUTES}"]
    if request.required and request.policy is CpuBindPolicy.FULL_PCPUS:
        conditions += [f"{policy} != 'SpreadByPCPUs'", whole_cores]
    elif request.required:
        conditions += [f"{policy} != 'FullPCPUsOnly'", enough_cores]
    else:
        conditions += [
            f"({policy} != 'FullPCPUsOnly' || {whole_cores})",
            f"({policy} != 'SpreadByPCPUs' || {enough_cores})",
        ]
    return " && ".join(conditions)


def _gpu_devices(request: GpuShare, card_sizes: Sequence[int]) -> dict[str, Any] | None:
    constraints: list[dict[str, Any]] = []
    if request.cards > 1:  # otherwise the scheduler may put two shares on one card
        constraints.append({"requests": [_GPU_REQUEST], "distinctAttribute": _UUID})
    asked: dict[str, Any]
    if request.memory_mebibytes is not None:
        asked = {"exactly": _cards(request, memory=request.memory_mebibytes * MEBI // request.cards)}
    elif card_sizes:
        alternatives, shared_attributes = _alternatives(request, card_sizes)
        asked = {"firstAvailable": alternatives}
        constraints += shared_attributes
    else:
        return None
    devices: dict[str, Any] = {"requests": [{"name": _GPU_REQUEST, **asked}]}
    return devices | ({"constraints": constraints} if constraints else {})


def _alternatives(request: GpuShare, card_sizes: Iterable[int]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return a subrequest for each size of card, and the constraints on them.

    Several whole cards prefer one PCIe root, then one NUMA node, as far as the number of alternatives allows.
    """
    sizes = sorted(list(dict.fromkeys(card_sizes))[:MAX_ALTERNATIVES])
    ratio = (request.ratio or 0) // request.cards
    whole = ratio == WHOLE_CARD and request.cards > 1
    scopes = _SCOPES if whole and len(sizes) * len(_SCOPES) <= MAX_ALTERNATIVES else _SCOPES[-1:]
    alternatives, constraints = [], []
    for size in sizes:
        for suffix, attribute in scopes:
            name = f"m{size // MEBI}{suffix}" if size % MEBI == 0 else f"b{size}{suffix}"
            cards = _cards(request, memory=_part(ratio, size))
            alternatives.append({"name": name, **cards, "selectors": _selectors(_size_selector(size))})
            if attribute:
                constraints.append({"requests": [f"{_GPU_REQUEST}/{name}"], "matchAttribute": attribute})
    return alternatives, constraints


def _cards(request: GpuShare, *, memory: int) -> dict[str, Any]:
    amounts = {well_known.GPU_MEMORY: quantities.canonical(Fraction(memory), quantities.Format.BINARY_SI)}
    if request.core is not None:
        amounts[well_known.GPU_CORE] = str(request.core // request.cards)
    return {
        "deviceClassName": well_known.GPU_DRIVER,
        "allocationMode": "ExactCount",
        "count": request.cards,
        "capacity": {"requests": amounts},
    }


def _part(ratio: int, size: int) -> int:
    """Return the bytes of a ratio of a card: whole MiB, at least one."""
    return size if ratio == WHOLE_CARD else max(1, ratio * size // WHOLE_CARD // MEBI) * MEBI


def _size_selector(size: int) -> str:
    text = quantities.canonical(Fraction(size), quantities.Format.BINARY_SI)
    memory = f"device.capacity['{well_known.GPU_DRIVER}'].{well_known.GPU_MEMORY}"
    return f"{memory}.compareTo(quantity('{text}')) == 0"


def _selectors(expression: str) -> list[dict[str, Any]]:
    return [{"cel": {"expression": expression}}]
