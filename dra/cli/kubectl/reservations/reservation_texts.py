"""Formats reservations, amounts and owners as text."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from dra.api.reservations.model import Reservation, ReservationOwner
from dra.engine.claims.reasons import list_names
from dra.engine.diagnosis.reservations import PodReservations, ReservationNodeGroup, UnusedReservedResource
from dra.engine.instants import NEVER
from dra.engine.reservations import amounts, owner_matching, phases
from dra.engine.reservations.amounts import PODS, NanoAmounts
from dra.engine.reservations.rejections import Rejection, RejectionReason

NONE_TEXT: Final = "<none>"
_MINUTE, _HOUR, _DAY = 60, 3600, 24 * 3600


def format_resource_list(given: Mapping[str, str | int]) -> str:
    """Return a list of resources as kubectl accepts it: ``cpu=500m,memory=800Mi``."""
    return ",".join(f"{name}={text}" for name, text in given.items()) or NONE_TEXT


def format_amount(resource: str, billionths: int) -> str:
    """Return an amount as Kubernetes quantities are written."""
    binary = resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-")
    return amounts.format_quantity(max(billionths, 0), like="Ki" if binary else "")


def format_amounts(found: NanoAmounts) -> str:
    """Return amounts as ``cpu=4,memory=20Gi``."""
    return format_resource_list(
        {name: format_amount(name, each) for name, each in found.items() if name != PODS and each}
    )


def time_left(reservation: Reservation, *, now: datetime) -> str:
    """Return when a reservation expires, relative to now."""
    at = phases.expiration_time(reservation)
    if at == NEVER:
        return "never" if reservation.status.phase.value in {"Pending", "Available"} else "over"
    return f"in {human_duration(at - now.timestamp())}" if at > now.timestamp() else "now"


def human_duration(seconds: float) -> str:
    """Return a duration as kubectl prints ages."""
    whole = int(seconds)
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 2 * _HOUR:
        return f"{whole // _MINUTE}m"
    return f"{whole // _HOUR}h" if whole < 2 * _DAY else f"{whole // _DAY}d"


def format_time(seconds: float) -> str:
    """Return a time as the API formats times."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def owner_text(found: ReservationOwner) -> str:
    """Return a text for the pods that an owner matches."""
    parts = []
    if (one := found.object) is not None:
        where = f" of namespace {one.namespace}" if one.namespace else ""
        parts.append(f"pod {'/'.join(filter(None, (one.namespace, one.name)))}" if one.name else f"pods{where}")
    if (by := found.controller) is not None:
        parts.append(f"pods of {by.kind or 'controller'} {'/'.join(filter(None, (by.namespace, by.name)))}")
    if (labels := found.label_selector) is not None:
        wanted = [f"{key}={value}" for key, value in labels.match_labels.items()]
        wanted += [f"{each.key} {each.operator} {','.join(each.values)}".strip() for each in labels.match_expressions]
        parts.append(f"{'' if parts else 'pods '}with labels {','.join(wanted)}")
    whose = " ".join(parts) or "nobody"
    return f"{whose}, of any namespace" if parts and owner_matching.cross_namespace_owners([found]) else whose


def pod_reservation_lines(advice: PodReservations) -> Iterator[str]:
    """Yield what reservations mean for a pod."""
    if advice.inside:
        yield f"  inside    reservation {advice.inside}"
        return
    for each in advice.candidates:
        where = f" on node {each.node}" if each.node else ""
        why = "it may run in it, where there is room" if each.refusal is None else rejection_text(each.refusal)
        yield f"  reserved  reservation {each.name}{where}: {why}"
    if advice.others:
        yield f"  reserved  {advice.others} more for other pods"
    for group in advice.groups:
        yield f"  asked     {node_group_text(group)}"


def rejection_text(refusal: Rejection) -> str:
    """Return why a pod may not use a reservation."""
    return refusal.text.removeprefix("Reservation(s) ").removeprefix("reservation ")


def node_group_text(group: ReservationNodeGroup) -> str:
    """Return one line about a group of nodes with the same answer."""
    who = f"{group.count} nodes ({', '.join(group.nodes)}{', …' if group.count > len(group.nodes) else ''})"
    if not group.refusals:
        inside = f", in reservation {list_names(group.inside)}" if group.inside else ""
        over = f", over {group.over} running pods that are to be its owners" if group.over else ""
        return f"{who}: has room for it{inside}{over}"
    kept = {each.resource: each for each in group.kept}
    return f"{who}: {'; '.join(dict.fromkeys(_shortage_text(each, kept.get(each.subject)) for each in group.refusals))}"


def _shortage_text(refusal: Rejection, kept: UnusedReservedResource | None) -> str:
    if refusal.why not in {RejectionReason.NODE_SHORT, RejectionReason.SHORT}:
        return refusal.text
    name = refusal.subject
    asked, left, whole = (
        format_amount(name, each) for each in (refusal.requested, refusal.capacity - refusal.used, refusal.capacity)
    )
    where = "of the reservation" if refusal.why is RejectionReason.SHORT else "of the node"
    holding = (
        f", {format_amount(name, kept.amount)} held by reservation {list_names(kept.reservations)}" if kept else ""
    )
    return f"too little {name} {where}: {asked} asked for, {left} of {whole} free{holding}"


def owners_text(found: Iterable[ReservationOwner]) -> str:
    """Return a text for the pods that any of the owners matches."""
    return "; ".join(owner_text(each) for each in found)
