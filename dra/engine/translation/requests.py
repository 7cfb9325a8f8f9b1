"""Translated requests: the bound CPUs of a pod, the shares of GPUs of a container, both aligned, and their entries."""

from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from dra.api.parameters.cpu_policies import CpuBindPolicy, CpuExclusivePolicy
from dra.model.koordinator_classes import NumaTopologyPolicy, QosClass
from dra.model.meta import Struct

MAX_CPUS: Final = 9999
"""Maximum CPUs of a pod; no node has as many."""

MAX_CARDS: Final = 32
"""Maximum cards of a container: the maximum results of an allocation (``AllocationResultsMaxSize``)."""

MAX_MEBIBYTES: Final = 2**43 - 1
"""Maximum memory of a container's cards: the maximum of a quantity, 2^63 - 1 bytes."""

WHOLE_CARD: Final = 100
"""Percent that a card has, of compute as of memory."""


class CpuBinding(Struct, frozen=True, kw_only=True):
    """A pod's request for bound CPUs."""

    cpus: int
    policy: CpuBindPolicy | None = None
    """Bind policy; None for the cluster's default policy."""
    required: bool = False
    """Whether the policy must be satisfied."""
    exclusivity: CpuExclusivePolicy = CpuExclusivePolicy.NONE
    qos: QosClass
    """QoS class of the pod: LSE or LSR."""

    @property
    def is_valid(self) -> bool:
        """Whether a pod can make such a request."""
        return 1 <= self.cpus <= MAX_CPUS and self.qos in (QosClass.LSE, QosClass.LSR)

    def resolved(self, default: CpuBindPolicy) -> "CpuBinding":
        """Return the request with the cluster's default policy, unless drivers have the same preference themselves."""
        if self.policy is not None or (default is CpuBindPolicy.FULL_PCPUS and not self.required):
            return self
        return msgspec.structs.replace(self, policy=default)


class DeviceTopologyScope(StrEnum):
    """A part of a node to which all cards of a pod have to belong."""

    PCIE = "PCIe"
    NUMA_NODE = "NUMANode"


class GpuShare(Struct, frozen=True, kw_only=True):
    """A container's request for shares of cards: totals over all cards, each a multiple of the number of cards."""

    cards: int
    core: int | None = None
    """Percent of compute."""
    ratio: int | None = None
    """Percent of memory; excludes `memory_mebibytes`."""
    memory_mebibytes: int | None = None
    scope: DeviceTopologyScope | None = None
    """Required scope, of several whole cards."""

    @property
    def is_whole(self) -> bool:
        """Whether each card is whole; a number of bytes is not known to be."""
        return self.ratio == WHOLE_CARD * self.cards

    @property
    def is_valid(self) -> bool:
        """Whether a container can make such a request."""
        percents = [percent for percent in (self.core, self.ratio) if percent is not None]
        memory = self.memory_mebibytes
        return (
            1 <= self.cards <= MAX_CARDS
            and (self.ratio is None) != (memory is None)
            and all(total >= 1 and not total % self.cards for total in (*percents, memory or self.cards))
            and all(percent <= WHOLE_CARD * self.cards for percent in percents)
            and (memory is None or 1 <= memory <= MAX_MEBIBYTES)
            and (self.scope is None or (self.cards > 1 and self.is_whole))
        )


ContainerPath: TypeAlias = tuple[str, int]
"""Field of a pod's spec (``containers`` or ``initContainers``) and index of the container."""

MAX_ALIGNED_CONTAINERS: Final = 5
"""Maximum containers with GPUs in an aligned request: the template's name spells all, and has 253 characters."""

MAX_CONTAINER_INDEX: Final = 999


class AlignedRequest(Struct, frozen=True, kw_only=True):
    """A pod's request for CPUs and cards of one NUMA node: a single claim, since constraints hold within a claim."""

    policy: NumaTopologyPolicy
    cpus: CpuBinding | None = None
    gpus: tuple[tuple[ContainerPath, GpuShare], ...] = ()
    """The containers with GPUs, those of ``initContainers`` last, and what each asks for."""

    @property
    def is_valid(self) -> bool:
        """Whether a pod can make such a request."""
        paths = [path for path, _ in self.gpus]
        return (
            self.policy in ALIGNING_POLICIES
            and bool(self.cpus or self.gpus)
            and (self.policy is not NumaTopologyPolicy.BEST_EFFORT or bool(self.cpus and self.gpus))
            and (self.cpus is None or self.cpus.is_valid)
            and all(share.is_valid for _, share in self.gpus)
            and (self._may_have_scope or all(share.scope is None for _, share in self.gpus))
            and len(paths) <= MAX_ALIGNED_CONTAINERS
            and all(index <= MAX_CONTAINER_INDEX for _, index in paths)
            and paths == sorted(set(paths))
        )

    @property
    def _may_have_scope(self) -> bool:
        return self.policy is not NumaTopologyPolicy.BEST_EFFORT and len(self.gpus) == 1


ALIGNING_POLICIES: Final = tuple(policy for policy in NumaTopologyPolicy if policy is not NumaTopologyPolicy.NONE)

Request: TypeAlias = CpuBinding | GpuShare | AlignedRequest


def gpu_shares(request: Request) -> tuple[GpuShare, ...]:
    """Return the shares of cards that a request asks for."""
    if isinstance(request, AlignedRequest):
        return tuple(share for _, share in request.gpus)
    return (request,) if isinstance(request, GpuShare) else ()


class ClaimEntry(Struct, frozen=True):
    """An entry of ``spec.resourceClaims``, with the containers that refer to the claim."""

    name: str
    request: Request
    containers: tuple[ContainerPath, ...]
    """The container that an entry for cards is made for comes first."""
    lent: tuple[tuple[ContainerPath, ContainerPath], ...] = ()
    """Init containers that use the cards of another container: these, then that one."""

    def request_name(self, container: ContainerPath) -> str:
        """Return the request of the claim that a container refers to; empty if it refers to the whole claim."""
        if not isinstance(self.request, AlignedRequest):
            return ""
        owner = dict(self.lent).get(container, container)
        return gpu_request_name(owner) if owner in dict(self.request.gpus) else CPU_REQUEST


CPU_REQUEST: Final = "cpus"
"""Name of the request for CPUs."""


def gpu_request_name(container: ContainerPath) -> str:
    """Return the name of an aligned claim's request for the cards of a container."""
    field, index = container
    return f"{GPU_REQUEST_PREFIXES[field]}{index}"


GPU_REQUEST_PREFIXES: Final = {"containers": "gpu-", "initContainers": "gpu-init-"}


class Refusal(Struct, frozen=True):
    """A refused field of a pod: path from the root of the object, and a text that says what to do."""

    path: str
    text: str

    def __str__(self) -> str:
        """Return the path and the text as the API server prints an invalid field."""
        return f"{self.path}: {self.text}"


class Translation(Struct, frozen=True):
    """The entries that a pod's requests translate to, or the refusals; with refusals there are no entries."""

    entries: tuple[ClaimEntry, ...] = ()
    refusals: tuple[Refusal, ...] = ()
