"""The difference between published and desired ResourceSlices: plans the writes.

Consumers look only at the slices of a pool's highest generation, and ignore the pool unless all of these are published.
So a change of a single slice may keep the generation: a consumer sees the pool before or after the change. Any other
change gets the next generation, and the pool is incomplete until its last slice is written; for that short time none of
its devices can be allocated, but no consumer sees a mixture of old and new devices.

Obsolete slices are deleted first, then published slices are updated, then new slices are created: the number of slices
never exceeds the necessary one. A published slice keeps the devices that it mostly has, so that few slices are
rewritten when a device is added or removed.

An API server returns two fields in another form, which count as equal: quantities (``1024Mi`` is ``1Gi``), and taints,
which get the time of their addition. That time is carried over into the next write of the slice. An API server with
disabled feature gates silently drops fields; see `dropped_fields`. The result of such a write is then accepted
(`AcceptedDevices`).
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any, Final, TypeAlias

import msgspec

from dra.model import quantities
from dra.model.meta import OwnerReference, Struct
from dra.model.slices import Device, ResourceSlice
from dra.model.taints import DeviceTaint
from kubeletplugin.slices.desired_slices import (
    MANAGED_BY,
    DesiredSlice,
    DriverOnNode,
    device_to_json,
    generate_name,
    slice_spec,
)

FEATURE_GATES: Final = {
    "taints": "DRADeviceTaints",
    "consumesCounters": "DRAPartitionableDevices",
    "allowMultipleAllocations": "DRAConsumableCapacity",
    "requestPolicy": "DRAConsumableCapacity",
    "bindingConditions": "DRADeviceBindingConditions",
    "bindingFailureConditions": "DRADeviceBindingConditions",
    "bools": "DRAListTypeAttributes",
    "ints": "DRAListTypeAttributes",
    "strings": "DRAListTypeAttributes",
    "versions": "DRAListTypeAttributes",
}
"""Feature gates of the API server, by the field that it drops while the gate is disabled."""


class CreateSlice(Struct, frozen=True):
    """The creation of a slice that is not published."""

    piece: DesiredSlice
    generation: int

    def body(self, place: DriverOnNode, owner: OwnerReference) -> dict[str, Any]:
        """Return the ResourceSlice to create, as JSON."""
        metadata = {
            "generateName": generate_name(place, self.piece.index),
            "labels": dict(MANAGED_BY),
            "ownerReferences": [msgspec.to_builtins(owner)],
        }
        return {"metadata": metadata, "spec": slice_spec(self.piece, place, generation=self.generation)}


class UpdateSlice(Struct, frozen=True):
    """The update of a published slice that differs from the desired one."""

    found: ResourceSlice
    piece: DesiredSlice
    generation: int

    def body(self, place: DriverOnNode, owner: OwnerReference) -> dict[str, Any]:
        """Return the merge patch for the published slice; lists in the patch replace the published lists."""
        spec = slice_spec(_carry_taint_times(self.piece, self.found), place, generation=self.generation)
        labels = {**(self.found.metadata.labels or {}), **MANAGED_BY}
        return {"metadata": {"labels": labels, "ownerReferences": [msgspec.to_builtins(owner)]}, "spec": spec}


class DeleteSlice(Struct, frozen=True):
    """The deletion of a published slice without a desired one."""

    found: ResourceSlice


SliceWrite: TypeAlias = DeleteSlice | UpdateSlice | CreateSlice


class AcceptedDevices(Struct, frozen=True):
    """The devices that an API server kept of a write when it dropped fields; a repeated write would change nothing."""

    sent: tuple[Device, ...]
    kept: tuple[Device, ...]


def plan_slice_writes(
    existing: Iterable[ResourceSlice],
    wanted: Iterable[DesiredSlice],
    *,
    owner: OwnerReference,
    accepted: Mapping[str, AcceptedDevices],
) -> tuple[SliceWrite, ...]:
    """Return the writes, in order; `existing` are all published slices of the driver on the node."""
    pools: dict[str, tuple[list[ResourceSlice], list[DesiredSlice]]] = {}
    for resource_slice in sorted(existing, key=lambda s: s.metadata.name):
        pools.setdefault(resource_slice.spec.pool.name, ([], []))[0].append(resource_slice)
    for piece in wanted:
        pools.setdefault(piece.pool, ([], []))[1].append(piece)
    planned = [
        write for there, pieces in pools.values() for write in _plan_pool(there, pieces, owner=owner, accepted=accepted)
    ]
    return tuple(sorted(planned, key=_write_order))


def _write_order(write: SliceWrite) -> int:
    return (DeleteSlice, UpdateSlice, CreateSlice).index(type(write))


def _plan_pool(
    there: list[ResourceSlice],
    pieces: list[DesiredSlice],
    *,
    owner: OwnerReference,
    accepted: Mapping[str, AcceptedDevices],
) -> Iterator[SliceWrite]:
    generation = max((resource_slice.spec.pool.generation for resource_slice in there), default=0)
    current = [resource_slice for resource_slice in there if resource_slice.spec.pool.generation == generation]
    pairs, surplus = _match_slices(current, pieces)
    changed = [
        (resource_slice, piece)
        for resource_slice, piece in pairs
        if resource_slice is None or not _is_up_to_date(resource_slice, piece, owner=owner, accepted=accepted)
    ]
    # Two writes of one generation would show a mixture of old and new devices to whoever reads in between.
    whole = bool(surplus) or len(changed) > 1 or any(resource_slice is None for resource_slice, _ in changed)
    kept = {resource_slice.metadata.name for resource_slice, _ in pairs if resource_slice is not None}
    yield from (
        DeleteSlice(found=resource_slice) for resource_slice in there if resource_slice.metadata.name not in kept
    )
    if not whole:
        for resource_slice, piece in changed:
            assert resource_slice is not None  # noqa: S101 - a new one makes a new generation
            yield UpdateSlice(found=resource_slice, piece=piece, generation=generation)
        return
    for resource_slice, piece in pairs:
        if resource_slice is None:
            yield CreateSlice(piece=piece, generation=generation + 1)
        else:
            yield UpdateSlice(found=resource_slice, piece=piece, generation=generation + 1)


def _match_slices(
    there: list[ResourceSlice], pieces: list[DesiredSlice]
) -> tuple[list[tuple[ResourceSlice | None, DesiredSlice]], list[ResourceSlice]]:
    """Match each desired slice with the published slice that has most of its devices.

    Desired slices without a match get one of the remaining published slices, if any. Returns the pairs and the surplus
    published slices.
    """
    left = list(there)
    chosen: dict[int, ResourceSlice] = {}
    for piece in pieces:
        names = {device.name for device in piece.devices}
        alike = [
            (len(names.intersection(_device_names(resource_slice))), -at) for at, resource_slice in enumerate(left)
        ]
        common, at = max(alike, default=(0, 0))
        if common:
            chosen[piece.index] = left.pop(-at)
    without = [piece for piece in pieces if piece.index not in chosen]
    for piece, resource_slice in zip_longest(without, left[: len(without)]):
        if resource_slice is not None:
            chosen[piece.index] = resource_slice
            left.remove(resource_slice)
    return [(chosen.get(piece.index), piece) for piece in pieces], left


def _device_names(resource_slice: ResourceSlice) -> list[str]:
    return [device.name for device in resource_slice.spec.devices or ()]


def _is_up_to_date(
    resource_slice: ResourceSlice,
    piece: DesiredSlice,
    *,
    owner: OwnerReference,
    accepted: Mapping[str, AcceptedDevices],
) -> bool:
    references, labels = resource_slice.metadata.owner_references or [], resource_slice.metadata.labels or {}
    if not any(
        (reference.kind, reference.uid, reference.controller) == (owner.kind, owner.uid, True)
        for reference in references
    ):
        return False
    if not MANAGED_BY.items() <= labels.items() or resource_slice.spec.pool.resource_slice_count != piece.count:
        return False
    kept = tuple(resource_slice.spec.devices or ())
    return devices_equal(piece.devices, kept) or accepted.get(resource_slice.metadata.name) == AcceptedDevices(
        sent=piece.devices, kept=kept
    )


def devices_equal(ours: Iterable[Device], theirs: Iterable[Device]) -> bool:
    """Report whether `theirs` is the form in which an API server returns `ours`."""
    one, other = ([_canonical(device_to_json(device)) for device in devices] for devices in (ours, theirs))
    return len(one) == len(other) and all(map(_device_equals, one, other))


def _device_equals(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    if {**ours, "taints": None} != {**theirs, "taints": None}:
        return False
    one, other = ours.get("taints", []), theirs.get("taints", [])
    return len(one) == len(other) and all(_taint_equals(*pair) for pair in zip(one, other, strict=True))


def _taint_equals(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Report whether two taints are equal; if `ours` has no `timeAdded`, that of the API server is ignored."""
    return ours == {key: value for key, value in theirs.items() if key in ours or key != "timeAdded"}


def _canonical(device: dict[str, Any]) -> dict[str, Any]:
    """Return the device with quantities as numbers and without empty fields."""
    amounts = {key: _parse_quantities(device[key]) for key in ("capacity", "consumesCounters") if device.get(key)}
    return {key: value for key, value in device.items() if value not in ({}, [])} | amounts


def _parse_quantities(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return {key: _parse_quantities(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_parse_quantities(item) for item in value]
    try:
        return quantities.parse(value) if isinstance(value, str | int) and not isinstance(value, bool) else value
    except quantities.MalformedQuantityError:
        return value


def _carry_taint_times(piece: DesiredSlice, resource_slice: ResourceSlice) -> DesiredSlice:
    """Return the desired slice with the `timeAdded` of already published taints, which must not start again."""
    known = {
        (device.name, taint.key, taint.value, taint.effect): taint.time_added
        for device in resource_slice.spec.devices or ()
        for taint in device.taints or ()
    }

    def timed(device: Device, taint: DeviceTaint) -> DeviceTaint:
        at = taint.time_added or known.get((device.name, taint.key, taint.value, taint.effect))
        return msgspec.structs.replace(taint, time_added=at)

    def with_times(device: Device) -> Device:
        taints = device.taints and [timed(device, taint) for taint in device.taints]
        return msgspec.structs.replace(device, taints=taints)

    return msgspec.structs.replace(piece, devices=tuple(map(with_times, piece.devices)))


def dropped_fields(sent: Iterable[Device], kept: Iterable[Device]) -> dict[str, str]:
    """Return the fields of devices that an API server has dropped: the field → the first device without it.

    Fields have no list indices or keys: one disabled feature gate drops the same field in many places.
    """
    there = {device.name: device_to_json(device) for device in kept}
    missing: dict[str, str] = {}
    for device in sent:
        for field in _missing_fields(device_to_json(device), there.get(device.name, {})):
            missing.setdefault(field, device.name)
    return missing


def _missing_fields(sent: Any, kept: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    if isinstance(sent, dict):
        for key, value in sent.items():
            if not isinstance(kept, dict) or key not in kept:
                if value not in ({}, [], None):
                    yield key
            else:
                yield from _missing_fields(value, kept[key])
    elif isinstance(sent, list):
        for one, other in zip_longest(sent, kept if isinstance(kept, list) else []):
            if one is not None:
                yield from _missing_fields(one, other)
