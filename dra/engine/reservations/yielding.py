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

import msgspec

from dra.engine.fit import tolerates
from dra.engine.reservations import amounts, eligibility, marks
from dra.engine.reservations.amounts import Amounts
from dra.engine.reservations.claimants import Claimant, allocated
from dra.engine.reservations.holdings import Holding
from dra.engine.reservations.keepers import Keeper, without_pods
from dra.model.meta import Key, Struct, Uid
from dra.model.nodes import Node, Taint, matches
from dra.model.placement import PlacedPod
from dra.model.pods import SCHEDULED

_CORDON: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_REPELS: Final = frozenset({"NoSchedule", "NoExecute"})


class Guest(Struct, frozen=True):
    """An owner that the status names, and that is not known to have ended."""

    key: Key
    uid: Uid
    amounts: Amounts
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
    def of(cls, pod: PlacedPod, *, inside: Uid) -> "Guest":
        """Read a pod that a reservation's status names."""
        meta = pod.metadata
        return cls(
            key=meta.key,
            uid=meta.uid,
            amounts=amounts.of_pod(pod),
            bound=bool(pod.spec.node_name),
            nominated=pod.status.nominated_node_name,
            marked=allocated(meta.annotation(marks.ALLOCATED)) == inside,
            labelled=(meta.labels or {}).get(marks.INSIDE) == meta.uid,
            gated=marks.GATE in pod.gates,
            leaving=meta.deleting,
        )


class Standing(Struct, frozen=True):
    """What there is of one reservation that has its node."""

    node: str
    held: Amounts
    once: bool = False
    """Whether it is over with its first owner: nobody inherits then."""
    keepers: tuple[Keeper, ...] = ()
    guests: tuple[Guest, ...] = ()


class Keep(Struct, frozen=True):
    """Make a placeholder."""

    amounts: Amounts
    heir_of: tuple[Uid, str] | None = None
    replaces: tuple[Uid, ...] = ()


class Drop(Struct, frozen=True):
    """Delete a placeholder."""

    key: Key
    uid: Uid


class Nominate(Struct, frozen=True):
    """Have kube-scheduler count a placeholder that waits."""

    key: Key
    uid: Uid


class Welcome(Struct, frozen=True):
    """Mark an owner as inside; one that waits is nominated for the node, and one that is to have an heir labelled."""

    key: Key
    uid: Uid
    nominate: bool
    label: bool


class Open(Struct, frozen=True):
    """Take our gate off an owner."""

    key: Key
    uid: Uid


Move: TypeAlias = Keep | Drop | Nominate | Welcome | Open


class Question(Protocol):
    """What can be asked about a pod and a reservation."""

    def __call__(self, there: Standing, holding: Holding, pod: Claimant, /, *, node: Node) -> bool:
        """Answer it."""


def moves(there: Standing) -> tuple[Move, ...]:
    """Return what is to be done next, in this order; nothing when all is as it should be."""
    useless = [each for each in there.keepers if each.ended or each.node not in {"", there.node}]
    drops = [Drop(key=each.key, uid=each.uid) for each in useless if not each.leaving]
    own, replaced = _own(there), _replaced(there)
    asked, wanted = amounts.total(each.amounts for each in own), target(there)
    missing, excess = _less(wanted, asked), _less(asked, wanted)
    if missing := missing or _unfinished(there, replaced):  # nothing goes before that has come
        return (*drops, Keep(amounts=missing, replaces=tuple(sorted(each.uid for each in replaced))))
    nominated = [Nominate(key=each.key, uid=each.uid) for each in _to_nominate(there, own)]
    turn = _next_replaced(there, replaced)
    if turn.gone:  # a placeholder for another owner pod would take the released capacity: it is created afterwards
        return (*drops, *_finishing(there, turn, nominated, own=own, changed=bool(excess)), *_heirs(there))
    way = _giving_way(own, excess)
    gone = [Drop(key=each.key, uid=each.uid) for each in way.victims]
    if way.parts or (excess and not gone):  # room for the owners is still being put together
        return (*drops, *nominated, *way.parts, *_heirs(there))
    return (
        *drops,
        *_welcomes(there, there.guests),
        *nominated,
        *gone,
        *_opened(there.guests),
        *_heirs(there),
    )


def target(there: Standing) -> dict[str, int]:
    """Return what placeholders are to ask for together: what is held, less what owners take of it."""
    return _less(without_pods(there.held), amounts.total(each.amounts for each in there.guests))


def available(there: Standing) -> dict[str, int]:
    """Return what an owner can be given now: what placeholders have on the node, and are to have."""
    waiting = amounts.total(each.amounts for each in _own(there) if not each.node)
    bound = amounts.total(each.amounts for each in (*_own(there), *_replaced(there)) if each.node)
    return {name: min(amount, bound.get(name, 0)) for name, amount in _less(target(there), waiting).items()}


def short(there: Standing) -> str:
    """Return why the room is not kept, in kube-scheduler's words; empty if it is, or that is not known yet."""
    if _replaced(there):
        return ""
    return next((each.waits for each in _own(there) if each.waits), "")


def admits(there: Standing, holding: Holding, pod: Claimant, *, node: Node) -> bool:
    """Whether a pod may have its room now."""
    if pod.ignores or eligibility.judge(
        holding, pod, node_labels=node.metadata.labels or {}, consumers=len(there.guests)
    ):
        return False
    if there.once and there.guests:
        return False
    free, held = available(there), without_pods(there.held)
    return all(amount <= free.get(name, 0) for name, amount in pod.amounts.items() if name in held)


def waits_for(there: Standing, holding: Holding, pod: Claimant, *, node: Node) -> bool:
    """Whether a pod will have its room when all placeholders have theirs."""
    settled = Standing(
        node=there.node,
        held=there.held,
        once=there.once,
        keepers=(Keeper(key=("", ""), uid=Uid("all"), amounts=target(there), node=there.node),),
        guests=there.guests,
    )
    return admits(settled, holding, pod, node=node)


def applies(pod: PlacedPod) -> bool:
    """Whether a pod waits for room: kube-scheduler found none for it, or our gate is the only one that is left."""
    if pod.spec.node_name or pod.terminal or pod.metadata.deleting:
        return False
    if pod.gates:
        return pod.gates == (marks.GATE,)
    condition = pod.condition(SCHEDULED)
    return condition is not None and condition.status == "False"


def lands(pod: PlacedPod, node: Node) -> bool:
    """Whether a pod could run on a node as far as node and pod say so, whatever else runs there."""
    spec = pod.spec
    taints = [*(node.spec.taints or ()), *([_CORDON] if node.spec.unschedulable else [])]
    if any(t.effect in _REPELS and not any(tolerates(by, t) for by in spec.tolerations or ()) for t in taints):
        return False
    labels = node.metadata.labels or {}
    if any(labels.get(name) != value for name, value in (spec.node_selector or {}).items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return matches(required, name=node.metadata.name, labels=labels)


def urgency(pod: PlacedPod) -> tuple[int, str, str]:
    """Return by what pods are served: priority, then age."""
    return (-pod.spec.priority, str(pod.metadata.creation_timestamp or ""), pod.metadata.uid)


def _own(there: Standing) -> tuple[Keeper, ...]:
    """Return the placeholders that count: neither about to go, nor the heirs of those who are inside."""
    inside = {each.uid for each in there.guests}
    gone = {uid for each in there.keepers if _counts(each, there) for uid in each.replaces}
    return tuple(
        each for each in there.keepers if _counts(each, there) and each.heir_of not in inside and each.uid not in gone
    )


def _replaced(there: Standing) -> tuple[Keeper, ...]:
    gone = set(chain.from_iterable(each.replaces for each in there.keepers if _counts(each, there)))
    return tuple(each for each in there.keepers if _counts(each, there) and each.uid in gone)


class _Turn(Struct, frozen=True):
    """The deletion that comes next of placeholders whose replacements exist."""

    gone: tuple[Keeper, ...] = ()
    parts: tuple[Keeper, ...] = ()
    """The replacements."""
    released: dict[str, int] = msgspec.field(default_factory=dict)
    """The capacity that the deletion releases for owner pods."""


def _next_replaced(there: Standing, replaced: Sequence[Keeper]) -> _Turn:
    """Return the next deletion: the one whose replacements are nominated already comes first.

    One after the other: if an owner pod does not fit after the first of two deletions, kube-scheduler clears its
    nomination, and the second deletion would release capacity for any pod.
    """
    present = {each.uid for each in replaced}
    parts = [each for each in there.keepers if _counts(each, there) and not each.replaces.isdisjoint(present)]
    if not parts:
        return _Turn()
    together = min(parts, key=lambda each: (not each.nominated, each.key)).replaces & present
    for _ in parts:  # replacements that share a replaced placeholder belong together
        linked = (each.replaces for each in parts if each.replaces & together)
        together = together.union(*linked) & present
    gone = tuple(each for each in replaced if each.uid in together)
    mine = tuple(each for each in parts if each.replaces & together)
    released = _less(amounts.total(each.amounts for each in gone), amounts.total(each.amounts for each in mine))
    return _Turn(gone=gone, parts=mine, released=released)


def _finishing(
    there: Standing, turn: _Turn, nominated: Iterable[Move], *, own: Sequence[Keeper], changed: bool
) -> Iterable[Move]:
    """Return the steps of a deletion; `changed`: placeholders request more than they should, owner pods have come.

    If no owner pods need just what the deletion would release, the replacements are planned again.
    """
    gone = [Drop(key=each.key, uid=each.uid) for each in turn.gone]
    if not turn.released:  # placeholders are merged: no owner pod gets anything yet
        return (*nominated, *gone)
    stale = [Drop(key=each.key, uid=each.uid) for each in turn.parts if not each.node]
    bound = (each.amounts for each in there.guests if each.bound)
    taken = amounts.total((*(each.amounts for each in own), *bound))
    served, left = _served(there, _less(without_pods(there.held), taken))
    if stale and (len(gone) > 1 or (changed and left)):
        return stale
    if left:
        served = there.guests
    return (*_welcomes(there, served), *nominated, *gone, *_opened(served))


def _opened(guests: Iterable[Guest]) -> Iterable[Move]:
    return (Open(key=each.key, uid=each.uid) for each in guests if each.gated and not each.bound)


def _served(there: Standing, released: Amounts) -> tuple[tuple[Guest, ...], dict[str, int]]:
    """Return the owner pods that fit together into what is released for them, and what is left of it.

    Only these are nominated: the nomination of another one would keep them out, and be cleared itself.
    """
    bound = [each for each in there.guests if each.bound]
    left = dict(released)
    served = []
    for each in sorted(
        (each for each in there.guests if not each.bound), key=lambda each: each.nominated != there.node
    ):
        need = _part(each.amounts, there.held)
        if not _less(need, left):
            served.append(each)
            left = _less(left, need)
    return (*bound, *served), left


def _unfinished(there: Standing, replaced: Sequence[Keeper]) -> dict[str, int]:
    """Return what is not asked for yet of several placeholders that are being put together."""
    present = {each.uid for each in replaced}
    # A part goes on naming the placeholders that it has replaced: of those that are gone nothing is missing.
    parts = [
        each
        for each in there.keepers
        if _counts(each, there) and len(each.replaces) > 1 and not each.replaces.isdisjoint(present)
    ]
    merged = frozenset[str]().union(*(each.replaces for each in parts))
    return _less(
        amounts.total(each.amounts for each in replaced if each.uid in merged),
        amounts.total(each.amounts for each in parts),
    )


def _counts(keeper: Keeper, there: Standing) -> bool:
    return not keeper.ended and not keeper.leaving and keeper.node in {"", there.node}


class _Way(Struct, frozen=True):
    victims: tuple[Keeper, ...] = ()
    """What is deleted."""
    parts: tuple[Keep, ...] = ()
    """What takes the place of some first."""


def _giving_way(own: Sequence[Keeper], excess: Amounts) -> _Way:
    """Return how placeholders make room.

    It is made by one deletion: each is an event, upon which kube-scheduler looks at the owner and, if it does not fit
    yet, forgets its nomination. So the one that goes is as large as what is too much, or larger, and what is left over
    has another one then. Several are put together first, which nobody can disturb: placeholders keep their nomination.

    One that asked for devices goes in any case: the reservation itself holds these.
    """
    if devices := [each for each in own if each.devices]:
        bare = [each for each in devices if not each.amounts]
        same = (Keep(amounts=each.amounts, replaces=(each.uid,)) for each in devices if each.amounts)
        return _Way(victims=tuple(bare), parts=tuple(same))
    if not excess:
        return _Way()
    exact = [each for each in own if dict(each.amounts) == dict(excess)]
    if exact:  # one that waits will be on the node in a moment
        return _Way(victims=tuple([each for each in exact if each.node][:1]))
    there = sorted((each for each in own if each.node), key=lambda each: (sum(each.amounts.values()), each.key))
    single = next((each for each in there if not _less(excess, each.amounts)), None)
    if single is not None:
        return _Way(parts=(Keep(amounts=_less(single.amounts, excess), replaces=(single.uid,)),))
    chosen: list[Keeper] = []
    for each in reversed(there):
        lacking = _less(excess, amounts.total(one.amounts for one in chosen))
        if any(name in each.amounts for name in lacking):
            chosen.append(each)
    together = amounts.total(each.amounts for each in chosen)
    if _less(excess, together):
        return _Way()  # not all of it is on the node
    replaces = tuple(sorted(each.uid for each in chosen))
    parts = (excess, _less(together, excess))
    return _Way(parts=tuple(Keep(amounts=each, replaces=replaces) for each in parts if each))


def _welcomes(there: Standing, served: Iterable[Guest]) -> Iterable[Move]:
    for each in served:
        nominate = not each.bound and each.nominated != there.node
        label = not there.once and not each.labelled
        if nominate or label or not each.marked:
            yield Welcome(key=each.key, uid=each.uid, nominate=nominate, label=label)


def _to_nominate(there: Standing, own: Iterable[Keeper]) -> Iterable[Keeper]:
    """Yield those that wait for what is theirs already, or is about to be."""
    leaving = {each.uid for each in there.guests if each.leaving}
    heirs = (each for each in there.keepers if _counts(each, there) and each.heir_of in leaving)
    return (each for each in (*own, *heirs) if not each.node and each.nominated != there.node)


def _heirs(there: Standing) -> Iterable[Move]:
    if there.once:
        return
    inherits = {each.heir_of for each in there.keepers if _counts(each, there)}
    for each in there.guests:
        if each.bound and each.labelled and each.uid not in inherits and (keeps := _part(each.amounts, there.held)):
            yield Keep(amounts=keeps, heir_of=(each.uid, each.key[0]))


def _part(taken: Amounts, held: Amounts) -> dict[str, int]:
    """Return what an owner takes of what is held; of what it takes beyond that nothing comes back."""
    return {name: min(amount, held[name]) for name, amount in without_pods(taken).items() if held.get(name)}


def _less(one: Amounts, other: Amounts) -> dict[str, int]:
    """Return what is left of amounts, where something is."""
    return {name: amount - other.get(name, 0) for name, amount in one.items() if amount > other.get(name, 0)}
