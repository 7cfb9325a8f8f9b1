"""Whether a node can take a pod: in one of the reservations that the pod may use, or beside them.

Exactly one reservation serves a pod. Policies Default and Aligned let it have what remains of the reservation and the
rest of the node; Restricted gives of its resources only what is held. A pod that requires a reservation (affinity)
must fit into one; another may also run beside them all, of what is free.
"""

from collections.abc import Iterable

from dra.api.reservations.model import AllocatePolicy
from dra.engine.reservations import eligibility, ports
from dra.engine.reservations.amounts import Amounts
from dra.engine.reservations.claimants import Claimant
from dra.engine.reservations.ports import Ports
from dra.engine.reservations.refusals import Refusal, Why
from dra.engine.reservations.rooms import Held, Room
from dra.model.meta import Struct, Uid


class Verdict(Struct, frozen=True):
    """What a node says to a pod."""

    node: str
    inside: tuple[Uid, ...] = ()
    """The reservations that have room for it."""
    beside: bool = False
    """Whether it can run here without any."""
    refusals: tuple[Refusal, ...] = ()
    """Why not, if it cannot run here."""

    @property
    def fits(self) -> bool:
        """Whether it can run here."""
        return self.beside or bool(self.inside)


def check(room: Room, pod: Claimant, eligible: Iterable[Uid] | None = None) -> Verdict:
    """Return what a node says to a pod; `eligible` are the reservations that it may use, if that is known already."""
    if not room.known:
        return Verdict(node=room.name, refusals=(Refusal(why=Why.NO_SUCH_NODE),))
    if pod.ignores:
        lacking = _ignoring(room, pod.amounts)
        return Verdict(node=room.name, beside=not lacking, refusals=lacking)
    candidates = candidates_of(room, pod) if eligible is None else tuple(eligible)
    inside: list[Uid] = []
    refusals: list[Refusal] = []
    for uid in candidates:
        if lacking := into(room, room.held[uid], pod):
            refusals.extend(lacking)
        else:
            inside.append(uid)
    if pod.affinity is not None:
        if not inside:
            refusals = refusals or [Refusal(why=Why.NO_MATCH)]
        return Verdict(node=room.name, inside=tuple(inside), refusals=() if inside else _once(refusals))
    short = (*beside(room, pod.amounts), *port_held(room, pod.ports))
    fits = not short or inside
    return Verdict(
        node=room.name, inside=tuple(inside), beside=not short, refusals=() if fits else _once([*short, *refusals])
    )


def candidates_of(room: Room, pod: Claimant) -> tuple[Uid, ...]:
    """Return the reservations of a node that a pod may use."""
    return tuple(
        uid
        for uid, held in room.held.items()
        if eligibility.judge(held.holding, pod, node_labels=room.labels, consumers=held.entered) is None
    )


def beside(room: Room, wanted: Amounts) -> tuple[Refusal, ...]:
    """Return what the node lacks for somebody who gets nothing of what is held."""
    capacity, charged = room.capacity, room.charged
    return tuple(
        Refusal(
            why=Why.NODE_SHORT,
            subject=name,
            requested=amount,
            used=charged.get(name, 0),
            capacity=capacity.get(name, 0),
        )
        for name, amount in wanted.items()
        if amount > 0 and amount > capacity.get(name, 0) - charged.get(name, 0)
    )


def port_held(room: Room, wanted: Ports, *, but: Uid | None = None) -> tuple[Refusal, ...]:
    """Return what a node lacks where reservations hold one of these host ports; one of them may be left out."""
    if wanted and any(ports.clash(wanted, held.holding.ports) for uid, held in room.held.items() if uid != but):
        return (Refusal(why=Why.HOST_PORT),)
    return ()


def into(room: Room, held: Held, pod: Claimant) -> tuple[Refusal, ...]:
    """Return what is lacking for a pod that enters a reservation; who may is not asked here."""
    found = [
        Refusal(
            why=Why.NODE_SHORT,
            subject=name,
            requested=amount,
            used=room.capacity.get(name, 0) - room.with_one(held, name, to=pod.uid),
            capacity=room.capacity.get(name, 0),
        )
        for name, amount in pod.amounts.items()
        if amount > 0 and amount > room.with_one(held, name, to=pod.uid)
    ]
    holding = held.holding
    found += port_held(room, pod.ports, but=holding.uid)
    if holding.policy is not AllocatePolicy.RESTRICTED:
        return tuple(found)
    named = pod.affinity is not None and pod.affinity.name == holding.name
    for name, amount in pod.amounts.items():
        if amount > 0 and name in holding.restricted and amount > held.remainder(name, to=pod.uid):
            found.append(
                Refusal(
                    why=Why.SHORT,
                    subject=name,
                    requested=amount,
                    used=held.taken(name, to=pod.uid),
                    capacity=max(0, holding.amounts.get(name, 0) - holding.inner.get(name, 0)),
                    named=named,
                )
            )
    return tuple(found)


def _ignoring(room: Room, wanted: Amounts) -> tuple[Refusal, ...]:
    return tuple(
        Refusal(
            why=Why.NODE_SHORT,
            subject=name,
            requested=amount,
            used=room.capacity.get(name, 0) - room.unused(name),
            capacity=room.capacity.get(name, 0),
        )
        for name, amount in wanted.items()
        if amount > 0 and amount > room.unused(name)
    )


def _once(refusals: Iterable[Refusal]) -> tuple[Refusal, ...]:
    """Say each thing once, with the numbers of where least is lacking."""
    found: dict[str, Refusal] = {}
    for each in refusals:
        known = found.get(each.text)
        if known is None or each.used < known.used:
            found[each.text] = each
    return tuple(found.values())
