"""Devices and nodes: which node has a device, which claims hold it, and how many pods use it; their sums by group."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

from dra.engine.allocator.resource_slice_tracker import PoolState
from dra.engine.allocator.shared_counters import blocking_devices
from dra.engine.device_usage.gpu_activity import GpuActivity
from dra.engine.device_usage.groups import DeviceNumbers, UsageGroup, count_groups
from dra.engine.devices.ledger import DeviceID, allocated_devices
from dra.engine.diagnosis.cluster_state import ClusterState, slice_taints
from dra.engine.diagnosis.pools import pool_state
from dra.engine.instants import Moment
from dra.model.meta import Key, Struct
from dra.model.slices import ResourceSlice
from dra.model.taints import EXCLUDING_EFFECTS, DeviceTaint


class DeviceObstacle(StrEnum):
    """Obstacles to allocating a device that no claim holds and no taint excludes."""

    NONE = ""
    POOL_INCOMPLETE = "Incomplete"
    POOL_INVALID = "Invalid"
    NODE_NOT_READY = "NotReady"
    NODE_CORDONED = "Cordoned"
    COUNTERS_USED = "CountersUsed"  # by held devices that overlap with the device, such as the whole card


class DeviceUsage(Struct, frozen=True):
    """A device with its holders and users."""

    item: DeviceID
    node: str
    """Node of the device; empty if several nodes can use the device."""

    holders: tuple[Key, ...]
    """Claims that hold the device or a share of it."""

    taints: tuple[str, ...]
    offered: bool
    """Whether a ResourceSlice still has the device."""

    consumers: int
    """Number of pods that use the device now."""

    known: bool
    """Whether all claims could be read; only then does a device without a holder count as free."""

    obstacle: DeviceObstacle = DeviceObstacle.NONE
    """What is wrong with the device's pool or its only node, or with the counters that it shares with others."""

    excluded: bool = False
    """Whether a taint keeps claims without a toleration from the device."""

    @property
    def free(self) -> bool:
        """Whether a claim could get the device: offered, held by no claim, with no taint and no obstacle."""
        return self.offered and not (self.holders or self.excluded or self.obstacle)

    @property
    def overlaps_held(self) -> bool:
        """Whether no claim can get the device because held devices are parts of it, or it is a part of them."""
        return not self.holders and self.obstacle is DeviceObstacle.COUNTERS_USED


def devices(cluster: ClusterState) -> Iterator[DeviceUsage]:
    """Yield all devices: those of slices first, then allocated devices that are in no slice."""
    holders: dict[DeviceID, list[Key]] = {}
    for claim in cluster.snapshot.claims:
        if claim.status.allocation is not None:
            for item in allocated_devices(claim.status.allocation):
                holders.setdefault(item.whole, []).append(claim.metadata.key)
    seen = set()
    for resource_slice in sorted(cluster.snapshot.slices, key=_slice_name):
        spec = resource_slice.spec
        for device in spec.devices or ():
            item = DeviceID(driver=spec.driver, pool=spec.pool.name, device=device.name)
            candidate = cluster.inventory.candidate(item)
            if item in seen or candidate is None:
                continue
            seen.add(item)
            node = spec.node_name or device.node_name or ""
            yield device_usage(cluster, item, holders.get(item, []), node=node, taints=candidate.device.taints or ())
    for item, keys in sorted(holders.items(), key=_item_text):
        if item not in seen:
            yield device_usage(cluster, item, keys, offered=False)


def device_usage(
    cluster: ClusterState,
    item: DeviceID,
    keys: Iterable[Key],
    *,
    node: str = "",
    taints: Iterable[DeviceTaint] = (),
    offered: bool = True,
) -> DeviceUsage:
    """Return the usage of one device, whose holders the caller knows."""
    holders = tuple(keys)
    views = (cluster.view(key) for key in holders)
    consumers = sum(view.consuming for view in views if view is not None)
    known = not any(gap.resource.startswith("resourceclaims.") for gap in cluster.snapshot.gaps)
    marks = tuple(taints)
    return DeviceUsage(
        item=item,
        node=node,
        holders=holders,
        taints=tuple(map(str, marks)),
        offered=offered,
        consumers=consumers,
        known=known,
        obstacle=_obstacle(cluster, item, node) if offered else _POOL_OBSTACLES[pool_state(cluster, item)],
        excluded=any(mark.effect in EXCLUDING_EFFECTS for mark in marks),
    )


def _obstacle(cluster: ClusterState, item: DeviceID, name: str) -> DeviceObstacle:
    state = _POOL_OBSTACLES[pool_state(cluster, item)]
    node = cluster.nodes.get(name)
    if state:
        return state
    if node is not None and not node.ready:
        return DeviceObstacle.NODE_NOT_READY
    if node is not None and node.spec.unschedulable:
        return DeviceObstacle.NODE_CORDONED
    pool, candidate = cluster.inventory.pool((item.driver, item.pool)), cluster.inventory.candidate(item)
    if pool is None or candidate is None or not blocking_devices(pool, cluster.claim_cache.ledger, candidate):
        return DeviceObstacle.NONE
    return DeviceObstacle.COUNTERS_USED


_POOL_OBSTACLES: Final = {
    PoolState.COMPLETE: DeviceObstacle.NONE,
    PoolState.INCOMPLETE: DeviceObstacle.POOL_INCOMPLETE,
    PoolState.INVALID: DeviceObstacle.POOL_INVALID,
}


def _slice_name(resource_slice: ResourceSlice) -> str:
    return resource_slice.metadata.name


def _item_text(pair: tuple[DeviceID, list[Key]]) -> str:
    return str(pair[0])


def device_groups(cluster: ClusterState, *, now: datetime) -> Mapping[UsageGroup, DeviceNumbers]:
    """Return the numbers of devices of a snapshot by group; NodeMetrics that it lacks tell of no idle GPU."""
    activity, moment = GpuActivity(), Moment(instant=0.0, wall=now.timestamp())
    for resource_slice in cluster.snapshot.slices:
        activity.observe_slice(slice_taints(resource_slice))
    for metric in (cluster.node_metrics or {}).values():
        activity.observe_metric(metric, now=moment.instant)
    return count_groups(cluster.claim_cache.records(), activity.at(moment))
