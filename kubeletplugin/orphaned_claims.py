"""Detects orphaned claims: claims that hold devices of this node although no pod can use them.

The kubelet unprepares a claim before the API server may delete or deallocate it. So a claim that is gone, or allocated
elsewhere, and still prepared here was forgotten by the kubelet: its ``dra_manager_state`` was lost, or the plugin's
checkpoint was reset to an earlier state. Or the claim's pod was deleted by force, and its containers are ending at this
moment, or do not end at all. The plugin cannot distinguish these cases, so it only warns and the devices stay held; an
administrator can check, and run ``dra-reserve kubelet-plugin release`` (`kubeletplugin.manual_release`).

Claims are checked a minute after the start and every quarter of an hour, each by one GET, as the node authorizer
allows. A single finding may be a claim that is about to be unprepared: only a claim that is found twice is reported.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NoReturn

from dra.kube.client import Client
from dra.kube.errors import ApiError, NotFound
from dra.kube.rate_limiter import RequestPriority
from dra.kube.resources import CLAIMS, InvalidNameError
from dra.model.meta import Uid
from kubeletplugin.claims import MAX_SIZE
from kubeletplugin.contract import PreparedClaim
from kubeletplugin.stored_claims import StoredClaim

FIRST_CHECK_DELAY: Final = 60.0
CHECK_INTERVAL: Final = 900.0
RECHECK_DELAY: Final = 120.0
"""Seconds until the second check of claims that the first check found."""

READ_TIMEOUT: Final = 20.0

_log: Final = logging.getLogger(__name__)


def orphan_reason(stored: StoredClaim | None, preparation: PreparedClaim) -> str:
    """Return the reason why no pod can use a prepared claim; empty if a pod may."""
    if stored is None or stored.metadata.uid != preparation.claim.uid:
        return "was deleted"
    if stored.status.allocation is None:
        return "is no longer allocated"
    has = {(result.driver, result.pool, result.device) for result in stored.status.allocation.devices.results or ()}
    had = {(preparation.driver, device.pool, device.device) for device in preparation.devices}
    return "" if had & has else "now has other devices"


class OrphanedClaimDetector:
    """The detector of one driver's orphaned claims; `run` checks until cancelled."""

    def __init__(
        self, client: Client, held: Callable[[], Iterable[PreparedClaim]], *, within: float = READ_TIMEOUT
    ) -> None:
        self._client = client
        self._held = held
        self._within = within
        self._suspected: frozenset[Uid] = frozenset()
        self._warnings: dict[Uid, str] = {}

    @property
    def warnings(self) -> Mapping[Uid, str]:
        """The warnings about claims that seem to be orphaned, by uid."""
        return self._warnings

    async def run(self) -> NoReturn:
        """Check the prepared claims periodically until cancelled."""
        await asyncio.sleep(FIRST_CHECK_DELAY)
        while True:
            await self.check()
            await asyncio.sleep(RECHECK_DELAY if self._suspected - self._warnings.keys() else CHECK_INTERVAL)

    async def check(self) -> None:
        """Read each prepared claim; a claim that cannot be read keeps its former result."""
        suspected, warnings = set(), {}
        for preparation in tuple(self._held()):
            uid = preparation.claim.uid
            try:
                why = orphan_reason(await self._read(preparation), preparation)
            except (ApiError, InvalidNameError, TimeoutError):
                why = "cannot be read" if uid in self._suspected else ""
                if uid in self._warnings:
                    warnings[uid] = self._warnings[uid]
            else:
                # Only at the second look: the kubelet may be about to unprepare a claim that was deleted a moment ago.
                if why and uid in self._suspected:
                    warnings[uid] = self._warnings.get(uid) or _warning_text(preparation, why)
            if why:
                suspected.add(uid)
        for uid in warnings.keys() - self._warnings.keys():
            _log.warning("%s", warnings[uid])
        self._suspected, self._warnings = frozenset(suspected), warnings

    async def _read(self, preparation: PreparedClaim) -> StoredClaim | None:
        try:
            async with asyncio.timeout(self._within):
                return await self._client.get(
                    CLAIMS,
                    preparation.claim.key,
                    StoredClaim,
                    priority=RequestPriority.REPORT,
                    timeout_seconds=self._within,
                    max_bytes=MAX_SIZE,
                )
        except NotFound:
            return None


def _warning_text(preparation: PreparedClaim, why: str) -> str:
    devices = ", ".join(device.device for device in preparation.devices)
    return (
        f"{preparation.claim}: {why}, but the kubelet has not unprepared it: it still holds {devices} of driver "
        f"{preparation.driver}. If no pod of the claim is on this node: dra-reserve kubelet-plugin release --claim-uid "
        f"{preparation.claim.uid}"
    )
