"""The relation between ResourceClaims and the Reservations that hold them.

A claim that was made for a reservation's placeholder has the reservation as a second owner, not as its controller. So
the garbage collector keeps the claim when the placeholder is deleted, and when each pod that gets it later is deleted,
and deletes it with the reservation. A claim that the template names belongs to the user: only its entry in
``status.reservedFor`` holds it.

Missing knowledge of a reservation never counts as its end: a reservation releases its claims only when it was observed
to be over, or is certainly deleted.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from dra.api.reservations.model import API_VERSION, KIND, Reservation, ReservationPhase
from dra.engine.reservations import placeholders, reservation_info
from dra.engine.reservations.phases import TERMINAL_PHASES
from dra.engine.reservations.reservation_info import ReservationInfo, template_resource_claims
from dra.model import references
from dra.model.claims import ResourceClaim
from dra.model.deleted_uids import DeletedUids
from dra.model.meta import Key, OwnerReference, Struct, Uid
from dra.model.references import ConsumerReference

DELETED_RESERVATIONS_MAX: Final = 10_000
"""Maximum number of deleted reservations whose uids are remembered; a response to our own request comes within seconds.
"""

_NO_CLAIMS: Final[frozenset[Key]] = frozenset()


class HolderState(StrEnum):
    """The state of a reservation as far as it decides about claims."""

    UNKNOWN = "unknown"  # not observed or not readable: it may exist
    PENDING = "pending"  # not placed on a node yet
    AVAILABLE = "available"
    OVER = "over"  # ended, or certainly deleted


class ClaimHolder(Struct, frozen=True):
    """A reservation in its relation to one claim."""

    reference: ConsumerReference
    """The reservation's entry in ``status.reservedFor``."""

    state: HolderState = HolderState.UNKNOWN
    is_owner: bool = False
    """Whether the claim was made for the reservation, which then is an owner of the claim."""


def reserved_for_entry(name: str, uid: Uid) -> ConsumerReference:
    """Return the entry of a reservation for ``status.reservedFor``."""
    kind = references.RESERVATIONS
    return ConsumerReference(api_group=kind.group, resource=kind.resource, name=name, uid=uid)


def reservation_owner_reference(name: str, uid: Uid) -> OwnerReference:
    """Return the reservation as an owner of a claim, never its controller."""
    return OwnerReference(api_version=API_VERSION, kind=KIND, name=name, uid=uid)


def owner_reservations(claim: ResourceClaim) -> tuple[OwnerReference, ...]:
    """Return the reservations that own a claim, those it was made for; usually there is one."""
    return tuple(
        owner
        for owner in claim.metadata.owner_references or ()
        if (owner.api_version, owner.kind) == (API_VERSION, KIND) and not owner.controller
    )


def template_claim_keys(reservation: Reservation) -> frozenset[Key]:
    """Return the claims that a reservation's template names."""
    namespace, _ = placeholders.placeholder_key(reservation)
    names = (entry.get("resourceClaimName") for entry in template_resource_claims(reservation))
    return frozenset((namespace, name) for name in names if isinstance(name, str) and name)


class _KnownReservation(Struct, frozen=True):
    reservation: Reservation
    state: HolderState
    namespace: str
    """Namespace of the template, and so of the claims that are made for the reservation."""

    claim_keys: frozenset[Key]


class ClaimHolders:
    """The cache of reservations, and of the claims that each of them holds or may hold."""

    def __init__(self) -> None:
        self.is_enabled = False
        """Whether reservations are watched; if not, their entries are left to other components."""

        self._known: dict[Uid, _KnownReservation] = {}
        self._infos: dict[Uid, ReservationInfo] = {}
        """Those that were asked for: only pods with claims ask, and reading a template costs more than all else."""

        self._deleted = DeletedUids(DELETED_RESERVATIONS_MAX)
        self._missing: dict[tuple[str, Uid], None] = {}
        """Names and uids that no reservation has, as live reads of these names have shown."""

        self._reservations_by_claim: dict[Key, set[Uid]] = {}
        self._claims: dict[Uid, set[Key]] = {}
        """Claims that have a reservation as an owner, or in ``status.reservedFor``."""

    def observe(self, uid: Uid, reservation: Reservation) -> frozenset[Key]:
        """Add or update a reservation; return the claims that it affects."""
        status = reservation.status
        state = (
            HolderState.AVAILABLE
            if status.phase is ReservationPhase.AVAILABLE and status.node_name
            else HolderState.PENDING
        )
        state = HolderState.OVER if status.phase in TERMINAL_PHASES else state
        namespace, _ = placeholders.placeholder_key(reservation)
        known = _KnownReservation(
            reservation=reservation,
            state=state,
            namespace=namespace,
            claim_keys=template_claim_keys(reservation),
        )
        if self._is_gone(reservation.metadata.name, uid) or self._known.get(uid) == known:
            return _NO_CLAIMS
        affected = self._forget(uid)
        self._known[uid] = known
        for key in known.claim_keys:
            self._reservations_by_claim.setdefault(key, set()).add(uid)
        return affected | known.claim_keys

    def mark_unreadable(self, uid: Uid) -> frozenset[Key]:
        """Drop what is known of a reservation that exists and cannot be read; return the claims that this affects."""
        return self._forget(uid)

    def forget(self, uid: Uid) -> frozenset[Key]:
        """Record that a reservation is certainly deleted; return the claims that this affects."""
        self._deleted.add(uid)
        return self._forget(uid)

    def forget_named(self, name: str, uid: Uid) -> frozenset[Key]:
        """Record that no reservation of that name has that uid; return the claims that this affects.

        That says nothing about the uid under another name: anybody may write an owner reference, with the uid of a
        reservation that holds the claims of others.
        """
        self._missing[name, uid] = None
        if len(self._missing) > DELETED_RESERVATIONS_MAX:
            del self._missing[next(iter(self._missing))]
        known = self._known.get(uid)
        if known is not None and known.reservation.metadata.name == name:  # the watch is behind
            return self._forget(uid)
        return frozenset(self._claims.get(uid, ()))

    def observe_claim(self, claim: ResourceClaim, before: ResourceClaim | None) -> None:
        """Add or update a claim."""
        key, uids = claim.metadata.key, _holder_uids(claim)
        for uid in _holder_uids(before) - uids:
            self._drop(uid, key)
        for uid in uids:
            self._claims.setdefault(uid, set()).add(key)

    def forget_claim(self, claim: ResourceClaim) -> None:
        """Forget a deleted claim and its holders."""
        for uid in _holder_uids(claim):
            self._drop(uid, claim.metadata.key)

    def state(self, name: str, uid: Uid) -> HolderState:
        """Return the state of a reservation, as of whoever refers to it by that name."""
        if self._is_gone(name, uid):
            return HolderState.OVER
        known = self._known.get(uid)
        return HolderState.UNKNOWN if known is None else known.state

    def reservation(self, uid: Uid) -> ReservationInfo | None:
        """Return a reservation by its uid; None if the uid is unknown."""
        known = self._known.get(uid)
        if known is None:
            return None
        if (info := self._infos.get(uid)) is None:
            info = self._infos[uid] = reservation_info.from_reservation(known.reservation)
        return info

    def available(self) -> Iterator[ReservationInfo]:
        """Yield the reservations that hold something on a node."""
        for uid, known in self._known.items():
            if known.state is HolderState.AVAILABLE and (info := self.reservation(uid)) is not None:
                yield info

    def holders_of(self, claim: ResourceClaim) -> tuple[ClaimHolder, ...]:
        """Return the reservations that hold a claim, or held it."""
        if not self.is_enabled:
            return ()
        holders: dict[Uid, ClaimHolder] = {}
        for owner in self.owner_reservations_of(claim):
            holders[owner.uid] = ClaimHolder(
                reference=reserved_for_entry(owner.name, owner.uid),
                state=self.state(owner.name, owner.uid),
                is_owner=True,
            )
        for uid in sorted(self._reservations_by_claim.get(claim.metadata.key, ())):
            known = self._known[uid]
            holders.setdefault(
                uid, ClaimHolder(reference=reserved_for_entry(known.reservation.metadata.name, uid), state=known.state)
            )
        for listed in claim.entries:
            if listed.is_reservation:
                holders.setdefault(listed.uid, ClaimHolder(reference=listed, state=self.state(listed.name, listed.uid)))
        return tuple(holders.values())

    def owner_reservations_of(self, claim: ResourceClaim) -> Iterator[OwnerReference]:
        """Yield the reservations that a claim was made for, except those with another namespace in the template."""
        for owner in owner_reservations(claim):
            known = self._known.get(owner.uid)
            if known is None or known.namespace == claim.metadata.namespace:
                yield owner

    def _is_gone(self, name: str, uid: Uid) -> bool:
        return uid in self._deleted or (name, uid) in self._missing

    def _forget(self, uid: Uid) -> frozenset[Key]:
        self._infos.pop(uid, None)
        known = self._known.pop(uid, None)
        for key in known.claim_keys if known is not None else ():
            self._reservations_by_claim[key].discard(uid)
            if not self._reservations_by_claim[key]:
                del self._reservations_by_claim[key]
        return frozenset(self._claims.get(uid, ())) | (known.claim_keys if known is not None else _NO_CLAIMS)

    def _drop(self, uid: Uid, key: Key) -> None:
        keys = self._claims.get(uid)
        if keys is not None:
            keys.discard(key)
            if not keys:
                del self._claims[uid]


def _holder_uids(claim: ResourceClaim | None) -> set[Uid]:
    if claim is None:
        return set()
    return {owner.uid for owner in owner_reservations(claim)} | {
        entry.uid for entry in claim.entries if entry.is_reservation
    }
