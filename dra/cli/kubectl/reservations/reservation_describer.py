"""Describes a reservation for ``kubectl dra explain``, and what reservations mean for a waiting pod."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import click
import msgspec

from dra.api.migration.model import KIND as MIGRATION_KIND
from dra.api.reservations import well_known
from dra.api.reservations.model import Reservation, ReservationOwner, ReservationPhase
from dra.api.reservations.well_known import MalformedAnnotationError
from dra.cli.kubectl import printers
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import OutputFormat, wrap_lines
from dra.cli.kubectl.reservations import reservation_snapshot
from dra.cli.kubectl.reservations.reservation_snapshot import ReservationSnapshot
from dra.cli.kubectl.reservations.reserve import NOT_INSTALLED
from dra.engine.claims.reasons import list_names
from dra.engine.diagnosis import reservations as explaining
from dra.engine.diagnosis.reservations import PodReservations, ReservationNodeGroup, UnusedReservedResource
from dra.engine.diagnosis.snapshot import Snapshot
from dra.engine.instants import NEVER
from dra.engine.messages.remedies import Remedy, SafeCommand, WeighedChoice
from dra.engine.reservations import owner_matching, phases, placeholders, pod_info
from dra.engine.reservations.rejections import Rejection, RejectionReason
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.model import quantities
from dra.model.claims import ResourceClaim
from dra.model.meta import Key
from dra.model.quantities import PODS, Amounts
from dra.model.scheduling import SchedulerPod

DATA_KEY: Final = "reservations"
SHOW_EXTENDER: Final = "kubectl get pods -A -l app.kubernetes.io/component=extender"
WAITING_OWNERS_MAX: Final = 16
"""Maximum number of waiting owner pods whose claims are compared with those of a reservation."""

_POD_SCHEDULED: Final = "PodScheduled"


def print_reservation(snapshot: Snapshot, name: str, output: PrintOptions, *, now: datetime) -> None:
    """Print the description of a reservation; exit with code 1 if the reservation has a problem."""
    reservations, reservation = _find_reservation(snapshot, name)
    groups = _placement_groups(reservations, reservation)
    problem = find_problem(reservations, reservation, groups)
    if output.format is OutputFormat.TABLE:
        click.echo("\n".join(wrap_lines(describe_reservation(reservations, reservation, groups, problem, now=now))))
    else:
        problem_content = {"text": problem[0], **printers.remedy_data(problem[1])} if problem is not None else None
        claims = [*map(_claim_data, reservations.held_claims(reservation))]
        nodes = [_node_group_data(group) for group in groups]
        facts = {"nodes": nodes, "claims": claims, "problem": problem_content}
        output.print(
            reservations.objects[name].content
            | facts
            | {"openOwners": owner_matching.cross_namespace_owners(reservation.spec.owners)}
        )
    if problem:
        raise SystemExit(1)


def reservation_lines(snapshot: Snapshot, name: str, *, now: datetime) -> list[str]:
    """Return the description of a reservation as lines; empty if there is no readable one of that name."""
    reservations = reservation_snapshot.from_snapshot(snapshot)
    reservation = reservations.reservation(name)
    if reservation is None:
        return []
    groups = _placement_groups(reservations, reservation)
    problem = find_problem(reservations, reservation, groups)
    return [*describe_reservation(reservations, reservation, groups, problem, now=now)]


def named_reservation_lines(snapshot: Snapshot, name: str, *, now: datetime) -> Iterator[str]:
    """Yield the description of a reservation by name; raise FailedError if it is unknown or unreadable."""
    reservations, reservation = _find_reservation(snapshot, name)
    groups = _placement_groups(reservations, reservation)
    yield from describe_reservation(
        reservations, reservation, groups, find_problem(reservations, reservation, groups), now=now
    )


def _find_reservation(snapshot: Snapshot, name: str) -> tuple[ReservationSnapshot, Reservation]:
    reservations = reservation_snapshot.from_snapshot(snapshot)
    if not reservations.installed:
        raise FailedError(NOT_INSTALLED)
    if reservations.unread_reason:
        raise FailedError(f"reservation {name}: {reservations.unread_reason}")
    if name not in reservations.objects:
        raise FailedError(f"reservation {name}: not found. See: kubectl dra reservations")
    if (reservation := reservations.reservation(name)) is None:
        raise FailedError(
            f"{reservations.read_errors[name]}; no pod can use it. Correct it: kubectl edit reservation {name}"
        )
    return reservations, reservation


def describe_reservation(
    reservations: ReservationSnapshot,
    reservation: Reservation,
    groups: list[ReservationNodeGroup],
    problem: tuple[str, Remedy] | None,
    *,
    now: datetime,
) -> Iterator[str]:
    """Yield the description of a reservation."""
    status = reservation.status
    where = f" on node {status.node_name}" if status.node_name else ""
    yield f"reservation {reservation.metadata.name}: {status.phase.value}{where}"
    accounting = reservations.cache.accounting
    known = reservations.cache.reservation(reservations.objects[reservation.metadata.name].metadata.uid)
    if known is not None:
        yield f"  held      {format_amounts(known.info.allocatable)}" + ("" if known.info.available else " (wanted)")
        if known.info.available and (node_usage := accounting.node(status.node_name)) is not None:
            held = node_usage.reservations[known.info.uid]
            left = {name: held.remaining(name) for name in known.info.allocatable}
            consumed, remaining = (
                format_amounts(held.allocated),
                format_amounts(left),
            )
            yield f"  used      {consumed} by {held.assigned_pod_count} pods; {remaining} free"
    yield from _owner_lines(reservation)
    yield from _migration_lines(reservations, reservation)
    for claim in reservations.held_claims(reservation):
        devices = list_names(map(str, reservation_snapshot.claim_devices(claim))) or "has no devices"
        yield f"  claim     {'/'.join(claim.metadata.key)}: {devices}"
    at = phases.expiration_time(reservation)
    if at != NEVER:
        yield f"  ends      {time_left(reservation, now=now)}, at {format_time(at)}"
    if how := _placeholder_counts(reservations, reservation):
        yield f"  held by   {how}"
    for condition in status.conditions:
        yield f"  condition {condition.type}={condition.status} {condition.reason}: {condition.message}"
    for group in groups:
        yield f"  nodes     {node_group_text(group)}"
    if problem is not None:
        yield f"  warning   {problem[0]}"
        yield from printers.remedy_lines(problem[1])


def _claim_data(claim: ResourceClaim) -> dict[str, Any]:
    meta = claim.metadata
    return {
        "namespace": meta.namespace,
        "name": meta.name,
        "devices": [*map(str, reservation_snapshot.claim_devices(claim))],
    }


def _owner_lines(reservation: Reservation) -> Iterator[str]:
    spec = reservation.spec
    once = "; the first owner pod keeps it" if spec.allocate_once else "; reusable by one owner pod after another"
    yield f"  for       {owners_text(spec.owners)}{once}"
    if paths := owner_matching.cross_namespace_owners(spec.owners):
        yield (
            f"  note      {list_names(paths)}: no namespace is set; any user who can create pods in any namespace can "
            "use it"
        )
    for owner in reservation.status.current_owners:
        yield f"  owner     pod {owner.namespace}/{owner.name}"


def _migration_lines(reservations: ReservationSnapshot, reservation: Reservation) -> Iterator[str]:
    """Yield the migration that created a reservation."""
    for owner in reservations.objects[reservation.metadata.name].metadata.owner_references or ():
        if owner.kind == MIGRATION_KIND:
            yield f"  migration {owner.name}; see: kubectl dra explain migration {owner.name}"


def find_problem(
    reservations: ReservationSnapshot, reservation: Reservation, groups: Iterable[ReservationNodeGroup] = ()
) -> tuple[str, Remedy] | None:
    """Return the problem of a reservation, with its remedy; None if there is none.

    `groups` are the nodes, grouped by the answer of the extender.
    """
    name, status = reservation.metadata.name, reservation.status
    known = reservations.cache.reservation(reservations.objects[name].metadata.uid)
    if known is not None and known.info.parse_error:
        return (f"no pod can use it: {known.info.parse_error}", SafeCommand(f"kubectl edit reservation {name}"))
    if status.phase is ReservationPhase.FAILED:
        ended = WeighedChoice("delete it when its status is no longer needed; its owner pods keep running")
        return ("it has ended and holds no resources; it can be deleted", ended)
    if (kept := status.condition(phases.CONDITION_HELD)) is not None and kept.status == "False":
        return (kept.message, SafeCommand(f"kubectl get pods -A --field-selector spec.nodeName={status.node_name}"))
    if status.phase is ReservationPhase.PENDING:
        return _pending_problem(reservations, reservation, groups)
    return _divided_claims_problem(reservations, known.info) if known is not None and known.info.available else None


def _divided_claims_problem(reservations: ReservationSnapshot, info: ReservationInfo) -> tuple[str, Remedy] | None:
    """Return the problem of owner pods that wait for a part of the claims that a reservation holds as a whole."""
    waiting = [
        pod
        for pod in _waiting_owners(reservations, info)
        if explaining.asks_for_other_claims(reservations.cache.accounting, info, reservations.cache.pod_info(pod))
    ]
    if not waiting:
        return None
    names = list_names("/".join(pod.metadata.key) for pod in waiting)
    held = list_names(sorted(name for _, _, name in info.claims))
    return (
        f"pods that wait ask for other claims than {held}, which it holds as a whole: {names}",
        WeighedChoice("create a Reservation for each such pod, with a template that asks for the same as the pod"),
    )


def _waiting_owners(reservations: ReservationSnapshot, info: ReservationInfo) -> Iterator[SchedulerPod]:
    """Yield the first owner pods of a reservation that wait for a node and ask for claims."""
    number = 0
    for pod in reservations.pods.values():
        if pod.spec.node_name or not pod.spec.resource_claims or placeholders.reservation_uid_of(pod.metadata):
            continue
        with suppress(MalformedAnnotationError):
            if owner_matching.matches_any_owner(info.owners, reservations.cache.pod_info(pod)):
                yield pod
                number += 1
        if number == WAITING_OWNERS_MAX:
            return


def _placeholder_counts(reservations: ReservationSnapshot, reservation: Reservation) -> str:
    """Return how many placeholders hold the reservation's capacity; empty where the extender holds it."""
    staying = [
        placeholder
        for placeholder in reservations.placeholders_of(reservation)
        if placeholders.is_yielding_placeholder(placeholder)
    ]
    bound = sum(bool(placeholder.spec.node_name) for placeholder in staying)
    on_standby = sum(
        placeholder.metadata.annotation(well_known.ANNOTATION_STANDBY_FOR) is not None
        and not placeholder.spec.node_name
        for placeholder in staying
    )
    pending = len(staying) - bound - on_standby
    counts = f"{bound} bound, {pending} pending, {on_standby} on standby for when an owner pod ends"
    return f"preemptible placeholder pods: {counts}" if staying else ""


def _pending_problem(
    reservations: ReservationSnapshot, reservation: Reservation, groups: Iterable[ReservationNodeGroup]
) -> tuple[str, Remedy]:
    """Return the state of the placeholder of a pending reservation, with a remedy."""
    name, status = reservation.metadata.name, reservation.status
    key = placeholders.placeholder_key(reservation)
    pod = reservations.placeholder(key)
    if pod is None:
        message = next((condition.message for condition in status.conditions if condition.type == "Scheduled"), "")
        text = (
            "it has no placeholder pod: "
            f"{message or 'the controller does not run with reservations: true, or has just started'}"
        )
        return (text, SafeCommand(f"kubectl describe reservation {name}"))
    command = SafeCommand(f"kubectl describe pod {key[1]} -n {key[0]}")
    if pod.spec.node_name and not placeholders.is_yielding_placeholder(pod):
        where = f"its placeholder is bound to node {pod.spec.node_name}, but no resources of the node are held"
        return (f"{where}: kube-scheduler bound it without calling the scheduler extender", SafeCommand(SHOW_EXTENDER))
    if pod.spec.node_name:
        return (
            f"its placeholder was bound to node {pod.spec.node_name} just now",
            SafeCommand(f"kubectl get reservation {name}"),
        )
    condition = pod.condition(_POD_SCHEDULED)
    if condition is None:
        return (placeholders.untried_text(pod), command)
    return (f"{_lacking_text([*groups])}: {condition.message}", command)


def _lacking_text(groups: Sequence[ReservationNodeGroup]) -> str:
    """Return what the nodes lack for the placeholder of a reservation."""
    if groups and all(group.excluded for group in groups):
        return "no node matches the node selector or affinity of its template"
    if any(not (group.refusals or group.excluded) for group in groups):  # capacity is not what is missing
        return "kube-scheduler found no node for its placeholder"
    selected = " that its template selects" if any(group.excluded for group in groups) else ""
    return f"no node{selected} has enough free resources"


def describe_pod_reservations(snapshot: Snapshot, key: Key) -> tuple[list[str], dict[str, Any]]:
    """Return what reservations mean for a pod, as lines and as data; empty if there are none."""
    reservations = reservation_snapshot.from_snapshot(snapshot)
    if reservations.unread_reason:
        return [f"  unknown   reservations: {reservations.unread_reason}"], {}
    pod = next((candidate for candidate in reservations.pods.values() if candidate.metadata.key == key), None)
    if pod is None or not reservations.objects or placeholders.reservation_uid_of(pod.metadata) is not None:
        return [], {}
    try:
        advice = explaining.pod_reservations(reservations.cache, reservations.cache.pod_info(pod), reservations.nodes)
    except MalformedAnnotationError as error:
        return [f"  warning   no node accepts the pod: {error}"], {DATA_KEY: {"problem": str(error)}}
    if not advice.inside and (used := pod.spec.node_name and pod_info.allocated_reservation_name(pod.metadata)):
        return [f"  inside    reservation {used}, which has ended"], {DATA_KEY: {"inside": used}}
    if not _is_concerned(advice, pod):
        return [], {}
    content = msgspec.to_builtins(advice)
    content["groups"] = [_node_group_data(group) for group in advice.groups]
    return list(pod_reservation_lines(advice)), {DATA_KEY: content}


def _is_concerned(advice: PodReservations, pod: SchedulerPod) -> bool:
    """Report whether a reservation concerns a pod: as its place, as a candidate, by affinity, or in a refusal."""
    if advice.inside or (advice.candidates and not pod.spec.node_name):
        return True
    asks = pod.metadata.annotation(well_known.ANNOTATION_RESERVATION_AFFINITY) is not None
    return not pod.spec.node_name and (asks or any(group.kept for group in advice.groups))


def _placement_groups(reservations: ReservationSnapshot, reservation: Reservation) -> list[ReservationNodeGroup]:
    known = reservations.cache.reservation(reservations.objects[reservation.metadata.name].metadata.uid)
    if known is None or reservation.status.phase is not ReservationPhase.PENDING:
        return []
    placeholder = reservations.placeholder(placeholders.placeholder_key(reservation))
    return explaining.placement_groups(
        reservations.cache.accounting, known.info, reservations.nodes, placeholder=placeholder
    )


def _node_group_data(group: ReservationNodeGroup) -> dict[str, Any]:
    content: dict[str, Any] = msgspec.to_builtins(group)
    content["text"] = node_group_text(group)
    return content


NONE_TEXT: Final = "<none>"

_MINUTE, _HOUR, _DAY = 60, 3600, 24 * 3600


def format_resource_list(given: Mapping[str, str | int]) -> str:
    """Return a list of resources as kubectl accepts it: ``cpu=500m,memory=800Mi``."""
    return ",".join(f"{name}={text}" for name, text in given.items()) or NONE_TEXT


def format_amount(resource: str, billionths: int) -> str:
    """Return an amount as Kubernetes quantities are written."""
    binary = resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-")
    return quantities.format_quantity(max(billionths, 0), like="Ki" if binary else "")


def format_amounts(amounts: Amounts) -> str:
    """Return amounts as ``cpu=4,memory=20Gi``."""
    return format_resource_list(
        {name: format_amount(name, amount) for name, amount in amounts.items() if name != PODS and amount}
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


def owner_text(owner: ReservationOwner) -> str:
    """Return a text for the pods that an owner matches."""
    parts = []
    if (one := owner.object) is not None:
        where = f" in namespace {one.namespace}" if one.namespace else ""
        parts.append(f"pod {'/'.join(filter(None, (one.namespace, one.name)))}" if one.name else f"pods{where}")
    if (by := owner.controller) is not None:
        parts.append(f"pods of {by.kind or 'controller'} {'/'.join(filter(None, (by.namespace, by.name)))}")
    if (labels := owner.label_selector) is not None:
        wanted = [f"{key}={value}" for key, value in labels.match_labels.items()]
        wanted += [
            f"{requirement.key} {requirement.operator} {','.join(requirement.values)}".strip()
            for requirement in labels.match_expressions
        ]
        parts.append(f"{'' if parts else 'pods '}with labels {','.join(wanted)}")
    whose = " ".join(parts) or "nobody"
    return f"{whose}, in any namespace" if parts and owner_matching.cross_namespace_owners([owner]) else whose


def pod_reservation_lines(advice: PodReservations) -> Iterator[str]:
    """Yield what reservations mean for a pod."""
    if advice.inside:
        yield f"  inside    reservation {advice.inside}"
        return
    for candidate in advice.candidates:
        where = f" on node {candidate.node}" if candidate.node else ""
        why = "the pod may use it if enough is free" if candidate.refusal is None else rejection_text(candidate.refusal)
        if candidate.refusal is None and candidate.other_claims:
            holds = ", ".join(candidate.other_claims)
            why += f", but not its devices: it holds {holds}, and the pod asks for other claims"
        yield f"  reserved  reservation {candidate.name}{where}: {why}"
    if advice.others:
        yield f"  reserved  {advice.others} more for other pods"
    for group in advice.groups:
        yield f"  extender  {node_group_text(group)}"


def rejection_text(refusal: Rejection) -> str:
    """Return why a pod may not use a reservation."""
    return refusal.text.removeprefix("Reservation(s) ").removeprefix("reservation ")


def node_group_text(group: ReservationNodeGroup) -> str:
    """Return one line about a group of nodes with the same answer."""
    who = f"{group.count} nodes ({', '.join(group.nodes)}{', …' if group.count > len(group.nodes) else ''})"
    if group.excluded:
        return f"{who}: excluded by the node selector or affinity of its template"
    if not group.refusals:
        inside = f", in reservation {list_names(group.inside)}" if group.inside else ""
        over = f", over {group.over} running pods that become its owners" if group.over else ""
        return f"{who}: has room for it{inside}{over}"
    kept = {unused.resource: unused for unused in group.kept}
    shortages = dict.fromkeys(_shortage_text(refusal, kept.get(refusal.subject)) for refusal in group.refusals)
    return f"{who}: {'; '.join(shortages)}"


def _shortage_text(refusal: Rejection, kept: UnusedReservedResource | None) -> str:
    if refusal.reason not in {RejectionReason.NODE_INSUFFICIENT, RejectionReason.RESERVATION_INSUFFICIENT}:
        return refusal.text
    name = refusal.subject
    asked, left, whole = (
        format_amount(name, amount) for amount in (refusal.requested, refusal.capacity - refusal.used, refusal.capacity)
    )
    where = "of the reservation" if refusal.reason is RejectionReason.RESERVATION_INSUFFICIENT else "of the node"
    held_text = (
        f", {format_amount(name, kept.amount)} held by reservation {list_names(kept.reservations)}" if kept else ""
    )
    return f"insufficient {name} {where}: {asked} requested, {left} of {whole} free{held_text}"


def owners_text(owners: Iterable[ReservationOwner]) -> str:
    """Return a text for the pods that any of the owners matches."""
    return "; ".join(owner_text(owner) for owner in owners)
