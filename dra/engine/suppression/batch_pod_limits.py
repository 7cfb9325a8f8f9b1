"""The limits of batch pods: CPU shares, CPU quota and memory limit of a pod and each of its containers.

A batch pod requests ``kubernetes.io/batch-cpu`` (milli-CPUs) and ``kubernetes.io/batch-memory`` (bytes), which no
kubelet turns into limits: for the kubelet the pod has no requests at all, and its QoS class is BestEffort.

========  ============================================  ==============================================================
limit     of a container                                of the pod
========  ============================================  ==============================================================
shares    request · 1024 / 1000, within 2 to 262144     of the sum of requests
quota     limit; none without a limit                   the sum of limits; none if one container has none
memory    limit in whole pages; none without a limit    the sum of limits; none if one container has none
========  ============================================  ==============================================================

Sums count init containers as the kubelet does: they run one after the other before the containers, so the largest
counts, and those with ``restartPolicy: Always`` run beside all that start after them, so these are added. (Koordinator
leaves init containers out.) A pod of which no container names one of the two resources gets no limits for that one.

Fractions of a milli-CPU are rounded up: ``batch-cpu: 200m`` means a fifth of a milli-CPU and counts as 1. What cannot
be read counts as absent.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import ceil
from typing import Final

from dra.api.colocation.well_known import BATCH_CPU, BATCH_MEMORY
from dra.engine.suppression.cpu_weights import MAX_SHARES, MIN_SHARES
from dra.model import quantities
from dra.model.koordinator_classes import QosClass, qos_class
from dra.model.meta import Struct
from dra.model.quantities import CPU, MalformedQuantityError
from dra.model.scheduling import SIDECAR, Container, ResourceRequirements, SchedulerPod

_MEMORY: Final = "memory"

MAX_MILLI: Final = 8192 * 1000
"""The greatest CPU limit: more CPUs than Linux is built for. A greater one is none: quotas that are endless numbers are
refused by the kernel."""

MAX_MEMORY_BYTES: Final = 2**62
"""The greatest memory limit; a greater one is none."""


class CgroupLimits(Struct, frozen=True):
    """The limits of one cgroup."""

    shares: int | None = None
    """CPU shares; None: not ours to write."""

    cpu_milli: int | None = None
    """CPU limit in milli-CPUs; None: no limit."""

    memory_bytes: int | None = None
    """Memory limit in bytes; None: no limit."""


class BatchPodLimits(Struct, frozen=True):
    """The limits of a batch pod and its containers."""

    pod: CgroupLimits
    containers: Mapping[str, CgroupLimits]
    """By the name of the container, init containers included."""

    has_cpu: bool
    """Whether the pod names batch-cpu; if not, its CPU files are not ours."""

    has_memory: bool
    """Whether the pod names batch-memory; if not, its memory files are not ours."""

    fractions: tuple[str, ...] = ()
    """Containers whose batch-cpu is no whole number of milli-CPUs."""


class _Need(Struct, frozen=True):
    """Request and limit of a container for one resource."""

    request: int
    limit: int | None


def batch_pod_limits(pod: SchedulerPod) -> BatchPodLimits | None:
    """Return the limits of a pod; None if it is no batch pod: not labelled BE, or without batch resources."""
    if qos_class(pod) is not QosClass.BE:
        return None
    containers = (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))
    has_cpu, has_memory = (
        any(resource in _named(container.resources) for container in containers)
        for resource in (BATCH_CPU, BATCH_MEMORY)
    )
    if not (has_cpu or has_memory):
        return None
    cpu = {container.name: _need(container.resources, BATCH_CPU) for container in containers}
    memory = {container.name: _need(container.resources, BATCH_MEMORY) for container in containers}
    cpu_sum = _pod_need(pod, cpu, _overhead(pod, BATCH_CPU, plain=CPU, scale=1000))
    memory_sum = _pod_need(pod, memory, _overhead(pod, BATCH_MEMORY, plain=_MEMORY, scale=1))

    def limits(cpu: _Need, memory: _Need) -> CgroupLimits:
        return CgroupLimits(
            shares=cpu_shares(cpu.request) if has_cpu else None,
            cpu_milli=_bounded(cpu.limit, MAX_MILLI),
            memory_bytes=_bounded(memory.limit, MAX_MEMORY_BYTES),
        )

    return BatchPodLimits(
        pod=limits(cpu_sum, memory_sum),
        containers={name: limits(cpu[name], memory[name]) for name in cpu},
        has_cpu=has_cpu,
        has_memory=has_memory,
        fractions=tuple(container.name for container in containers if _has_fraction(container.resources)),
    )


def cpu_shares(milli: int) -> int:
    """Return the CPU shares of a request in milli-CPUs, as the kernel keeps them: from 2 to 262144."""
    return min(max(milli * 1024 // 1000, MIN_SHARES), MAX_SHARES)


def _named(resources: ResourceRequirements) -> frozenset[str]:
    return frozenset((*(resources.limits or ()), *(resources.requests or ())))


def _need(resources: ResourceRequirements, resource: str) -> _Need:
    """Return what a container asks for; a limit without a request is a request as well."""
    limit = _amount(resources.limits, resource)
    request = _amount(resources.requests, resource)
    return _Need(request=limit or 0 if request is None else request, limit=limit or None)


def _amount(amounts: Mapping[str, str | int] | None, resource: str, *, scale: int = 1) -> int | None:
    text = (amounts or {}).get(resource)
    return None if text is None else _whole(text, scale)


@lru_cache(maxsize=4096)  # pods of one workload have the same few amounts, read again and again
def _whole(text: str | int, scale: int) -> int | None:
    try:
        return max(ceil(quantities.parse(text) * scale), 0)
    except MalformedQuantityError:
        return None


def _has_fraction(resources: ResourceRequirements) -> bool:
    texts = ((amounts or {}).get(BATCH_CPU) for amounts in (resources.requests, resources.limits))
    return any(text is not None and _is_fraction(text) for text in texts)


@lru_cache(maxsize=4096)
def _is_fraction(text: str | int) -> bool:
    try:
        return quantities.parse(text).denominator != 1
    except MalformedQuantityError:
        return False


def _overhead(pod: SchedulerPod, resource: str, *, plain: str, scale: int) -> int:
    """Return the overhead of a pod's sandbox, whether it is translated into the batch resource or not."""
    translated = _amount(pod.spec.overhead, resource)
    return (_amount(pod.spec.overhead, plain, scale=scale) or 0) if translated is None else translated


def _pod_need(pod: SchedulerPod, needs: Mapping[str, _Need], overhead: int) -> _Need:
    """Return what a pod needs at most at one moment, from its init containers, sidecars and containers."""
    initial, main = pod.spec.init_containers or (), pod.spec.containers or ()
    request = _at_most(initial, main, {name: need.request for name, need in needs.items()})
    limits = {name: need.limit for name, need in needs.items() if need.limit is not None}
    limit = _at_most(initial, main, limits) + overhead if len(limits) == len(needs) else None
    return _Need(request=request + overhead, limit=limit)


def _at_most(initial: Iterable[Container], main: Iterable[Container], amounts: Mapping[str, int]) -> int:
    beside = largest = 0
    for container in initial:
        amount = amounts.get(container.name, 0)
        if container.restart_policy == SIDECAR:
            beside += amount
            largest = max(largest, beside)
        else:
            largest = max(largest, beside + amount)
    return max(largest, beside + sum(amounts.get(container.name, 0) for container in main))


def _bounded(amount: int | None, greatest: int) -> int | None:
    return None if amount is None or amount > greatest else amount
