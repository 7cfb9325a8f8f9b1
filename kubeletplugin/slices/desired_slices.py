"""Desired ResourceSlices: splits a driver's pools into slices that an API server accepts.

A pool is split along the order of its devices, in which the scheduler tries them; the order of the slices' names is the
same (``generateName`` begins with the slice's index). If a device uses a feature that makes devices big in etcd, its
slice can have 64 devices instead of 128. Then all slices of the pool have 64, and those of a pool whose devices may
get a taint later have 64 from the start. Otherwise the first taint would shift devices from slice to slice, and no
device of the pool could be allocated until the last slice is rewritten (`slice_diff`).

`slice_diff` chooses generations, since these depend on the published slices.
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
"""Maximum number of devices in a slice in which any device has taints, consumes counters or has a list attribute."""

MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "dra-reserve"}
NAME_PREFIX_LENGTH: Final = 220
"""Maximum length of ``generateName``: the names of driver and node together can exceed the limit of a name."""


class DriverOnNode(Struct, frozen=True):
    """A driver on a node, which owns a set of ResourceSlices."""

    driver: str
    node: str

    def __str__(self) -> str:
        return f"driver {self.driver} on node {self.node}"


class DesiredSlice(Struct, frozen=True):
    """A desired slice of a pool, without the fields that are known only at the write, such as the generation."""

    pool: str
    index: int
    count: int
    """Number of slices of the pool."""

    devices: tuple[Device, ...]


def slices_for_pools(pools: Iterable[Pool], *, driver: str) -> tuple[DesiredSlice, ...]:
    """Return the slices of all pools; raises `validation.MalformedPoolError`. A pool without devices has no slice."""
    listed = tuple(pools)
    names = [pool.name for pool in listed]
    if len(set(names)) < len(names):
        raise validation.MalformedPoolError(f"driver {driver}: pool names must be unique: {', '.join(names)}")
    for pool in listed:
        validation.validate_pool(pool, driver=driver)
    return tuple(piece for pool in listed for piece in _split_pool(pool))


def _split_pool(pool: Pool) -> Iterator[DesiredSlice]:
    advanced = pool.taintable or any(map(uses_advanced_features, pool.devices))
    size = MAX_DEVICES_WITH_ADVANCED_FEATURES if advanced else MAX_DEVICES
    starts = range(0, len(pool.devices), size)
    for index, start in enumerate(starts):
        yield DesiredSlice(pool=pool.name, index=index, count=len(starts), devices=pool.devices[start : start + size])


def uses_advanced_features(device: Device) -> bool:
    """Report whether the device limits its slice to `MAX_DEVICES_WITH_ADVANCED_FEATURES`."""
    lists = any(name in value for value in (device.attributes or {}).values() for name in validation.LIST_TYPES)
    return bool(device.taints or device.consumes_counters or lists)


def generate_name(place: DriverOnNode, index: int) -> str:
    """Return the ``generateName`` of a slice; the names of up to 4096 slices sort by index."""
    return f"{index:03x}-{place.driver}-{place.node}"[:NAME_PREFIX_LENGTH].rstrip(".-") + "-"


def node_owner_reference(node: str, uid: Uid) -> OwnerReference:
    """Return the owner reference by which slices are deleted with their Node."""
    return OwnerReference(api_version="v1", kind="Node", name=node, uid=uid, controller=True)


def slice_spec(piece: DesiredSlice, place: DriverOnNode, *, generation: int) -> dict[str, Any]:
    """Return the spec of the ResourceSlice as JSON."""
    return {
        "driver": place.driver,
        "nodeName": place.node,
        "pool": {"name": piece.pool, "generation": generation, "resourceSliceCount": piece.count},
        "devices": [device_to_json(device) for device in piece.devices],
    }


def device_to_json(device: Device) -> dict[str, Any]:
    """Return the device as JSON of the API."""
    document: dict[str, Any] = msgspec.to_builtins(device)
    return document
