"""Describes nodes and devices in words."""

from collections.abc import Iterator
from typing import Any

import click
import msgspec

from dra.api.reservations.well_known import ANNOTATION_NODE_RESERVATION
from dra.cli.kubectl.diagnosis import describer
from dra.cli.kubectl.options import PrintOptions
from dra.cli.kubectl.printers import OutputFormat, wrap_lines
from dra.engine.diagnosis import claims
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.devices import DeviceUsage, devices
from dra.engine.diagnosis.node_groups import format_amount


def print_devices(scene: ClusterState, kind: str, name: str, style: PrintOptions) -> bool:
    """Print the holders of a device, or all devices of a node; return whether the device or node exists."""
    found = [each for each in devices(scene) if _is_selected(each, kind, name)]
    if not found and (kind == "device" or name not in scene.nodes):
        return False
    if style.output is not OutputFormat.TABLE:
        style.write(_devices_data(scene, kind, name, found))
        return True
    lines = [_headline(scene, kind, name, found), *(_node_reservation_lines(scene, name) if kind == "node" else ())]
    for each in found:
        lines += [f"  device    {each.item}: {_device_usage_text(each)}"]
    for key in dict.fromkeys(key for each in found for key in each.holders):
        facts = claims.explain(scene, key)
        if facts is not None:
            until = f"; released when {describer.release_condition(facts)}" if facts.holds else ""
            lines.append(f"  claim     {'/'.join(key)}: {describer.claim_state_text(facts)}{until}")
            lines += describer.problem_lines(facts.problems, within="")
    lines += describer.unknown_lines(scene.snapshot)
    click.echo("\n".join(wrap_lines(lines)))
    return True


def _is_selected(found: DeviceUsage, kind: str, name: str) -> bool:
    """Report whether a device is on the node, or is named as DEVICE, POOL/DEVICE or DRIVER/POOL/DEVICE."""
    item = found.item
    if kind == "node":
        return found.node == name
    return name in {item.device, f"{item.pool}/{item.device}", str(item.whole)}


def _headline(scene: ClusterState, kind: str, name: str, found: list[DeviceUsage]) -> str:
    if kind == "device":
        return f"device {name}: {len(found)} of that name" if len(found) > 1 else f"device {found[0].item}"
    node = scene.nodes.get(name)
    if node is None:
        return f"node {name}: is not there, but devices of it are offered"
    ready = "Ready" if node.ready else "does not report in"
    cordoned = ", cordoned" if node.spec.unschedulable else ""
    held = sum(1 for each in found if each.holders)
    return f"node {name}: {ready}{cordoned}; {len(found)} devices of its own, {held} held"


def _node_reservation_lines(scene: ClusterState, name: str) -> Iterator[str]:
    """Yield the resources that the node keeps from pods, and faults of its annotation."""
    room = scene.rooms.get(name)
    if room is None:
        return
    if room.kept:
        amounts = ", ".join(
            f"{resource} {format_amount(resource, amount)}" for resource, amount in sorted(room.kept.items())
        )
        yield f"  keeps     {amounts} from pods (annotation {ANNOTATION_NODE_RESERVATION})"
    if room.fault:
        yield f"  problem   {room.fault}; correct it: kubectl edit node {name}"


def _device_usage_text(found: DeviceUsage) -> str:
    where = f" on node {found.node}" if found.node else ""
    taints = f", tainted {', '.join(found.taints)}" if found.taints else ""
    gone = "" if found.offered else ", offered by no driver any more"
    if not found.holders:
        held = "free" if found.known else "held by no claim that can be read from here"
        return f"{held}{where}{taints}{gone}"
    names = ", ".join("/".join(key) for key in found.holders)
    return f"held by claim {names}{where}, used by {found.consumers} pods{taints}{gone}"


def _node_reservation_data(scene: ClusterState, kind: str, name: str) -> dict[str, Any]:
    room = scene.rooms.get(name) if kind == "node" else None
    if room is None:
        return {}
    return {"kept": {r: format_amount(r, amount) for r, amount in sorted(room.kept.items())}, "problem": room.fault}


def _devices_data(scene: ClusterState, kind: str, name: str, found: list[DeviceUsage]) -> dict[str, Any]:
    keys = dict.fromkeys(key for each in found for key in each.holders)
    facts = (claims.explain(scene, key) for key in keys)
    return {
        "kind": kind,
        "name": name,
        **_node_reservation_data(scene, kind, name),
        "devices": [{**msgspec.to_builtins(each), "name": str(each.item)} for each in found],
        "claims": [describer.diagnosis_data(each, scene.snapshot) for each in facts if each is not None],
    }
