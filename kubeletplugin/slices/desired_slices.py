"""Which ResourceSlices a driver wants on its node: its pools, cut into pieces that an API server takes.

A pool is cut evenly along the order of its devices, which is the order in which a scheduler tries them; so is the
order of the slices' names (``generateName`` begins with the piece's number). Where one device has what makes devices
big in etcd, 64 fit into a slice instead of 128, and then the whole pool is cut so: a taint that comes and goes must not
push devices from slice to slice.

Generations are `diff`'s business: they depend on what is there.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from dra.model.meta import OwnerReference, Struct, Uid
from dra.model.slices import Device
from kubeletplugin.contract import Pool
from kubeletplugin.slices import validation

MAX_DEVICES: Final = 128
MAX_DEVICES_WITH_ADVANCED_FEATURES: Final = 64
"""Per slice, if any device of it has taints, consumes counters or has a list among its attributes."""

MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "dra-reserve"}
NAME_PREFIX_LENGTH: Final = 220
"""Of ``generateName``; a driver's and a node's name together can be longer than a name may be."""


class DriverOnNode(Struct, frozen=True):
    """Whose slices these are: a driver on a node."""

    driver: str
    node: str

    def __str__(self) -> str:
        return f"driver {self.driver} on node {self.node}"


class DesiredSlice(Struct, frozen=True):
    """A slice of a pool, but for what is known only when it is written."""

    pool: str
    index: int
    count: int
    """How many the pool has."""

    devices: tuple[Device, ...]


def slices_for_pools(pools: Iterable[Pool], *, driver: str) -> tuple[DesiredSlice, ...]:
    """Cut the pools; raises `limits.MalformedPoolError`. A pool without devices has no slice."""
    listed = tuple(pools)
    names = [pool.name for pool in listed]
    if len(set(names)) < len(names):
        raise validation.MalformedPoolError(f"driver {driver}: two pools of one name among {', '.join(names)}")
    for pool in listed:
        validation.validate_pool(pool, driver=driver)
    return tuple(piece for pool in listed for piece in _split_pool(pool))


def _split_pool(pool: Pool) -> Iterator[DesiredSlice]:
    size = MAX_DEVICES_WITH_ADVANCED_FEATURES if any(map(uses_advanced_features, pool.devices)) else MAX_DEVICES
    starts = range(0, len(pool.devices), size)
    for index, start in enumerate(starts):
        yield DesiredSlice(pool=pool.name, index=index, count=len(starts), devices=pool.devices[start : start + size])


def uses_advanced_features(device: Device) -> bool:
    """Whether the device halves what fits into its slice."""
    lists = any(name in value for value in (device.attributes or {}).values() for name in validation.LIST_TYPES)
    return bool(device.taints or device.consumes_counters or lists)


def generate_name(place: DriverOnNode, index: int) -> str:
    """Return ``generateName``; it sorts as the pieces do, up to 4096 of them."""
    return f"{index:03x}-{place.driver}-{place.node}"[:NAME_PREFIX_LENGTH].rstrip(".-") + "-"


def node_owner_reference(node: str, uid: Uid) -> OwnerReference:
    """Return the reference by which slices go with their node."""
    return OwnerReference(api_version="v1", kind="Node", name=node, uid=uid, controller=True)


def slice_spec(piece: DesiredSlice, place: DriverOnNode, *, generation: int) -> dict[str, Any]:
    """Return the spec as it is written."""
    return {
        "driver": place.driver,
        "nodeName": place.node,
        "pool": {"name": piece.pool, "generation": generation, "resourceSliceCount": piece.count},
        "devices": [device_to_json(device) for device in piece.devices],
    }


def device_to_json(device: Device) -> dict[str, Any]:
    """Return the device as JSON has it."""
    found: dict[str, Any] = msgspec.to_builtins(device)
    return found
