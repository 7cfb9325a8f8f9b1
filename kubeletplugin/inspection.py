"""What drivers would publish, for people and for programs: no kubelet and no API server needed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dra.kube.resources import SLICES
from dra.model.meta import Uid
from dra.model.slices import Device
from kubeletplugin.contract import Ailing, Driver
from kubeletplugin.slices.desired import Piece, Place, owner, pieces_of
from kubeletplugin.slices.diff import Create

_HEAD = ("DRIVER", "POOL", "DEVICE", "HEALTH", "CAPACITY", "TAINTS", "ATTRIBUTES")


def manifests(drivers: Iterable[Driver], *, node: str) -> list[dict[str, Any]]:
    """Return the ResourceSlices; raises `kubeletplugin.slices.limits.MalformedPoolError`."""
    return [_manifest(piece, Place(driver=driver.name, node=node)) for driver in drivers for piece in _pieces(driver)]


def table(drivers: Sequence[Driver]) -> str:
    """Return a line for each device, and why a driver offers none; raises MalformedPoolError."""
    rows = [_HEAD, *(row for driver in drivers for row in _rows(driver))]
    troubles = [f"Driver {each.name}: {each.trouble}." for each in drivers if isinstance(each, Ailing) and each.trouble]
    if len(rows) == 1:
        return "\n".join(["No devices.", *troubles])
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join([*(line.rstrip() for line in lines), *troubles])


def _pieces(driver: Driver) -> tuple[Piece, ...]:
    return pieces_of(driver.pools(), driver=driver.name)


def _manifest(piece: Piece, place: Place) -> dict[str, Any]:
    body = Create(piece=piece, generation=1).body(place, owner(place.node, Uid("")))
    return {"apiVersion": SLICES.api_version, "kind": SLICES.kind, **body}


def _rows(driver: Driver) -> Iterator[tuple[str, ...]]:
    health = {(each.pool, each.device): each for each in driver.health()}
    for piece in _pieces(driver):
        for device in piece.devices:
            known = health.get((piece.pool, device.name))
            word = {True: "healthy", False: "unhealthy", None: "unknown"}[known.healthy if known else None]
            reason = f" ({known.message})" if known and known.message else ""
            yield (driver.name, piece.pool, device.name, word + reason, *_facts(device))


def _facts(device: Device) -> tuple[str, str, str]:
    capacity = {name: each.get("value", "") for name, each in (device.capacity or {}).items()}
    attributes = {name: _plain(each) for name, each in (device.attributes or {}).items()}
    return _listed(capacity), ",".join(map(str, device.taints or ())), _listed(attributes)


def _listed(facts: Mapping[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(facts.items()))


def _plain(attribute: Mapping[str, Any]) -> str:
    """Return the one value of an attribute."""
    value = next(iter(attribute.values()), "")
    if isinstance(value, bool):
        return str(value).lower()
    return ";".join(map(str, value)) if isinstance(value, list) else str(value)
