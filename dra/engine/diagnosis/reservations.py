"""The diagnosis of Reservations: on which nodes a pod or another Reservation fits, with the numbers that decide.

The answers come from the accounting of the scheduler extender (`dra.engine.reservations`), so they are what the
extender would answer now. Nodes with the same answer, for the same reasons and numbers, form one group.
"""

from collections.abc import Iterable, Iterator, Sequence

from dra.api.reservations.model import MalformedReservationError, parse_reservation
from dra.engine.claims.reasons import list_names
from dra.engine.diagnosis.node_groups import NAMED_NODES_MAX
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.diagnosis.problems import Problem
from dra.engine.diagnosis.problems import reservation_problem as problem_of
from dra.engine.reservations import owner_matching
from dra.engine.reservations.accounting import ReservationAccounting
from dra.engine.reservations.filters import has_common_claim
from dra.engine.reservations.node_usage import NodeUsage
from dra.engine.reservations.phases import TERMINAL_PHASES
from dra.engine.reservations.pod_info import PodInfo
from dra.engine.reservations.rejections import Rejection, RejectionReason
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.engine.reservations.reservation_placement import ReservationPlacement, place_reservation
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.model.meta import Struct, Uid, UnstructuredObject
from dra.model.quantities import PODS
from dra.model.scheduling import SchedulerPod


class UnusedReservedResource(Struct, frozen=True):
    """The amount of a node's resource that Reservations hold and their owners do not use."""

    resource: str
    amount: int
    """Amount, in billionths of the resource's unit."""
    reservations: tuple[str, ...] = ()


class ReservationNodeGroup(Struct, frozen=True):
    """Nodes that give the same answer."""

    count: int
    nodes: tuple[str, ...]
    refusals: tuple[Rejection, ...] = ()
    """Rejections by the nodes; empty if the pod or Reservation fits."""
    kept: tuple[UnusedReservedResource, ...] = ()
    inside: tuple[str, ...] = ()
    """Names of the Reservations in which the pod would run."""
    over: int = 0
    """Number of running pods that a Reservation would be placed over."""

    excluded: bool = False
    """Whether the node selector or the affinity of the Reservation's template excludes the nodes."""


class CandidateReservation(Struct, frozen=True):
    """A Reservation, with the reason why the pod may not use it."""

    name: str
    node: str = ""
    refusal: Rejection | None = None
    """None if the pod may use the Reservation, provided that the capacity suffices."""
    other_claims: tuple[str, ...] = ()
    """Templates and claims that the Reservation holds, if it holds none for the pod's own claims."""


class PodReservations(Struct, frozen=True):
    """The Reservations that matter to a pod, and the nodes by answer."""

    groups: tuple[ReservationNodeGroup, ...] = ()
    candidates: tuple[CandidateReservation, ...] = ()
    """Reservations with an owner that matches the pod, unless the pod requires another Reservation by name."""
    others: int = 0
    """Number of Reservations for other pods."""
    inside: str = ""
    """Name of the Reservation that the pod runs in."""


def owner_problems(obj: UnstructuredObject) -> Iterator[Problem]:
    """Yield the problems that an audit reports of a Reservation; malformed ones report them in their own condition."""
    try:
        reservation = parse_reservation(obj.content)
    except MalformedReservationError:
        return
    paths = owner_matching.cross_namespace_owners(reservation.spec.owners)
    if paths and reservation.status.phase not in TERMINAL_PHASES:
        meta = obj.metadata
        yield problem_of(ProblemCode.OPEN_TO_ALL, name=meta.name, uid=meta.uid, owners=list_names(paths))


def pod_reservations(cache: SchedulerCache, pod: PodInfo, nodes: Sequence[str]) -> PodReservations:
    """Return the Reservations that matter to a pod, and which of the given nodes fit."""
    accounting = cache.accounting
    assignment = accounting.assignment(pod.uid)
    candidates, others = [], 0
    for info, rejection in accounting.rejections(pod):
        if not owner_matching.matches_any_owner(info.owners, pod) or (
            rejection is not None and rejection.reason is RejectionReason.OTHER_NAME
        ):
            others += info.available
        else:
            candidates.append(
                CandidateReservation(
                    name=info.name, node=info.node, refusal=rejection, other_claims=_other_claims(info, pod)
                )
            )
    if assignment is not None:
        reservation = accounting.reservation(assignment.reservation) if assignment.reservation is not None else None
        return PodReservations(
            candidates=tuple(candidates), others=others, inside=reservation.name if reservation else ""
        )
    answers = []
    for name in nodes:
        node, result = accounting.node(name), accounting.filter_node(cache.counted_on(name, pod), name)
        names = (_reservation_name(accounting, uid) for uid in result.reservations)
        reservations = tuple(filter(None, names))
        unused = _unused_reserved_resources(node, result.rejections) if node is not None else ()
        answers.append((name, _NodeAnswer(refusals=result.rejections, kept=unused, inside=reservations)))
    return PodReservations(
        groups=_group_nodes(answers), candidates=tuple(sorted(candidates, key=_by_name)), others=others
    )


def _other_claims(info: ReservationInfo, pod: PodInfo) -> tuple[str, ...]:
    """Return the claims and templates of a Reservation if none of them is for a claim of the pod, which has some."""
    if not pod.claims or not info.claims.isdisjoint(pod.claims):
        return ()
    return tuple(sorted(name for _, _, name in info.claims))


def asks_for_other_claims(accounting: ReservationAccounting, info: ReservationInfo, pod: PodInfo) -> bool:
    """Return whether an owner pod can use the amounts of a Reservation, but not its claims, nor those of another one.

    Claims are handed over as a whole, to a pod that asks for the same.
    """
    if not _other_claims(info, pod) or not owner_matching.matches_any_owner(info.owners, pod):
        return False
    answers = list(accounting.rejections(pod))
    if any(rejection is None and has_common_claim(reservation, pod) for reservation, rejection in answers):
        return False
    return any(
        reservation.uid == info.uid and (rejection is None or rejection.reason is RejectionReason.NOTHING_IN_COMMON)
        for reservation, rejection in answers
    )


def placement_groups(
    accounting: ReservationAccounting,
    info: ReservationInfo,
    nodes: Sequence[str],
    *,
    placeholder: SchedulerPod | None = None,
) -> list[ReservationNodeGroup]:
    """Return the nodes in groups by their answer to a Reservation that is not placed yet.

    ``placeholder``: the pod that is to find the node, whose node selector counts as well.
    """
    answers = []
    for name in nodes:
        node = accounting.node(name)
        if node is None:
            continue
        if placeholder is not None and not placeholder.spec.selects_node(name, dict(node.labels)):
            answers.append((name, _NodeAnswer(excluded=True)))
            continue
        placement = place_reservation(node, info, accounting.unreserved_pods(name))
        if isinstance(placement, ReservationPlacement):
            answers.append((name, _NodeAnswer(over=len(placement.pre_allocated_pods))))
        else:
            answers.append((name, _NodeAnswer(refusals=placement, kept=_unused_reserved_resources(node, placement))))
    return list(_group_nodes(answers))


class _NodeAnswer(Struct, frozen=True):
    """The answer of one node, with fields as in `ReservationNodeGroup`."""

    refusals: tuple[Rejection, ...] = ()
    kept: tuple[UnusedReservedResource, ...] = ()
    inside: tuple[str, ...] = ()
    over: int = 0
    excluded: bool = False


def _group_nodes(answers: Iterable[tuple[str, _NodeAnswer]]) -> tuple[ReservationNodeGroup, ...]:
    nodes_by_answer: dict[_NodeAnswer, list[str]] = {}
    for name, answer in answers:
        nodes_by_answer.setdefault(answer, []).append(name)
    made = [
        ReservationNodeGroup(
            count=len(names),
            nodes=tuple(names[:NAMED_NODES_MAX]),
            refusals=answer.refusals,
            kept=answer.kept,
            inside=answer.inside,
            over=answer.over,
            excluded=answer.excluded,
        )
        for answer, names in nodes_by_answer.items()
    ]
    return tuple(sorted(made, key=lambda group: (group.excluded, len(group.refusals), -group.count, group.nodes)))


def _unused_reserved_resources(node: NodeUsage, rejections: Iterable[Rejection]) -> tuple[UnusedReservedResource, ...]:
    """Return the held and unused amounts of the resources that are short."""
    resources = []
    for resource in dict.fromkeys(
        rejection.subject for rejection in rejections if rejection.reason is RejectionReason.NODE_INSUFFICIENT
    ):
        unused = {
            usage.info.name: usage.requested(resource) - usage.allocated.get(resource, 0)
            for usage in node.reservations.values()
        }
        by = {name: amount for name, amount in unused.items() if amount > 0}
        if by and resource != PODS:
            resources.append(
                UnusedReservedResource(resource=resource, amount=sum(by.values()), reservations=tuple(sorted(by)))
            )
    return tuple(resources)


def _reservation_name(accounting: ReservationAccounting, uid: Uid) -> str:
    info = accounting.reservation(uid)
    return info.name if info is not None else ""


def _by_name(candidate: CandidateReservation) -> str:
    return candidate.name
