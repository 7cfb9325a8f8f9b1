"""Find claims that hold a device which another claim holds as well.

No component may cause such a conflict, so each one is reported.
"""

from collections.abc import Mapping

from dra.engine.claims.claim_state import ClaimState
from dra.engine.devices import ledger
from dra.engine.devices.ledger import Holder, Ledger
from dra.engine.dirty_keys import DirtyKeys
from dra.model.meta import Key, Uid


class DeviceConflicts:
    """The ledger of devices and its conflicts; ``dirty`` receives the claims whose conflicts have changed."""

    def __init__(self, held: Ledger, *, records: Mapping[Key, ClaimState], dirty: DirtyKeys[Key]) -> None:
        self._ledger = held
        self._records = records
        self._dirty = dirty
        self._conflicting: set[Key] = set()

    def observe_claim(self, record: ClaimState) -> None:
        """Record the devices that a claim holds now."""
        claim = record.claim
        if claim is None:
            return
        uid, allocation = claim.metadata.uid, claim.status.allocation
        wanted = ledger.allocated_devices(allocation) if allocation is not None else frozenset()
        if wanted == self._ledger.items(uid) and not record.conflicts:
            return
        shrunk = bool(self._ledger.items(uid) - wanted)
        self._hold(record, uid, wanted)
        if shrunk:
            self._retry()

    def forget(self, key: Key, uid: Uid) -> None:
        """Release the devices of a deleted claim: another claim may now hold these devices alone."""
        self._ledger.release(uid)
        self._conflicting.discard(key)
        self._retry()

    def _hold(self, record: ClaimState, uid: Uid, wanted: frozenset[ledger.DeviceID]) -> None:
        conflict = self._ledger.hold(Holder(kind="claim", key=record.key, uid=uid), wanted)
        if conflict is not None:
            self._ledger.release(uid)
        conflicts = (conflict,) if conflict is not None else ()
        if conflicts != record.conflicts:
            record.conflicts = conflicts
            self._dirty.add(record.key)
        (self._conflicting.add if conflicts else self._conflicting.discard)(record.key)

    def _retry(self) -> None:
        for key in tuple(self._conflicting):
            record = self._records.get(key)
            if record is not None and record.claim is not None and record.claim.status.allocation is not None:
                wanted = ledger.allocated_devices(record.claim.status.allocation)
                self._hold(record, record.claim.metadata.uid, wanted)
            else:
                self._conflicting.discard(key)
