"""The prepared claims of one driver on this node, and the ledger of their devices.

The last line of defence: whatever kube-scheduler, API server and kubelet decide, no device is given to a second claim.
"""

from collections.abc import Iterable

from dra.engine.devices.ledger import DeviceConflict, DeviceID, Holder, Ledger
from dra.model.meta import Uid
from kubeletplugin.contract import ClaimIdentity, PreparedClaim


class DoubleAllocationError(Exception):
    """Two prepared claims hold the same device."""


class PreparedClaims:
    """The prepared claims of one driver; two claims never hold the same device or share."""

    def __init__(self, preparations: Iterable[PreparedClaim] = ()) -> None:
        self._preparations: dict[Uid, PreparedClaim] = {}
        self._ledger = Ledger()
        for preparation in preparations:
            conflict = self.allocate(preparation.claim, preparation.items)
            if conflict is not None:
                raise DoubleAllocationError(str(conflict))
            self.add(preparation)

    @property
    def all(self) -> tuple[PreparedClaim, ...]:
        """The prepared claims in the order of preparation, oldest first."""
        return tuple(self._preparations.values())

    def get(self, uid: Uid) -> PreparedClaim | None:
        """Return the prepared claim with this uid, or None."""
        return self._preparations.get(uid)

    def allocate(self, claim: ClaimIdentity, items: Iterable[DeviceID]) -> DeviceConflict | None:
        """Allocate all items to a claim, or change nothing and return the conflict."""
        return self._ledger.hold(Holder(kind="claim", key=claim.key, uid=claim.uid), items)

    def add(self, preparation: PreparedClaim) -> None:
        """Add a prepared claim that already holds its items."""
        self._preparations[preparation.claim.uid] = preparation

    def release(self, uid: Uid) -> None:
        """Remove a claim and release its items."""
        self._preparations.pop(uid, None)
        self._ledger.release(uid)
