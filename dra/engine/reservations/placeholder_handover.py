"""How placeholders that stay keep a reservation's room, and give way to its owners.

At all times they ask together for what is held less what owners take. From what is seen of them the next moves follow,
whatever has happened before: a restart in the middle goes on where it was.

An owner gets its room in this order, each step written before the next one begins:

1. The reservation's status names it (`lifecycle`): nobody else gets the same, and a restart knows of it.
2. What is left over of the placeholder that must go is asked for by a new one, which is nominated for the node.
3. The owner is *welcomed*: marked as inside, and nominated, too. kube-scheduler counts it there from now on against
   all pods of no higher priority.
4. The placeholder is deleted, by one write. kube-scheduler sees the pods' events in the order in which they were
   written: there is no moment in which it knows the room as free and the owner as not nominated.
5. The owner's gate, if it has ours, is taken off.

Who may still come in between is a pod of a higher priority than the owner's: nominations do not count against it. Then
the owner waits; after the bind horizon the status names it no more, and what it was given is asked for again.

Knows nothing of clocks, and of no other reservation.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final, Protocol, TypeAlias

from dra.api.reservations import well_known
from dra.engine.reservations import amounts, eligibility
from dra.engine.reservations.amounts import NanoAmounts
from dra.engine.reservations.keepers import Placeholder, without_pods
from dra.engine.reservations.pod_info import PodInfo, allocated_reservation_uid
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.engine.scheduling.node_info import tolerates
from dra.model.meta import Key, Struct, Uid
from dra.model.nodes import Node, Taint, matches_node_selector
from dra.model.pods import POD_SCHEDULED
from dra.model.scheduling import SchedulerPod

_UNSCHEDULABLE_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_FILTERING_EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})


class OwnerPod(Struct, frozen=True):
    """An owner that the status names, and that is not known to have ended."""

    key: Key
    uid: Uid
    amounts: NanoAmounts
    bound: bool = False
    nominated: str = ""
    marked: bool = False
    """Whether its annotation names the reservation."""
    labelled: bool = False
    """Whether its heir can see it."""
    gated: bool = False
    """Whether it has our gate."""
    leaving: bool = False
    """Whether it is being deleted."""

    @classmethod
    def of(cls, pod: SchedulerPod, *, inside: Uid) -> "OwnerPod":
        """Read a pod that a reservation's status names."""
        meta = pod.metadata
        return cls(
            key=meta.key,
            uid=meta.uid,
            amounts=amounts.pod_amounts(pod),
            bound=bool(pod.spec.node_name),
            nominated=pod.status.nominated_node_name,
            marked=allocated_reservation_uid(meta.annotation(well_known.ANNOTATION_RESERVATION_ALLOCATED)) == inside,
            labelled=(meta.labels or {}).get(well_known.LABEL_INSIDE) == meta.uid,
            gated=well_known.SCHEDULING_GATE in pod.gates,
            leaving=meta.deleting,
        )


class ReservationState(Struct, frozen=True):
    """What there is of one reservation that has its node."""

    node: str
    held: NanoAmounts
    once: bool = False
    """Whether it is over with its first owner: nobody inherits then."""
    keepers: tuple[Placeholder, ...] = ()
    guests: tuple[OwnerPod, ...] = ()


class PlaceholderRequest(Struct, frozen=True):
    """Make a placeholder."""

    amounts: NanoAmounts
    standby_for: tuple[Uid, str] | None = None
    replaces: tuple[Uid, ...] = ()


class PlaceholderRemoval(Struct, frozen=True):
    """Delete a placeholder."""

    key: Key
    uid: Uid


class NominatePlaceholder(Struct, frozen=True):
    """Have kube-scheduler count a placeholder that waits."""

    key: Key
    uid: Uid


class SetReservationAllocated(Struct, frozen=True):
    """Mark an owner as inside; one that waits is nominated for the node, and one that is to have an heir labelled."""

    key: Key
    uid: Uid
    nominate: bool
    label: bool


class RemoveSchedulingGate(Struct, frozen=True):
    """Take our gate off an owner."""

    key: Key
    uid: Uid


HandoverStep: TypeAlias = (
    PlaceholderRequest | PlaceholderRemoval | NominatePlaceholder | SetReservationAllocated | RemoveSchedulingGate
)


class AdmissionCheck(Protocol):
    """What can be asked about a pod and a reservation."""

    def __call__(self, there: ReservationState, holding: ReservationInfo, pod: PodInfo, /, *, node: Node) -> bool:
        """Answer it."""


def plan_handover(there: ReservationState) -> tuple[HandoverStep, ...]:
    """Return what is to be done next, in this order; nothing when all is as it should be."""
    useless = [each for each in there.keepers if each.ended or each.node not in {"", there.node}]
    drops = [PlaceholderRemoval(key=each.key, uid=each.uid) for each in useless if not each.leaving]
    own, replaced = _active_placeholders(there), _replaced_placeholders(there)
    asked, wanted = amounts.total(each.amounts for each in own), target_requests(there)
    missing, excess = _positive_difference(wanted, asked), _positive_difference(asked, wanted)
    if missing := missing or _missing_replacements(there, replaced):  # nothing goes before that has come
        return (*drops, PlaceholderRequest(amounts=missing, replaces=tuple(sorted(each.uid for each in replaced))))
    way = _plan_release(own, excess)
    nominated = [NominatePlaceholder(key=each.key, uid=each.uid) for each in _placeholders_to_nominate(there, own)]
    gone = [PlaceholderRemoval(key=each.key, uid=each.uid) for each in (*replaced, *way.victims)]
    if way.parts or (excess and not way.victims):  # room for the owners is still being put together
        return (*drops, *nominated, *([] if way.parts else gone), *way.parts, *_missing_standbys(there))
    opened = [
        RemoveSchedulingGate(key=each.key, uid=each.uid) for each in there.guests if each.gated and not each.bound
    ]
    return (*drops, *_owners_to_mark(there), *nominated, *gone, *opened, *_missing_standbys(there))


def target_requests(there: ReservationState) -> dict[str, int]:
    """Return what placeholders are to ask for together: what is held, less what owners take of it."""
    return _positive_difference(without_pods(there.held), amounts.total(each.amounts for each in there.guests))


def available_to_owners(there: ReservationState) -> dict[str, int]:
    """Return what an owner can be given now: what placeholders have on the node, and are to have."""
    waiting = amounts.total(each.amounts for each in _active_placeholders(there) if not each.node)
    bound = amounts.total(
        each.amounts for each in (*_active_placeholders(there), *_replaced_placeholders(there)) if each.node
    )
    return {
        name: min(amount, bound.get(name, 0))
        for name, amount in _positive_difference(target_requests(there), waiting).items()
    }


def shortage_message(there: ReservationState) -> str:
    """Return why the room is not kept, in kube-scheduler's words; empty if it is, or that is not known yet."""
    if _replaced_placeholders(there):
        return ""
    return next((each.waits for each in _active_placeholders(there) if each.waits), "")


def can_admit(there: ReservationState, holding: ReservationInfo, pod: PodInfo, *, node: Node) -> bool:
    """Whether a pod may have its room now."""
    if pod.ignores or eligibility.check_eligibility(
        holding, pod, node_labels=node.metadata.labels or {}, consumers=len(there.guests)
    ):
        return False
    if there.once and there.guests:
        return False
    free, held = available_to_owners(there), without_pods(there.held)
    return all(amount <= free.get(name, 0) for name, amount in pod.amounts.items() if name in held)


def can_admit_later(there: ReservationState, holding: ReservationInfo, pod: PodInfo, *, node: Node) -> bool:
    """Whether a pod will have its room when all placeholders have theirs."""
    settled = ReservationState(
        node=there.node,
        held=there.held,
        once=there.once,
        keepers=(Placeholder(key=("", ""), uid=Uid("all"), amounts=target_requests(there), node=there.node),),
        guests=there.guests,
    )
    return can_admit(settled, holding, pod, node=node)


def waits_for_capacity(pod: SchedulerPod) -> bool:
    """Whether a pod waits for room: kube-scheduler found none for it, or our gate is the only one that is left."""
    if pod.spec.node_name or pod.terminal or pod.metadata.deleting:
        return False
    if pod.gates:
        return pod.gates == (well_known.SCHEDULING_GATE,)
    condition = pod.condition(POD_SCHEDULED)
    return condition is not None and condition.status == "False"


def matches_node(pod: SchedulerPod, node: Node) -> bool:
    """Whether a pod could run on a node as far as node and pod say so, whatever else runs there."""
    spec = pod.spec
    taints = [*(node.spec.taints or ()), *([_UNSCHEDULABLE_TAINT] if node.spec.unschedulable else [])]
    if any(
        t.effect in _FILTERING_EFFECTS and not any(tolerates(by, t) for by in spec.tolerations or ()) for t in taints
    ):
        return False
    labels = node.metadata.labels or {}
    if any(labels.get(name) != value for name, value in (spec.node_selector or {}).items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return matches_node_selector(required, name=node.metadata.name, labels=labels)


def queue_order(pod: SchedulerPod) -> tuple[int, str, str]:
    """Return by what pods are served: priority, then age."""
    return (-pod.spec.priority, str(pod.metadata.creation_timestamp or ""), pod.metadata.uid)


def _active_placeholders(there: ReservationState) -> tuple[Placeholder, ...]:
    """Return the placeholders that count: neither about to go, nor the heirs of those who are inside."""
    inside = {each.uid for each in there.guests}
    gone = {uid for each in there.keepers if _is_active(each, there) for uid in each.replaces}
    return tuple(
        each
        for each in there.keepers
        if _is_active(each, there) and each.standby_for not in inside and each.uid not in gone
    )


def _replaced_placeholders(there: ReservationState) -> tuple[Placeholder, ...]:
    gone = set(chain.from_iterable(each.replaces for each in there.keepers if _is_active(each, there)))
    return tuple(each for each in there.keepers if _is_active(each, there) and each.uid in gone)


def _missing_replacements(there: ReservationState, replaced: Sequence[Placeholder]) -> dict[str, int]:
    """Return what is not asked for yet of several placeholders that are being put together."""
    parts = [each for each in there.keepers if _is_active(each, there) and len(each.replaces) > 1]
    if not parts:
        return {}
    return _positive_difference(
        amounts.total(each.amounts for each in replaced), amounts.total(each.amounts for each in parts)
    )


def _is_active(keeper: Placeholder, there: ReservationState) -> bool:
    return not keeper.ended and not keeper.leaving and keeper.node in {"", there.node}


class _Release(Struct, frozen=True):
    victims: tuple[Placeholder, ...] = ()
    """What is deleted."""
    parts: tuple[PlaceholderRequest, ...] = ()
    """What takes the place of some first."""


def _plan_release(own: Sequence[Placeholder], excess: NanoAmounts) -> _Release:
    """Return how placeholders make room.

    It is made by one deletion: each is an event, upon which kube-scheduler looks at the owner and, if it does not fit
    yet, forgets its nomination. So the one that goes is as large as what is too much, or larger, and what is left over
    has another one then. Several are put together first, which nobody can disturb: placeholders keep their nomination.

    One that asked for devices goes in any case: the reservation itself holds these.
    """
    if devices := [each for each in own if each.devices]:
        bare = [each for each in devices if not each.amounts]
        same = (PlaceholderRequest(amounts=each.amounts, replaces=(each.uid,)) for each in devices if each.amounts)
        return _Release(victims=tuple(bare), parts=tuple(same))
    if not excess:
        return _Release()
    exact = [each for each in own if dict(each.amounts) == dict(excess)]
    if exact:  # one that waits will be on the node in a moment
        return _Release(victims=tuple([each for each in exact if each.node][:1]))
    there = sorted((each for each in own if each.node), key=lambda each: (sum(each.amounts.values()), each.key))
    single = next((each for each in there if not _positive_difference(excess, each.amounts)), None)
    if single is not None:
        return _Release(
            parts=(PlaceholderRequest(amounts=_positive_difference(single.amounts, excess), replaces=(single.uid,)),)
        )
    chosen: list[Placeholder] = []
    for each in reversed(there):
        lacking = _positive_difference(excess, amounts.total(one.amounts for one in chosen))
        if any(name in each.amounts for name in lacking):
            chosen.append(each)
    together = amounts.total(each.amounts for each in chosen)
    if _positive_difference(excess, together):
        return _Release()  # not all of it is on the node
    replaces = tuple(sorted(each.uid for each in chosen))
    parts = (excess, _positive_difference(together, excess))
    return _Release(parts=tuple(PlaceholderRequest(amounts=each, replaces=replaces) for each in parts if each))


def _owners_to_mark(there: ReservationState) -> Iterable[HandoverStep]:
    for each in there.guests:
        nominate = not each.bound and each.nominated != there.node
        label = not there.once and not each.labelled
        if nominate or label or not each.marked:
            yield SetReservationAllocated(key=each.key, uid=each.uid, nominate=nominate, label=label)


def _placeholders_to_nominate(there: ReservationState, own: Iterable[Placeholder]) -> Iterable[Placeholder]:
    """Yield those that wait for what is theirs already, or is about to be."""
    leaving = {each.uid for each in there.guests if each.leaving}
    heirs = (each for each in there.keepers if _is_active(each, there) and each.standby_for in leaving)
    return (each for each in (*own, *heirs) if not each.node and each.nominated != there.node)


def _missing_standbys(there: ReservationState) -> Iterable[HandoverStep]:
    if there.once:
        return
    inherits = {each.standby_for for each in there.keepers if _is_active(each, there)}
    for each in there.guests:
        if (
            each.bound
            and each.labelled
            and each.uid not in inherits
            and (keeps := _reserved_part(each.amounts, there.held))
        ):
            yield PlaceholderRequest(amounts=keeps, standby_for=(each.uid, each.key[0]))


def _reserved_part(taken: NanoAmounts, held: NanoAmounts) -> dict[str, int]:
    """Return what an owner takes of what is held; of what it takes beyond that nothing comes back."""
    return {name: min(amount, held[name]) for name, amount in without_pods(taken).items() if held.get(name)}


def _positive_difference(one: NanoAmounts, other: NanoAmounts) -> dict[str, int]:
    """Return what is left of amounts, where something is."""
    return {name: amount - other.get(name, 0) for name, amount in one.items() if amount > other.get(name, 0)}
