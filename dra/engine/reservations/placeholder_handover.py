"""The handover of capacity from placeholders to owner pods, in mode yielding.

At all times the placeholders together request what is held minus what owner pods take. The next steps follow from what
is observed, whatever has happened before: after a restart in the middle the handover continues where it was.

An owner pod gets its capacity in this order, each step written before the next one begins:

1. The reservation's status names the pod (`lifecycle`): no other pod gets the same capacity, and a restart knows of it.
2. A new placeholder requests the rest of the placeholder that must go; the new one is nominated for the node.
3. The owner pod is marked as inside, and nominated, too (`SetReservationAllocated`). From now on kube-scheduler counts
   the pod on the node against all pods of no higher priority.
4. The placeholder is deleted, by one write. kube-scheduler sees the events of pods in the order in which they were
   written: at no moment does it know the capacity as free and the owner pod as not nominated.
5. The scheduling gate of dra-reserve, if the owner pod has it, is removed.

A pod of a higher priority than the owner pod's can still come in between: nominations do not count against it. Then the
owner pod waits; after the bind horizon the status no longer names the pod, and placeholders request its capacity again.

The steps of a reservation depend neither on the time nor on other reservations.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Protocol, TypeAlias

import msgspec

from dra.api.reservations import well_known
from dra.engine.kube_scheduler import pod_requests
from dra.engine.reservations import filters
from dra.engine.reservations.actions import (
    DeletePlaceholder,
    NominatePlaceholder,
    RemoveSchedulingGate,
    SetReservationAllocated,
)
from dra.engine.reservations.placeholders import Placeholder, without_pods
from dra.engine.reservations.pod_info import PodInfo, allocated_reservation_uid
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.model import quantities
from dra.model.meta import Key, Struct, Uid
from dra.model.nodes import Node
from dra.model.pods import POD_SCHEDULED
from dra.model.quantities import Amounts
from dra.model.scheduling import SchedulerPod


class OwnerPod(Struct, frozen=True):
    """An owner pod that the status names and that is not known to have ended."""

    key: Key
    uid: Uid
    amounts: Amounts
    is_bound: bool = False
    nominated: str = ""
    is_annotated: bool = False
    """Whether the pod's annotation names the reservation."""
    is_labelled: bool = False
    """Whether the pod has the label by which its standby placeholder's anti-affinity selects it."""
    is_gated: bool = False
    """Whether the pod has our scheduling gate."""
    deleting: bool = False
    """Whether the pod is being deleted."""

    @classmethod
    def from_pod(cls, pod: SchedulerPod, *, reservation: Uid) -> "OwnerPod":
        """Return the OwnerPod of a pod that the status of a reservation names."""
        meta = pod.metadata
        return cls(
            key=meta.key,
            uid=meta.uid,
            amounts=pod_requests.pod_requests(pod),
            is_bound=bool(pod.spec.node_name),
            nominated=pod.status.nominated_node_name,
            is_annotated=allocated_reservation_uid(meta) == reservation,
            is_labelled=(meta.labels or {}).get(well_known.LABEL_INSIDE) == meta.uid,
            is_gated=well_known.SCHEDULING_GATE in pod.gates,
            deleting=meta.deleting,
        )


class ReservationState(Struct, frozen=True):
    """The placeholders and owner pods of a reservation that has its node."""

    node: str
    allocatable: Amounts
    allocate_once: bool = False
    """Whether the reservation ends with its first owner pod (allocateOnce): then there are no standby placeholders."""
    placeholders: tuple[Placeholder, ...] = ()
    owner_pods: tuple[OwnerPod, ...] = ()


class PlaceholderRequest(Struct, frozen=True):
    """Create a placeholder with the given requests."""

    amounts: Amounts
    standby_for: tuple[Uid, str] | None = None
    replaces: tuple[Uid, ...] = ()


HandoverStep: TypeAlias = (
    PlaceholderRequest | DeletePlaceholder | NominatePlaceholder | SetReservationAllocated | RemoveSchedulingGate
)


class AdmissionCheck(Protocol):
    """A check whether a reservation admits a pod: `can_admit` or `can_admit_later`."""

    def __call__(self, state: ReservationState, info: ReservationInfo, pod: PodInfo, /, *, node: Node) -> bool:
        """Return whether the reservation admits the pod."""


def plan_handover(state: ReservationState) -> tuple[HandoverStep, ...]:
    """Return the next steps, in order; none if placeholders and owner pods are as they should be."""
    unusable = [
        placeholder
        for placeholder in state.placeholders
        if placeholder.is_terminal or placeholder.node not in {"", state.node}
    ]
    removals = _removals(placeholder for placeholder in unusable if not placeholder.deleting)
    own, replaced = _active_placeholders(state), _replaced_placeholders(state)
    requested, target = quantities.total(placeholder.amounts for placeholder in own), target_requests(state)
    missing, excess = _positive_difference(target, requested), _positive_difference(requested, target)
    if missing := missing or _missing_replacements(state, replaced):  # nothing is deleted before that exists
        return (
            *removals,
            PlaceholderRequest(amounts=missing, replaces=tuple(sorted(placeholder.uid for placeholder in replaced))),
        )
    nominated = [
        NominatePlaceholder(key=placeholder.key, uid=placeholder.uid, node=state.node)
        for placeholder in _placeholders_to_nominate(state, own)
    ]
    deletion = _next_deletion(state, replaced)
    fitting, left = _owners_that_fit(state, own)
    released = [pod for pod in fitting if not pod.is_bound and _reserved_part(pod.amounts, state.allocatable)]
    served: Sequence[OwnerPod]
    gone: Sequence[Placeholder]
    if deletion.gone:  # a placeholder for another owner pod would take the released capacity: it is created afterwards
        if not deletion.released:  # placeholders are merged: no owner pod gets anything yet
            served = ()
        elif stale := _stale_replacements(deletion, changed=bool(excess and left)):
            return (*removals, *_removals(stale), *_missing_standbys(state))
        else:
            served = state.owner_pods if left else fitting
        gone = deletion.gone
    elif excess and released:
        # Until these are bound, a placeholder of a new release would take their capacity: nominations do not count
        # against placeholders.
        served, gone = released, ()
    else:
        release = _plan_release(own, excess)
        if release.replacements or (excess and not release.victims):  # capacity for the owners is still being merged
            return (*removals, *nominated, *release.replacements, *_missing_standbys(state))
        served, gone = state.owner_pods, release.victims
    return (
        *removals,
        *_owners_to_mark(state, served),
        *nominated,
        *_removals(gone),
        *(RemoveSchedulingGate(key=pod.key, uid=pod.uid) for pod in served if pod.is_gated and not pod.is_bound),
        *_missing_standbys(state),
    )


def gate_removal_patch(pod: SchedulerPod) -> dict[str, Any]:
    """Return the JSON merge patch that removes our scheduling gate from a pod, and no other; empty if it is gone."""
    if well_known.SCHEDULING_GATE not in pod.gates:
        return {}
    rest = [{"name": name} for name in pod.gates if name != well_known.SCHEDULING_GATE]
    return {"spec": {"schedulingGates": rest or None}}


def target_requests(state: ReservationState) -> dict[str, int]:
    """Return what placeholders are to request together: what is held minus what owner pods take of it."""
    return _positive_difference(
        without_pods(state.allocatable), quantities.total(pod.amounts for pod in state.owner_pods)
    )


def available_to_owners(state: ReservationState) -> dict[str, int]:
    """Return what an owner pod can get now: the target requests, as far as bound placeholders cover these."""
    waiting = quantities.total(
        placeholder.amounts for placeholder in _active_placeholders(state) if not placeholder.node
    )
    bound = quantities.total(
        placeholder.amounts
        for placeholder in (*_active_placeholders(state), *_replaced_placeholders(state))
        if placeholder.node
    )
    return {
        name: min(amount, bound.get(name, 0))
        for name, amount in _positive_difference(target_requests(state), waiting).items()
    }


def shortage_message(state: ReservationState) -> str:
    """Return why capacity is not kept, in kube-scheduler's words; empty if it is kept, or that is not known yet."""
    if _replaced_placeholders(state):
        return ""
    return next(
        (
            placeholder.unschedulable_message
            for placeholder in _active_placeholders(state)
            if placeholder.unschedulable_message
        ),
        "",
    )


def can_admit(state: ReservationState, info: ReservationInfo, pod: PodInfo, *, node: Node) -> bool:
    """Return whether a pod may use the reservation and its capacity is there now."""
    if pod.ignores_reservations or filters.check_eligibility(
        info, pod, node_labels=node.metadata.labels or {}, new_owner_count=len(state.owner_pods)
    ):
        return False
    if state.allocate_once and state.owner_pods:
        return False
    free, reserved = available_to_owners(state), without_pods(state.allocatable)
    return all(amount <= free.get(name, 0) for name, amount in pod.amounts.items() if name in reserved)


def can_admit_later(state: ReservationState, info: ReservationInfo, pod: PodInfo, *, node: Node) -> bool:
    """Return whether a pod may use the reservation once all placeholders are on the node."""
    later = ReservationState(
        node=state.node,
        allocatable=state.allocatable,
        allocate_once=state.allocate_once,
        placeholders=(Placeholder(key=("", ""), uid=Uid("all"), amounts=target_requests(state), node=state.node),),
        owner_pods=state.owner_pods,
    )
    return can_admit(later, info, pod, node=node)


def waits_for_capacity(pod: SchedulerPod) -> bool:
    """Return whether a pod waits for capacity: it is unschedulable, or has no scheduling gate left but ours."""
    if pod.spec.node_name or pod.terminal or pod.metadata.deleting:
        return False
    if pod.gates:
        return pod.gates == (well_known.SCHEDULING_GATE,)
    condition = pod.condition(POD_SCHEDULED)
    return condition is not None and condition.status == "False"


def matches_node(pod: SchedulerPod, node: Node) -> bool:
    """Return whether a pod could run on a node by taints, node selector and node affinity, whatever else runs there."""
    tolerations = pod.spec.tolerations or ()
    return all(
        any(by.tolerates(taint) for by in tolerations) for taint in node.spec.filtering_taints
    ) and pod.spec.selects_node(node.metadata.name, node.metadata.labels or {})


def queue_order(pod: SchedulerPod) -> tuple[int, str, str]:
    """Return the key by which pending pods are ordered: priority, then age."""
    return (-pod.spec.priority, str(pod.metadata.creation_timestamp or ""), pod.metadata.uid)


def _active_placeholders(state: ReservationState) -> tuple[Placeholder, ...]:
    """Return the placeholders that count: without those to be replaced, and without standbys of pods inside."""
    inside = {pod.uid for pod in state.owner_pods}
    replaced = {placeholder.uid for placeholder in _replaced_placeholders(state)}
    return tuple(
        placeholder
        for placeholder in _usable(state)
        if placeholder.standby_for not in inside and placeholder.uid not in replaced
    )


def _replaced_placeholders(state: ReservationState) -> tuple[Placeholder, ...]:
    usable = _usable(state)
    gone = set(chain.from_iterable(placeholder.replaces for placeholder in usable))
    return tuple(placeholder for placeholder in usable if placeholder.uid in gone)


class _Deletion(Struct, frozen=True):
    """The deletion that comes next of placeholders whose replacements exist."""

    gone: tuple[Placeholder, ...] = ()
    replacements: tuple[Placeholder, ...] = ()
    """The replacements."""
    released: dict[str, int] = msgspec.field(default_factory=dict)
    """The capacity that the deletion releases for owner pods."""


def _next_deletion(state: ReservationState, replaced: Sequence[Placeholder]) -> _Deletion:
    """Return the next deletion: the one whose replacements are nominated already comes first.

    One after the other: if an owner pod does not fit after the first of two deletions, kube-scheduler clears its
    nomination, and the second deletion would release capacity for any pod.
    """
    present = {placeholder.uid for placeholder in replaced}
    replacements = [replacement for replacement in _usable(state) if not replacement.replaces.isdisjoint(present)]
    if not replacements:
        return _Deletion()
    together = (
        min(replacements, key=lambda replacement: (not replacement.nominated, replacement.key)).replaces & present
    )
    for _ in replacements:  # replacements that share a replaced placeholder belong together
        linked = (replacement.replaces for replacement in replacements if replacement.replaces & together)
        together = together.union(*linked) & present
    gone = tuple(placeholder for placeholder in replaced if placeholder.uid in together)
    own = tuple(replacement for replacement in replacements if replacement.replaces & together)
    released = _positive_difference(
        quantities.total(placeholder.amounts for placeholder in gone),
        quantities.total(placeholder.amounts for placeholder in own),
    )
    return _Deletion(gone=gone, replacements=own, released=released)


def _stale_replacements(deletion: _Deletion, *, changed: bool) -> tuple[Placeholder, ...]:
    """Return the replacements to plan again; `changed`: no owner pods need just what the deletion would release.

    None if one is bound on spare capacity: without the others its part would be requested again, without an end.
    """
    if any(replacement.node for replacement in deletion.replacements) or not (changed or len(deletion.gone) > 1):
        return ()
    return deletion.replacements


def _removals(placeholders: Iterable[Placeholder]) -> tuple[DeletePlaceholder, ...]:
    return tuple(DeletePlaceholder(key=placeholder.key, uid=placeholder.uid) for placeholder in placeholders)


def _owners_that_fit(
    state: ReservationState, own: Sequence[Placeholder]
) -> tuple[tuple[OwnerPod, ...], dict[str, int]]:
    """Return the owner pods that fit together into what placeholders do not request, and what is left of it.

    Only these are nominated: the nomination of another one would keep them out, and be cleared itself.
    """
    bound = [pod for pod in state.owner_pods if pod.is_bound]
    taken = quantities.total((*(placeholder.amounts for placeholder in own), *(pod.amounts for pod in bound)))
    left = _positive_difference(without_pods(state.allocatable), taken)
    served = []
    for pod in sorted(
        (pod for pod in state.owner_pods if not pod.is_bound), key=lambda pod: pod.nominated != state.node
    ):
        need = _reserved_part(pod.amounts, state.allocatable)
        if not _positive_difference(need, left):
            served.append(pod)
            left = _positive_difference(left, need)
    return (*bound, *served), left


def _missing_replacements(state: ReservationState, replaced: Sequence[Placeholder]) -> dict[str, int]:
    """Return what replacements of several merged placeholders do not request yet."""
    present = {placeholder.uid for placeholder in replaced}
    usable = _usable(state)
    # A part goes on naming the placeholders that it has replaced: of those that are gone nothing is missing.
    merged = (
        frozenset[str]().union(*(placeholder.replaces for placeholder in usable if len(placeholder.replaces) > 1))
        & present
    )
    # A part that is created after some of the merged placeholders are gone names a single one, and counts as well.
    return _positive_difference(
        quantities.total(placeholder.amounts for placeholder in replaced if placeholder.uid in merged),
        quantities.total(placeholder.amounts for placeholder in usable if not placeholder.replaces.isdisjoint(merged)),
    )


def _usable(state: ReservationState) -> list[Placeholder]:
    return [
        placeholder
        for placeholder in state.placeholders
        if not placeholder.is_terminal and not placeholder.deleting and placeholder.node in {"", state.node}
    ]


class _Release(Struct, frozen=True):
    victims: tuple[Placeholder, ...] = ()
    """Placeholders to delete."""
    replacements: tuple[PlaceholderRequest, ...] = ()
    """Placeholders to create first, as replacements."""


def _plan_release(own: Sequence[Placeholder], excess: Amounts) -> _Release:
    """Return how placeholders release the capacity of an owner pod.

    One deletion must release all of it: each deletion is an event upon which kube-scheduler retries the owner pod and,
    if the pod does not fit yet, clears its nomination. So the deleted placeholder is as large as the excess or larger,
    and a replacement takes the rest first. If no single placeholder is large enough, several are merged first; no other
    pod can interfere with that, since placeholders keep their nomination.

    A placeholder with devices is deleted in any case: the reservation itself holds the devices.
    """
    if devices := [placeholder for placeholder in own if placeholder.has_claims]:
        bare = [placeholder for placeholder in devices if not placeholder.amounts]
        same = (
            PlaceholderRequest(amounts=placeholder.amounts, replaces=(placeholder.uid,))
            for placeholder in devices
            if placeholder.amounts
        )
        return _Release(victims=tuple(bare), replacements=tuple(same))
    if not excess:
        return _Release()
    exact = [placeholder for placeholder in own if dict(placeholder.amounts) == dict(excess)]
    if exact:  # a pending one will be on the node in a moment
        return _Release(victims=tuple([placeholder for placeholder in exact if placeholder.node][:1]))
    on_node = sorted(
        (placeholder for placeholder in own if placeholder.node),
        key=lambda placeholder: (sum(placeholder.amounts.values()), placeholder.key),
    )
    single = next(
        (placeholder for placeholder in on_node if not _positive_difference(excess, placeholder.amounts)), None
    )
    if single is not None:
        return _Release(
            replacements=(
                PlaceholderRequest(amounts=_positive_difference(single.amounts, excess), replaces=(single.uid,)),
            )
        )
    # The largest first, so that few placeholders are merged: each merge is a creation and a deletion.
    chosen: list[Placeholder] = []
    for placeholder in reversed(on_node):
        lacking = _positive_difference(excess, quantities.total(one.amounts for one in chosen))
        if any(name in placeholder.amounts for name in lacking):
            chosen.append(placeholder)
    together = quantities.total(placeholder.amounts for placeholder in chosen)
    if _positive_difference(excess, together):
        return _Release()  # not all of the excess is on the node
    replaces = tuple(sorted(placeholder.uid for placeholder in chosen))
    replacements = (excess, _positive_difference(together, excess))
    return _Release(
        replacements=tuple(
            PlaceholderRequest(amounts=amounts, replaces=replaces) for amounts in replacements if amounts
        )
    )


def _owners_to_mark(state: ReservationState, served: Iterable[OwnerPod]) -> Iterable[HandoverStep]:
    for pod in served:
        node = state.node if not pod.is_bound and pod.nominated != state.node else ""
        label = not state.allocate_once and not pod.is_labelled
        if node or label or not pod.is_annotated:
            yield SetReservationAllocated(key=pod.key, uid=pod.uid, node=node, label=label)


def _placeholders_to_nominate(state: ReservationState, own: Iterable[Placeholder]) -> Iterable[Placeholder]:
    """Yield pending placeholders that count now, or whose owner pod is being deleted, unless nominated already."""
    deleting = {pod.uid for pod in state.owner_pods if pod.deleting}
    standbys = (placeholder for placeholder in _usable(state) if placeholder.standby_for in deleting)
    return (
        placeholder for placeholder in (*own, *standbys) if not placeholder.node and placeholder.nominated != state.node
    )


def _missing_standbys(state: ReservationState) -> Iterable[HandoverStep]:
    if state.allocate_once:
        return
    has_standby = {placeholder.standby_for for placeholder in _usable(state)}
    for pod in state.owner_pods:
        if (
            pod.is_bound
            and pod.is_labelled
            and pod.uid not in has_standby
            and (requests := _reserved_part(pod.amounts, state.allocatable))
        ):
            yield PlaceholderRequest(amounts=requests, standby_for=(pod.uid, pod.key[0]))


def _reserved_part(taken: Amounts, allocatable: Amounts) -> dict[str, int]:
    """Return what an owner pod takes of what is held; nothing beyond that comes back when the pod ends."""
    return {
        name: min(amount, allocatable[name]) for name, amount in without_pods(taken).items() if allocatable.get(name)
    }


def _positive_difference(one: Amounts, other: Amounts) -> dict[str, int]:
    """Return the amounts of `one` that exceed `other`."""
    return {name: amount - other.get(name, 0) for name, amount in one.items() if amount > other.get(name, 0)}
