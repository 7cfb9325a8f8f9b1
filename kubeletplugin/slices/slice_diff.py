"""What must be written so that the slices on the server become those that are wanted.

Consumers look only at the slices of a pool's highest generation, and ignore the pool unless all of them are there. So
a change of a single slice may keep the generation: whoever looks sees the pool before or after it. Any other change
gets the next one, and the pool is invisible until its last slice is written; for that short time no device of it can be
allocated, but none is taken for something that it is not.

Obsolete slices go first, then known ones change, then new ones come: the number of slices never exceeds what is needed.
A slice stays with the piece whose devices it mostly has, so that little is rewritten when a device comes or goes.

Two things come back from a server other than they were sent, and are the same all the same: quantities (``1024Mi`` is
``1Gi``), and taints, which get the time of their arrival. That time is carried into our next write of the slice.
A server whose features are off drops fields without a word; see `dropped`. What it made of a slice is then `accepted`.
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
"""The feature gate of the API server without which it drops a field."""


class CreateSlice(Struct, frozen=True):
    """A slice that is not there."""

    piece: DesiredSlice
    generation: int

    def body(self, place: DriverOnNode, owner: OwnerReference) -> dict[str, Any]:
        """Return the object to create."""
        metadata = {
            "generateName": generate_name(place, self.piece.index),
            "labels": dict(MANAGED_BY),
            "ownerReferences": [msgspec.to_builtins(owner)],
        }
        return {"metadata": metadata, "spec": slice_spec(self.piece, place, generation=self.generation)}


class UpdateSlice(Struct, frozen=True):
    """A slice that is other than wanted."""

    found: ResourceSlice
    piece: DesiredSlice
    generation: int

    def body(self, place: DriverOnNode, owner: OwnerReference) -> dict[str, Any]:
        """Return the merge patch; what it says of lists replaces them."""
        spec = slice_spec(_carry_taint_times(self.piece, self.found), place, generation=self.generation)
        labels = {**(self.found.metadata.labels or {}), **MANAGED_BY}
        return {"metadata": {"labels": labels, "ownerReferences": [msgspec.to_builtins(owner)]}, "spec": spec}


class DeleteSlice(Struct, frozen=True):
    """A slice that nothing stands for any more."""

    found: ResourceSlice


SliceWrite: TypeAlias = DeleteSlice | UpdateSlice | CreateSlice


class AcceptedDevices(Struct, frozen=True):
    """What a server made of a slice when it dropped fields of it: the same again would come to the same."""

    sent: tuple[Device, ...]
    kept: tuple[Device, ...]


def plan_slice_writes(
    found: Iterable[ResourceSlice],
    wanted: Iterable[DesiredSlice],
    *,
    owner: OwnerReference,
    accepted: Mapping[str, AcceptedDevices],
) -> tuple[SliceWrite, ...]:
    """Return what to write, in order. `found`: all slices of the driver on the node."""
    pools: dict[str, tuple[list[ResourceSlice], list[DesiredSlice]]] = {}
    for each in sorted(found, key=lambda s: s.metadata.name):
        pools.setdefault(each.spec.pool.name, ([], []))[0].append(each)
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
    generation = max((each.spec.pool.generation for each in there), default=0)
    current = [each for each in there if each.spec.pool.generation == generation]
    pairs, surplus = _match_slices(current, pieces)
    changed = [
        (each, piece)
        for each, piece in pairs
        if each is None or not _is_up_to_date(each, piece, owner=owner, accepted=accepted)
    ]
    whole = bool(surplus) or len(changed) > 1 or any(each is None for each, _ in changed)
    kept = {each.metadata.name for each, _ in pairs if each is not None}
    yield from (DeleteSlice(found=each) for each in there if each.metadata.name not in kept)
    if not whole:
        for each, piece in changed:
            assert each is not None  # noqa: S101 - a new one makes a new generation
            yield UpdateSlice(found=each, piece=piece, generation=generation)
        return
    for each, piece in pairs:
        if each is None:
            yield CreateSlice(piece=piece, generation=generation + 1)
        else:
            yield UpdateSlice(found=each, piece=piece, generation=generation + 1)


def _match_slices(
    there: list[ResourceSlice], pieces: list[DesiredSlice]
) -> tuple[list[tuple[ResourceSlice | None, DesiredSlice]], list[ResourceSlice]]:
    """Give each piece a slice, the one with most of its devices first; return the pairs and the slices left over."""
    left = list(there)
    chosen: dict[int, ResourceSlice] = {}
    for piece in pieces:
        names = {device.name for device in piece.devices}
        alike = [(len(names.intersection(_device_names(each))), -at) for at, each in enumerate(left)]
        common, at = max(alike, default=(0, 0))
        if common:
            chosen[piece.index] = left.pop(-at)
    without = [piece for piece in pieces if piece.index not in chosen]
    for piece, each in zip_longest(without, left[: len(without)]):
        if each is not None:
            chosen[piece.index] = each
            left.remove(each)
    return [(chosen.get(piece.index), piece) for piece in pieces], left


def _device_names(found: ResourceSlice) -> list[str]:
    return [device.name for device in found.spec.devices or ()]


def _is_up_to_date(
    found: ResourceSlice, piece: DesiredSlice, *, owner: OwnerReference, accepted: Mapping[str, AcceptedDevices]
) -> bool:
    references, labels = found.metadata.owner_references or [], found.metadata.labels or {}
    if not any((each.kind, each.uid, each.controller) == (owner.kind, owner.uid, True) for each in references):
        return False
    if not MANAGED_BY.items() <= labels.items() or found.spec.pool.resource_slice_count != piece.count:
        return False
    kept = tuple(found.spec.devices or ())
    return devices_equal(piece.devices, kept) or accepted.get(found.metadata.name) == AcceptedDevices(
        sent=piece.devices, kept=kept
    )


def devices_equal(ours: Iterable[Device], theirs: Iterable[Device]) -> bool:
    """Whether a server that was sent `ours` may show `theirs`."""
    one, other = ([_canonical(device_to_json(device)) for device in devices] for devices in (ours, theirs))
    return len(one) == len(other) and all(map(_device_equals, one, other))


def _device_equals(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    if {**ours, "taints": None} != {**theirs, "taints": None}:
        return False
    one, other = ours.get("taints", []), theirs.get("taints", [])
    return len(one) == len(other) and all(_taint_equals(*pair) for pair in zip(one, other, strict=True))


def _taint_equals(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Compare; a time that we do not give is the server's to give."""
    return ours == {key: value for key, value in theirs.items() if key in ours or key != "timeAdded"}


def _canonical(device: dict[str, Any]) -> dict[str, Any]:
    """Return the device with its amounts as numbers."""
    amounts = {key: _parse_quantities(device[key]) for key in ("capacity", "consumesCounters") if device.get(key)}
    return {key: value for key, value in device.items() if value not in ({}, [])} | amounts


def _parse_quantities(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return {key: _parse_quantities(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_parse_quantities(each) for each in value]
    try:
        return quantities.parse(value) if isinstance(value, str | int) and not isinstance(value, bool) else value
    except quantities.MalformedQuantityError:
        return value


def _carry_taint_times(piece: DesiredSlice, found: ResourceSlice) -> DesiredSlice:
    """Return the piece with the times of the taints that are there already: a taint does not begin anew."""
    known = {
        (device.name, taint.key, taint.value, taint.effect): taint.time_added
        for device in found.spec.devices or ()
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
    """Return which fields of devices a server has let fall: the field, and the first device that misses it.

    Fields are named without list indices and keys: one feature that is off lets the same field fall in many places.
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
