"""Capacities of devices that several claims may share: how much is published, and how much claims consume."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from dra.engine.allocator.consumable_capacity import ConsumedCapacity, as_device_names, device_names
from dra.engine.allocator.resource_slice_tracker import CandidateDevice
from dra.engine.cpus.cpusets import NO_CPUS
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.devices import devices
from dra.engine.pod_reports.resource_status import reported_cpus
from dra.model import quantities
from dra.model.meta import Key, Struct, Uid


class CapacityUsage(Struct, frozen=True):
    """One capacity of a device, with what claims consume."""

    device: str
    """The device as DRIVER/POOL/DEVICE."""

    node: str
    capacity: str
    used: str
    total: str
    pods: int
    """Number of pods that use the device now."""

    claims: int
    """Number of claims that have a share of the device."""

    cpus: str = ""
    """The CPUs that the claims are bound to, such as ``2-3``, as far as a driver has reported them."""


def capacity_usage(cluster: ClusterState) -> Iterator[CapacityUsage]:
    """Yield each capacity of each device that several claims may share, in the order of the devices."""
    for usage in devices(cluster):
        candidate = cluster.inventory.candidate(usage.item)
        if candidate is None or not candidate.device.allow_multiple_allocations:
            continue
        consumed = _consumed(cluster, candidate)
        pods = {uid for key in usage.holders for uid in _consuming_pods(cluster, key)}
        for name, capacity in sorted((candidate.device.capacity or {}).items()):
            total = str(capacity.get("value", "0"))
            yield CapacityUsage(
                device=str(usage.item),
                node=usage.node,
                capacity=name,
                used=quantities.canonical(consumed.get(name, Fraction(0)), quantities.format_of(total)),
                total=total,
                pods=len(pods),
                claims=len(dict.fromkeys(usage.holders)),
                cpus=_bound_cpus(cluster, usage.holders),
            )


def capacity_shortages(
    cluster: ClusterState, candidates: Sequence[CandidateDevice], requested: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the capacities that a request lacks on the device that has most of them; empty if a device has them all.

    The candidates are the devices of a node that the request selects. A device that is not shared lacks nothing.
    """
    shortages = [tuple(_shortages(cluster, candidate, requested)) for candidate in candidates]
    return min(shortages, key=len, default=())


def _shortages(cluster: ClusterState, candidate: CandidateDevice, requested: Mapping[str, str]) -> Iterator[str]:
    if not candidate.device.allow_multiple_allocations:
        return
    consumed, capacity = _consumed(cluster, candidate), candidate.device.capacity or {}
    names = device_names(candidate.device, requested, driver=candidate.item.driver, release=cluster.inventory.release)
    for name, text in sorted((names[name], text) for name, text in requested.items()):
        total = str(capacity.get(name, {}).get("value", "0"))
        left = max(quantities.parse(total) - consumed.get(name, Fraction(0)), Fraction(0))
        if quantities.parse(text) > left:
            free = quantities.canonical(left, quantities.format_of(total))
            yield f"{name}: {text} requested, {free} of {total} free"


def _consumed(cluster: ClusterState, candidate: CandidateDevice) -> ConsumedCapacity:
    """Return what claims consume of a device, by the names that the device has for its capacities."""
    consumed, release = cluster.shares.consumed(candidate.item), cluster.inventory.release
    return as_device_names(candidate.device, consumed, driver=candidate.item.driver, release=release)


def _consuming_pods(cluster: ClusterState, key: Key) -> Iterator[Uid]:
    view = cluster.view(key)
    for consumer in (*view.starting, *view.started) if view is not None else ():
        yield consumer.uid


def _bound_cpus(cluster: ClusterState, holders: tuple[Key, ...]) -> str:
    cpus = NO_CPUS
    for key in holders:
        claim = cluster.claim_cache.claim(key)
        if claim is not None:
            cpus |= reported_cpus(claim.status.devices or ())
    return str(cpus)
