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
from kubeletplugin.slices import limits

PLAIN_DEVICES: Final = 128
RICH_DEVICES: Final = 64
"""Per slice, if any device of it has taints, consumes counters or has a list among its attributes."""

MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "dra-reserve"}
NAME_PREFIX_LENGTH: Final = 220
"""Of ``generateName``; a driver's and a node's name together can be longer than a name may be."""


class Place(Struct, frozen=True):
    """Whose slices these are: a driver on a node."""

    driver: str
    node: str

    def __str__(self) -> str:
        return f"driver {self.driver} on node {self.node}"


class Piece(Struct, frozen=True):
    """A slice of a pool, but for what is known only when it is written."""

    pool: str
    index: int
    count: int
    """How many the pool has."""

    devices: tuple[Device, ...]


def pieces_of(pools: Iterable[Pool], *, driver: str) -> tuple[Piece, ...]:
    """Cut the pools; raises `limits.MalformedPoolError`. A pool without devices has no slice."""
    listed = tuple(pools)
    names = [pool.name for pool in listed]
    if len(set(names)) < len(names):
        raise limits.MalformedPoolError(f"driver {driver}: two pools of one name among {', '.join(names)}")
    for pool in listed:
        limits.check(pool, driver=driver)
    return tuple(piece for pool in listed for piece in _cut(pool))


def _cut(pool: Pool) -> Iterator[Piece]:
    size = RICH_DEVICES if any(map(rich, pool.devices)) else PLAIN_DEVICES
    starts = range(0, len(pool.devices), size)
    for index, start in enumerate(starts):
        yield Piece(pool=pool.name, index=index, count=len(starts), devices=pool.devices[start : start + size])


def rich(device: Device) -> bool:
    """Whether the device halves what fits into its slice."""
    lists = any(name in value for value in (device.attributes or {}).values() for name in limits.LISTS)
    return bool(device.taints or device.consumes_counters or lists)


def name_prefix(place: Place, index: int) -> str:
    """Return ``generateName``; it sorts as the pieces do, up to 4096 of them."""
    return f"{index:03x}-{place.driver}-{place.node}"[:NAME_PREFIX_LENGTH].rstrip(".-") + "-"


def owner(node: str, uid: Uid) -> OwnerReference:
    """Return the reference by which slices go with their node."""
    return OwnerReference(api_version="v1", kind="Node", name=node, uid=uid, controller=True)


def spec_of(piece: Piece, place: Place, *, generation: int) -> dict[str, Any]:
    """Return the spec as it is written."""
    return {
        "driver": place.driver,
        "nodeName": place.node,
        "pool": {"name": piece.pool, "generation": generation, "resourceSliceCount": piece.count},
        "devices": [plain(device) for device in piece.devices],
    }


def plain(device: Device) -> dict[str, Any]:
    """Return the device as JSON has it."""
    found: dict[str, Any] = msgspec.to_builtins(device)
    return found
