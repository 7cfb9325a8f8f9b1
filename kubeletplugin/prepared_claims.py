"""Who has what of one driver on this node: the preparations that hold, and the ledger over them.

The last line of defence: whatever scheduler, API server and kubelet believe, no device goes to a second claim.
"""

from collections.abc import Iterable

from dra.engine.devices.ledger import DeviceConflict, DeviceID, Holder, Ledger
from dra.model.meta import Uid
from kubeletplugin.contract import ClaimIdentity, PreparedClaim, PrepareRequest


class DoubleAllocationError(Exception):
    """Two preparations hold one device."""


def requested_items(request: PrepareRequest) -> frozenset[DeviceID]:
    """Return what a claim would hold; adminAccess holds nothing."""
    return frozenset(
        DeviceID(driver=r.driver, pool=r.pool, device=r.device, share=r.share_id or "")
        for r in request.results
        if not r.admin_access
    )


class PreparedClaims:
    """The preparations of one driver; never two claims on one item."""

    def __init__(self, preparations: Iterable[PreparedClaim] = ()) -> None:
        self._preparations: dict[Uid, PreparedClaim] = {}
        self._ledger = Ledger()
        for preparation in preparations:
            conflict = self.hold(preparation.claim, preparation.items)
            if conflict is not None:
                raise DoubleAllocationError(str(conflict))
            self.keep(preparation)

    @property
    def all(self) -> tuple[PreparedClaim, ...]:
        """What holds, oldest first."""
        return tuple(self._preparations.values())

    def get(self, uid: Uid) -> PreparedClaim | None:
        """Return a claim's preparation."""
        return self._preparations.get(uid)

    def hold(self, claim: ClaimIdentity, items: Iterable[DeviceID]) -> DeviceConflict | None:
        """Give all items to a claim, or change nothing and return the conflict."""
        return self._ledger.hold(Holder(kind="claim", key=claim.key, uid=claim.uid), items)

    def keep(self, preparation: PreparedClaim) -> None:
        """Remember what a claim got that holds its items already."""
        self._preparations[preparation.claim.uid] = preparation

    def release(self, uid: Uid) -> None:
        """Forget a claim."""
        self._preparations.pop(uid, None)
        self._ledger.release(uid)
