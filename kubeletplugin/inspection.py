"""Inspection: shows the devices that drivers would publish, as a table or manifests, without kubelet or API server."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dra.kube.resources import SLICES
from dra.model.meta import Uid
from dra.model.slices import Device
from kubeletplugin.contract import Degradable, Driver
from kubeletplugin.slices.desired_slices import DesiredSlice, DriverOnNode, node_owner_reference, slices_for_pools
from kubeletplugin.slices.slice_diff import CreateSlice

_COLUMNS = ("DRIVER", "POOL", "DEVICE", "HEALTH", "CAPACITY", "TAINTS", "ATTRIBUTES")


def slice_manifests(drivers: Iterable[Driver], *, node: str) -> list[dict[str, Any]]:
    """Return the ResourceSlices of the drivers; raises `kubeletplugin.slices.validation.MalformedPoolError`."""
    return [
        _manifest(piece, DriverOnNode(driver=driver.name, node=node))
        for driver in drivers
        for piece in _desired_slices(driver)
    ]


def device_table(drivers: Sequence[Driver]) -> str:
    """Return a table with a line for each device, and the reasons of degraded drivers; raises MalformedPoolError."""
    rows = [_COLUMNS, *(row for driver in drivers for row in _rows(driver))]
    problems = [
        f"Driver {driver.name}: {driver.degraded_reason}."
        for driver in drivers
        if isinstance(driver, Degradable) and driver.degraded_reason
    ]
    if len(rows) == 1:
        return "\n".join(["No devices.", *problems])
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join([*(line.rstrip() for line in lines), *problems])


def _desired_slices(driver: Driver) -> tuple[DesiredSlice, ...]:
    return slices_for_pools(driver.pools(), driver=driver.name)


def _manifest(piece: DesiredSlice, place: DriverOnNode) -> dict[str, Any]:
    body = CreateSlice(piece=piece, generation=1).body(place, node_owner_reference(place.node, Uid("")))
    return {"apiVersion": SLICES.api_version, "kind": SLICES.kind, **body}


def _rows(driver: Driver) -> Iterator[tuple[str, ...]]:
    health = {(state.pool, state.device): state for state in driver.health()}
    for piece in _desired_slices(driver):
        for device in piece.devices:
            known = health.get((piece.pool, device.name))
            word = {True: "healthy", False: "unhealthy", None: "unknown"}[known.healthy if known else None]
            reason = f" ({known.message})" if known and known.message else ""
            yield (driver.name, piece.pool, device.name, word + reason, *_facts(device))


def _facts(device: Device) -> tuple[str, str, str]:
    capacity = {name: entry.get("value", "") for name, entry in (device.capacity or {}).items()}
    attributes = {name: _attribute_value(value) for name, value in (device.attributes or {}).items()}
    return _join_values(capacity), ",".join(map(str, device.taints or ())), _join_values(attributes)


def _join_values(facts: Mapping[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(facts.items()))


def _attribute_value(attribute: Mapping[str, Any]) -> str:
    """Return the single value of an attribute as text."""
    value = next(iter(attribute.values()), "")
    if isinstance(value, bool):
        return str(value).lower()
    return ";".join(map(str, value)) if isinstance(value, list) else str(value)
