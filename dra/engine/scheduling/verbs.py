"""Filter, prioritize and preempt: the accounting applied to the nodes that kube-scheduler asks about.

For a pod whose binding is in progress only its node passes: the binding may succeed at any moment.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import filterfalse
from typing import Final

from dra.api.reservations import well_known
from dra.api.reservations.well_known import MalformedAnnotationError
from dra.engine.instants import NEVER, Instant
from dra.engine.kube_scheduler.victims import ChosenVictims
from dra.engine.reservations import filters as filtering
from dra.engine.reservations import placeholders, preemption, rejections, scoring
from dra.engine.reservations.accounting import FilterResult
from dra.engine.reservations.pod_info import PodInfo
from dra.engine.reservations.preemption import Fits
from dra.engine.reservations.quotas import Charge
from dra.engine.reservations.rejections import UNRESOLVABLE, Rejection, RejectionReason
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.engine.reservations.reservation_placement import ReservationPlacement, place_reservation
from dra.engine.scheduling.scheduler_cache import CachedReservation, SchedulerCache
from dra.model.extender_protocol import MAX_EXTENDER_PRIORITY, ExtenderFilterResult, HostPriority, MetaPod, MetaVictims
from dra.model.meta import Struct, Uid
from dra.model.scheduling import SchedulerPod, has_undecided_constraints

VACATE_TIMEOUT: Final = 3.0
"""Seconds for which owners wait until a placeholder is gone; the controller deletes it within a tenth of a second."""

_NOT_PREEMPTIBLE: Final = UNRESOLVABLE | {RejectionReason.NO_RESERVATIONS_MATCH, RejectionReason.NODE_UNKNOWN}
"""Reasons that preemption of any pod cannot resolve."""


class FilterDecision(Struct, frozen=True):
    """The result of filter for a pod, and why no reservation takes a pod that must run in one."""

    result: ExtenderFilterResult
    event_text: str = ""


def filter_pod(cache: SchedulerCache, pod: SchedulerPod, names: Sequence[str], *, now: Instant) -> FilterDecision:
    """Decide on which nodes a pod can run now; a pod with rejected nodes is requeued when capacity is freed.

    Where kube-scheduler counts a placeholder beside its reservation, an owner waits until the placeholder has left, or
    for `VACATE_TIMEOUT`.
    """
    if cache.vacating and _must_wait_for_placeholder(cache, pod, names, now=now):
        cache.unschedulable.add(pod, retry_at=now + VACATE_TIMEOUT)
        leaving = Rejection(reason=RejectionReason.PLACEHOLDER_LEAVING).text
        return FilterDecision(ExtenderFilterResult(node_names=[], failed_nodes=dict.fromkeys(names, leaving)))
    result = filter_nodes(cache, pod, names)
    if len(result.node_names) < len(names):
        cache.unschedulable.add(pod)
    return FilterDecision(result=result, event_text="" if result.node_names else unschedulable_message(cache, pod))


def filter_nodes(cache: SchedulerCache, pod: SchedulerPod, names: Sequence[str]) -> ExtenderFilterResult:
    """Return the nodes on which a pod can run now, and the reasons for the others."""
    if (uid := placeholders.reservation_uid_of(pod.metadata)) is not None:
        with cache.nominations.suspended(pod.metadata.uid):
            return _filter_for_placeholder(cache, uid, names)
    try:
        pod_info = cache.pod_info(pod)
    except MalformedAnnotationError as error:
        return ExtenderFilterResult(node_names=[], failed_and_unresolvable_nodes=dict.fromkeys(names, str(error)))
    assignment = cache.accounting.assignment(pod_info.uid)
    if assignment is not None:
        return _only_node(assignment.node, names)
    merged = ExtenderFilterResult(node_names=[])
    for counted, there in cache.group_by_published_resources(pod_info, names):
        result = _filter_result(cache.accounting.filter_nodes(counted), there)
        merged = ExtenderFilterResult(
            node_names=[*(merged.node_names or ()), *(result.node_names or ())],
            failed_nodes=merged.failed_nodes | result.failed_nodes,
            failed_and_unresolvable_nodes=merged.failed_and_unresolvable_nodes | result.failed_and_unresolvable_nodes,
        )
    return merged


def unschedulable_message(cache: SchedulerCache, pod: SchedulerPod) -> str:
    """Return why no reservation takes a pod that must run in one; empty for any other pod."""
    if (
        pod.metadata.annotation(well_known.ANNOTATION_RESERVATION_AFFINITY) is None
        or placeholders.reservation_uid_of(pod.metadata) is not None
    ):
        return ""
    try:
        owned, why = cache.accounting.rejections_of_owner(cache.pod_info(pod))
    except MalformedAnnotationError:
        return ""
    return rejections.event_message(why, owned=owned)


def prioritize_nodes(
    cache: SchedulerCache, pod: SchedulerPod, names: Sequence[str], *, spread_reservations: bool = True
) -> list[HostPriority]:
    """Return the scores of nodes: the node whose reservation the pod fills best comes first.

    For a placeholder the emptiest nodes come first if `spread_reservations`.

    A node that is not in the result has score zero, as most nodes do: listing thousands of them, for each pod, would be
    work for the extender and for kube-scheduler.
    """
    if (uid := placeholders.reservation_uid_of(pod.metadata)) is not None:
        return _prioritize_for_placeholder(cache, uid, names) if spread_reservations else []
    try:
        pod_info = cache.pod_info(pod)
    except MalformedAnnotationError:
        return []
    scores: dict[str, int] = {}
    for counted, there in cache.group_by_published_resources(pod_info, names):
        scores |= cache.accounting.prioritize(counted, there)
    if scores:
        cache.nodes_with_reservation[pod.metadata.uid] = frozenset(name for name, points in scores.items() if points)
    else:
        cache.nodes_with_reservation.pop(pod.metadata.uid, None)
    return [HostPriority(host=name, score=_extender_score(points)) for name, points in scores.items() if points]


def nodes_within_lead(
    cache: SchedulerCache, pod: SchedulerPod, names: list[str], *, lead: int | None, spread_reservations: bool = True
) -> list[str]:
    """Return the nodes that kube-scheduler may still choose once it has added its own scores.

    `lead`: number of points by which the best node must be ahead so that no other score makes up for them; None: all
    nodes may be chosen. kube-scheduler scores no node, and requests no scores, where filter leaves one. A node omitted
    here was not rejected: the answer gives no reason for it, and no preemption is tried while a node is left.
    """
    if lead is None or len(names) <= 1:
        return names
    ranked = prioritize_nodes(cache, pod, names, spread_reservations=spread_reservations)
    points = {priority.host: priority.score for priority in ranked}
    top = max(points.values(), default=0)
    return [name for name in names if points.get(name, 0) > top - lead]


def process_preemption(
    cache: SchedulerCache, pod: SchedulerPod, victims: Mapping[str, MetaVictims]
) -> dict[str, MetaVictims]:
    """Return the victims of each node that stays a candidate, with the number of violated budgets."""
    chosen = {node: frozenset(victim.uid for victim in meta.pods or ()) for node, meta in victims.items()}
    return {
        node: victims[node]
        if others is None
        else MetaVictims(pods=[MetaPod(uid=uid) for uid in others.uids], num_pdb_violations=len(others.pdb_violations))
        for node, others in reconsider_victims(cache, pod, chosen).items()
    }


def reconsider_victims(
    cache: SchedulerCache, pod: SchedulerPod, chosen: Mapping[str, AbstractSet[Uid]]
) -> dict[str, ChosenVictims | None]:
    """Return for each node that stays a candidate the victims instead of the chosen ones; None: the choice stands.

    kube-scheduler knows nothing of reservations, so the capacity that it frees may be reserved for another pod. No node
    is left to a reservation that does not ask for preemption. On the node that kube-scheduler chooses, the capacity is
    kept for the pod (`dra.engine.reservations.preemption`).
    """
    known = None
    if (reservation := placeholders.reservation_uid_of(pod.metadata)) is not None:
        known = cache.reservation(reservation)
        if known is None or not known.may_preempt or known.info.allows_pre_allocation or _placed(cache, known):
            return {}
    try:
        pod_info = cache.pod_info(pod)
    except MalformedAnnotationError:
        return {}
    candidates: dict[str, ChosenVictims | None] = {}
    for node, uids in chosen.items():
        usage, there = cache.accounting.node(node), cache.accounting.pods_on_node(node)
        if usage is None:
            continue
        counted = cache.counted_on(node, pod_info)
        fits = _fit_check(counted, known)
        leaving = [assignment for assignment in there if assignment.pod.uid in uids]
        if preemption.suffices(leaving, usage, fits=fits):
            candidates[node] = None
        elif cache.knows_budgets:
            # Which victim makes room for volumes, topology or devices is unknown here: then all of them have to go.
            has_other_needs = has_undecided_constraints(pod) or bool(pod_info.claims)
            others = preemption.select_victims(
                usage,
                there,
                priority=pod_info.priority,
                fits=fits,
                budgets=tuple(cache.budgets.values()),
                required=uids if has_other_needs else preemption.unexplained_victims(usage, counted, leaving),
            )
            if others is not None:
                candidates[node] = others
    leaving_by_node = {node: chosen[node] if new is None else new.uids for node, new in candidates.items()}
    cache.nominations.record_victims(pod_info.uid, leaving_by_node)
    return candidates


def _must_wait_for_placeholder(cache: SchedulerCache, pod: SchedulerPod, names: Sequence[str], *, now: Instant) -> bool:
    """Return whether a pod must wait until its reservation's placeholder has left a node that kube-scheduler left out.

    The owners of a reservation wait `VACATE_TIMEOUT` seconds at most.
    """
    if placeholders.reservation_uid_of(pod.metadata) is not None:
        return False
    try:
        pod_info = cache.pod_info(pod)
    except MalformedAnnotationError:
        return False
    for info in cache.accounting.fitting_reservations(pod_info, cache.vacating.keys()):
        if info.node in names:
            continue
        if cache.vacating[info.uid] == NEVER:
            cache.vacating[info.uid] = now + VACATE_TIMEOUT
        if now < cache.vacating[info.uid]:
            return True
    return False


def _only_node(node: str, names: Sequence[str]) -> ExtenderFilterResult:
    elsewhere = Rejection(reason=RejectionReason.PLACED_ELSEWHERE, subject=node).text
    return ExtenderFilterResult(
        node_names=[name for name in names if name == node],
        failed_and_unresolvable_nodes={name: elsewhere for name in names if name != node},
    )


def _fit_check(pod: PodInfo, reservation: CachedReservation | None) -> Fits:
    """Return the function that reports whether a pod, or a reservation, fits on a node."""
    if reservation is None:
        return lambda usage: filtering.filter_node(usage, pod).fits
    return lambda usage: isinstance(place_reservation(usage, reservation.info), ReservationPlacement)


def _filter_for_placeholder(cache: SchedulerCache, uid: Uid, names: Sequence[str]) -> ExtenderFilterResult:
    """Return the nodes on which a reservation can be placed now."""
    known = cache.reservation(uid)
    if known is None:
        return ExtenderFilterResult(
            node_names=[],
            failed_and_unresolvable_nodes=dict.fromkeys(names, "the placeholder's Reservation was deleted"),
        )
    if (info := _placed(cache, known)) is not None:
        return _only_node(info.node, names)
    charge = Charge.RUNNING_PODS if known.info.allows_pre_allocation else Charge.PLACEHOLDER
    if text := cache.quota_refusal(known, wanted=known.info.allocatable, charge=charge):
        return ExtenderFilterResult(node_names=[], failed_and_unresolvable_nodes=dict.fromkeys(names, text))
    # Preemption cannot help a placeholder without requests from kube-scheduler's point of view: it is not tried.
    filtered = cache.accounting.filter_nodes_for_reservation(known.info)
    return _filter_result(filtered, names, preemptible=known.may_preempt and not known.info.allows_pre_allocation)


def _placed(cache: SchedulerCache, known: CachedReservation) -> ReservationInfo | None:
    """Return a reservation that holds a node or is being placed there; its placeholder needs no room beside it."""
    return cache.assumed.get(known.info.uid) or (known.info if known.info.available else None)


def _prioritize_for_placeholder(cache: SchedulerCache, uid: Uid, names: Sequence[str]) -> list[HostPriority]:
    """Return the best nodes for a reservation, if some are better than others."""
    known = cache.reservation(uid)
    if known is None or known.info.parse_error or scoring.has_preferences(known.reservation.spec.template):
        return []
    preferred = [name for name in names if name not in cache.prefer_no_schedule]
    best = scoring.best_nodes(cache.accounting.placement_options(known.info, preferred), known.info.allocatable)
    return [HostPriority(host=name, score=MAX_EXTENDER_PRIORITY) for name in best] if len(best) < len(names) else []


def _filter_result(filtered: FilterResult, names: Sequence[str], *, preemptible: bool = True) -> ExtenderFilterResult:
    """Return the result for the requested nodes; `preemptible`: whether preemption may help on the rejected ones."""
    fits = frozenset(filtered.feasible)
    result = ExtenderFilterResult(node_names=list(filter(fits.__contains__, names)))
    others = frozenset(filterfalse(fits.__contains__, names))
    failed, final = result.failed_nodes, result.failed_and_unresolvable_nodes
    for rejected in filtered.rejected if others else ():
        for_good = not preemptible or any(reason.reason in _NOT_PREEMPTIBLE for reason in rejected.rejections)
        message = ", ".join(reason.text for reason in rejected.rejections)
        (final if for_good else failed).update(dict.fromkeys(filter(others.__contains__, rejected.nodes), message))
    if len(failed) + len(final) < len(others):
        unknown = others - failed.keys() - final.keys()
        final |= dict.fromkeys(unknown, Rejection(reason=RejectionReason.NODE_UNKNOWN).text)
    return result


def _extender_score(points: int) -> int:
    """Return 1 to 10: a node with a reservation that fits the pod never scores zero."""
    return max(1, MAX_EXTENDER_PRIORITY * points // scoring.MAX_NODE_SCORE)
