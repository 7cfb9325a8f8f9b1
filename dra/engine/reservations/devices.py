"""Claims that Reservations hold: whose they are, and for whom they are kept.

A claim that was made for a reservation's placeholder has the reservation as a second owner, not as its controller: so
the garbage collector leaves it alone when the placeholder goes, and each pod that gets it after that, and takes it away
with the reservation. A claim that the template names is somebody's own: it is held by its list alone.

What is not known of a reservation is never taken for its end: only a reservation that was seen to be over, or is
certainly gone, holds nothing any more.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from dra.api.reservations.model import API_VERSION, KIND, Phase, Reservation
from dra.engine.reservations import holdings, placeholders
from dra.engine.reservations.holdings import Holding
from dra.engine.reservations.phases import TERMINAL
from dra.model import references
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, OwnerReference, Struct, Uid
from dra.model.references import ConsumerReference

REMEMBERED_GONE: Final = 10_000
"""Uids of deleted reservations that are remembered; an answer to a request of ours comes within seconds."""

_NONE: Final[frozenset[Key]] = frozenset()


class Standing(StrEnum):
    """What is known of a reservation."""

    UNKNOWN = "unknown"  # not seen, or not readable: it may be there
    PENDING = "pending"  # has no place yet
    AVAILABLE = "available"
    OVER = "over"  # ended, or certainly gone


class Hold(Struct, frozen=True):
    """A reservation in its relation to one claim."""

    reference: ConsumerReference
    """Its entry of the list."""

    standing: Standing = Standing.UNKNOWN
    owns: bool = False
    """Whether the claim was made for it: then it is an owner of the claim."""


def entry(name: str, uid: Uid) -> ConsumerReference:
    """Return the entry of a reservation."""
    kind = references.RESERVATIONS
    return ConsumerReference(api_group=kind.group, resource=kind.resource, name=name, uid=uid)


def owner(name: str, uid: Uid) -> OwnerReference:
    """Return the reservation as an owner of a claim, never its controller."""
    return OwnerReference(api_version=API_VERSION, kind=KIND, name=name, uid=uid)


def holders(claim: ResourceClaim) -> tuple[OwnerReference, ...]:
    """Return the reservations that a claim was made for; there is one, as a rule."""
    return tuple(
        each
        for each in claim.metadata.owner_references or ()
        if (each.api_version, each.kind) == (API_VERSION, KIND) and not each.controller
    )


def asked_for(reservation: Reservation) -> tuple[Mapping[str, Any], ...]:
    """Return the entries of ``resourceClaims`` in a reservation's template."""
    spec = reservation.spec.template.get("spec")
    entries = spec.get("resourceClaims") if isinstance(spec, Mapping) else None
    return tuple(each for each in entries or () if isinstance(each, Mapping)) if isinstance(entries, list) else ()


def named(reservation: Reservation) -> frozenset[Key]:
    """Return the claims that a reservation's template names."""
    namespace, _ = placeholders.key(reservation)
    names = (each.get("resourceClaimName") for each in asked_for(reservation))
    return frozenset((namespace, name) for name in names if isinstance(name, str) and name)


class _Known(Struct, frozen=True):
    holding: Holding
    standing: Standing
    namespace: str
    """Of its template, and so of the claims that are made for it."""

    named: frozenset[Key]


class Holders:
    """Reservations as last observed, and the claims that each of them holds or may hold."""

    def __init__(self) -> None:
        self.following = False
        """Whether somebody tells of reservations; else their entries are somebody else's business."""

        self._known: dict[Uid, _Known] = {}
        self._gone: dict[Uid, None] = {}
        self._naming: dict[Key, set[Uid]] = {}
        self._claims: dict[Uid, set[Key]] = {}
        """Claims that have a reservation as an owner, or in their list."""

    def observe(self, uid: Uid, reservation: Reservation) -> frozenset[Key]:
        """Take in a reservation; return the claims that it concerns."""
        status = reservation.status
        standing = Standing.AVAILABLE if status.phase is Phase.AVAILABLE and status.node_name else Standing.PENDING
        standing = Standing.OVER if status.phase in TERMINAL else standing
        namespace, _ = placeholders.key(reservation)
        known = _Known(
            holding=holdings.of(reservation), standing=standing, namespace=namespace, named=named(reservation)
        )
        if uid in self._gone or self._known.get(uid) == known:
            return _NONE
        concerned = self._forget(uid)
        self._known[uid] = known
        for key in known.named:
            self._naming.setdefault(key, set()).add(uid)
        return concerned | known.named

    def unreadable(self, uid: Uid) -> frozenset[Key]:
        """The reservation is there, and nothing is known of it any more."""
        return self._forget(uid)

    def forget(self, uid: Uid) -> frozenset[Key]:
        """The reservation is certainly gone; return the claims that this concerns."""
        self._gone[uid] = None
        if len(self._gone) > REMEMBERED_GONE:
            del self._gone[next(iter(self._gone))]
        return self._forget(uid)

    def observe_claim(self, claim: ResourceClaim, before: ResourceClaim | None) -> None:
        """Take in a claim."""
        key, uids = claim.metadata.key, _concerned(claim)
        for uid in _concerned(before) - uids:
            self._drop(uid, key)
        for uid in uids:
            self._claims.setdefault(uid, set()).add(key)

    def forget_claim(self, claim: ResourceClaim) -> None:
        """The claim is gone."""
        for uid in _concerned(claim):
            self._drop(uid, claim.metadata.key)

    def standing(self, uid: Uid) -> Standing:
        """Return what is known of a reservation."""
        if uid in self._gone:
            return Standing.OVER
        known = self._known.get(uid)
        return Standing.UNKNOWN if known is None else known.standing

    def holding(self, uid: Uid) -> Holding | None:
        """Return a reservation that is known."""
        known = self._known.get(uid)
        return None if known is None else known.holding

    def available(self) -> Iterator[Holding]:
        """Yield the reservations that hold something on a node."""
        return (each.holding for each in self._known.values() if each.standing is Standing.AVAILABLE)

    def holds(self, claim: ResourceClaim) -> tuple[Hold, ...]:
        """Return the reservations that hold a claim, or did."""
        if not self.following:
            return ()
        found: dict[Uid, Hold] = {}
        for each in self.made_for(claim):
            found[each.uid] = Hold(reference=entry(each.name, each.uid), standing=self.standing(each.uid), owns=True)
        for uid in sorted(self._naming.get(claim.metadata.key, ())):
            known = self._known[uid]
            found.setdefault(uid, Hold(reference=entry(known.holding.name, uid), standing=known.standing))
        for listed in claim.entries:
            if listed.is_reservation:
                found.setdefault(listed.uid, Hold(reference=listed, standing=self.standing(listed.uid)))
        return tuple(found.values())

    def made_for(self, claim: ResourceClaim) -> Iterator[OwnerReference]:
        """Yield the reservations that a claim was made for: one of another namespace is not among them."""
        for each in holders(claim):
            known = self._known.get(each.uid)
            if known is None or known.namespace == claim.metadata.namespace:
                yield each

    def _forget(self, uid: Uid) -> frozenset[Key]:
        known = self._known.pop(uid, None)
        for key in known.named if known is not None else ():
            self._naming[key].discard(uid)
            if not self._naming[key]:
                del self._naming[key]
        return frozenset(self._claims.get(uid, ())) | (known.named if known is not None else _NONE)

    def _drop(self, uid: Uid, key: Key) -> None:
        keys = self._claims.get(uid)
        if keys is not None:
            keys.discard(key)
            if not keys:
                del self._claims[uid]


def _concerned(claim: ResourceClaim | None) -> set[Uid]:
    if claim is None:
        return set()
    return {each.uid for each in holders(claim)} | {each.uid for each in claim.entries if each.is_reservation}
