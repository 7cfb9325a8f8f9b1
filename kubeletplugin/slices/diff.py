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
from kubeletplugin.slices.desired import MANAGED_BY, Piece, Place, name_prefix, plain, spec_of

FEATURES: Final = {
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


class Create(Struct, frozen=True):
    """A slice that is not there."""

    piece: Piece
    generation: int

    def body(self, place: Place, owner: OwnerReference) -> dict[str, Any]:
        """Return the object to create."""
        metadata = {
            "generateName": name_prefix(place, self.piece.index),
            "labels": dict(MANAGED_BY),
            "ownerReferences": [msgspec.to_builtins(owner)],
        }
        return {"metadata": metadata, "spec": spec_of(self.piece, place, generation=self.generation)}


class Update(Struct, frozen=True):
    """A slice that is other than wanted."""

    found: ResourceSlice
    piece: Piece
    generation: int

    def body(self, place: Place, owner: OwnerReference) -> dict[str, Any]:
        """Return the merge patch; what it says of lists replaces them."""
        spec = spec_of(_with_times(self.piece, self.found), place, generation=self.generation)
        labels = {**(self.found.metadata.labels or {}), **MANAGED_BY}
        return {"metadata": {"labels": labels, "ownerReferences": [msgspec.to_builtins(owner)]}, "spec": spec}


class Delete(Struct, frozen=True):
    """A slice that nothing stands for any more."""

    found: ResourceSlice


Write: TypeAlias = Delete | Update | Create


class Accepted(Struct, frozen=True):
    """What a server made of a slice when it dropped fields of it: the same again would come to the same."""

    sent: tuple[Device, ...]
    kept: tuple[Device, ...]


def writes(
    found: Iterable[ResourceSlice],
    wanted: Iterable[Piece],
    *,
    owner: OwnerReference,
    accepted: Mapping[str, Accepted],
) -> tuple[Write, ...]:
    """Return what to write, in order. `found`: all slices of the driver on the node."""
    pools: dict[str, tuple[list[ResourceSlice], list[Piece]]] = {}
    for each in sorted(found, key=lambda s: s.metadata.name):
        pools.setdefault(each.spec.pool.name, ([], []))[0].append(each)
    for piece in wanted:
        pools.setdefault(piece.pool, ([], []))[1].append(piece)
    planned = [
        write for there, pieces in pools.values() for write in _of_pool(there, pieces, owner=owner, accepted=accepted)
    ]
    return tuple(sorted(planned, key=_turn))


def _turn(write: Write) -> int:
    return (Delete, Update, Create).index(type(write))


def _of_pool(
    there: list[ResourceSlice], pieces: list[Piece], *, owner: OwnerReference, accepted: Mapping[str, Accepted]
) -> Iterator[Write]:
    generation = max((each.spec.pool.generation for each in there), default=0)
    current = [each for each in there if each.spec.pool.generation == generation]
    pairs, surplus = _paired(current, pieces)
    changed = [
        (each, piece)
        for each, piece in pairs
        if each is None or not _as_wanted(each, piece, owner=owner, accepted=accepted)
    ]
    whole = bool(surplus) or len(changed) > 1 or any(each is None for each, _ in changed)
    kept = {each.metadata.name for each, _ in pairs if each is not None}
    yield from (Delete(found=each) for each in there if each.metadata.name not in kept)
    if not whole:
        for each, piece in changed:
            assert each is not None  # noqa: S101 - a new one makes a new generation
            yield Update(found=each, piece=piece, generation=generation)
        return
    for each, piece in pairs:
        if each is None:
            yield Create(piece=piece, generation=generation + 1)
        else:
            yield Update(found=each, piece=piece, generation=generation + 1)


def _paired(
    there: list[ResourceSlice], pieces: list[Piece]
) -> tuple[list[tuple[ResourceSlice | None, Piece]], list[ResourceSlice]]:
    """Give each piece a slice, the one with most of its devices first; return the pairs and the slices left over."""
    left = list(there)
    chosen: dict[int, ResourceSlice] = {}
    for piece in pieces:
        names = {device.name for device in piece.devices}
        alike = [(len(names.intersection(_names(each))), -at) for at, each in enumerate(left)]
        common, at = max(alike, default=(0, 0))
        if common:
            chosen[piece.index] = left.pop(-at)
    without = [piece for piece in pieces if piece.index not in chosen]
    for piece, each in zip_longest(without, left[: len(without)]):
        if each is not None:
            chosen[piece.index] = each
            left.remove(each)
    return [(chosen.get(piece.index), piece) for piece in pieces], left


def _names(found: ResourceSlice) -> list[str]:
    return [device.name for device in found.spec.devices or ()]


def _as_wanted(found: ResourceSlice, piece: Piece, *, owner: OwnerReference, accepted: Mapping[str, Accepted]) -> bool:
    references, labels = found.metadata.owner_references or [], found.metadata.labels or {}
    if not any((each.kind, each.uid, each.controller) == (owner.kind, owner.uid, True) for each in references):
        return False
    if not MANAGED_BY.items() <= labels.items() or found.spec.pool.resource_slice_count != piece.count:
        return False
    kept = tuple(found.spec.devices or ())
    return alike(piece.devices, kept) or accepted.get(found.metadata.name) == Accepted(sent=piece.devices, kept=kept)


def alike(ours: Iterable[Device], theirs: Iterable[Device]) -> bool:
    """Whether a server that was sent `ours` may show `theirs`."""
    one, other = ([_canonical(plain(device)) for device in devices] for devices in (ours, theirs))
    return len(one) == len(other) and all(map(_same_device, one, other))


def _same_device(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    if {**ours, "taints": None} != {**theirs, "taints": None}:
        return False
    one, other = ours.get("taints", []), theirs.get("taints", [])
    return len(one) == len(other) and all(_same_taint(*pair) for pair in zip(one, other, strict=True))


def _same_taint(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Compare; a time that we do not give is the server's to give."""
    return ours == {key: value for key, value in theirs.items() if key in ours or key != "timeAdded"}


def _canonical(device: dict[str, Any]) -> dict[str, Any]:
    """Return the device with its amounts as numbers."""
    amounts = {key: _exact(device[key]) for key in ("capacity", "consumesCounters") if device.get(key)}
    return {key: value for key, value in device.items() if value not in ({}, [])} | amounts


def _exact(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return {key: _exact(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_exact(each) for each in value]
    try:
        return quantities.parse(value) if isinstance(value, str | int) and not isinstance(value, bool) else value
    except quantities.MalformedQuantityError:
        return value


def _with_times(piece: Piece, found: ResourceSlice) -> Piece:
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


def dropped(sent: Iterable[Device], kept: Iterable[Device]) -> dict[str, str]:
    """Return which fields of devices a server has let fall: the field, and the first device that misses it.

    Fields are named without list indices and keys: one feature that is off lets the same field fall in many places.
    """
    there = {device.name: plain(device) for device in kept}
    missing: dict[str, str] = {}
    for device in sent:
        for field in _missing(plain(device), there.get(device.name, {})):
            missing.setdefault(field, device.name)
    return missing


def _missing(sent: Any, kept: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    if isinstance(sent, dict):
        for key, value in sent.items():
            if not isinstance(kept, dict) or key not in kept:
                if value not in ({}, [], None):
                    yield key
            else:
                yield from _missing(value, kept[key])
    elif isinstance(sent, list):
        for one, other in zip_longest(sent, kept if isinstance(kept, list) else []):
            if one is not None:
                yield from _missing(one, other)
