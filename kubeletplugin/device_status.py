"""Reports allocated devices in the status of their claims: ``status.devices[].data``, for people and other programs.

A driver that chooses among several resources of a device, such as the CPUs of a node, tells its choice to nobody but
the container. The report shows the choice with the claim. It is written once for each prepared claim and again when it
changes; the API server removes it when the claim is deallocated. Neither a decision nor a claim waits for the report:
where the plugin may not write the status (deploy/node-topology has the rights), there is none.
"""

import asyncio
import logging
from typing import Any, Final, NoReturn, Protocol

from dra.kube.backoff import Backoff
from dra.kube.client import Client
from dra.kube.errors import ApiError, Conflict, Forbidden, Invalid, NotFound
from dra.kube.resources import CLAIMS
from dra.model.meta import PartialObjectMetadata, Uid
from kubeletplugin.contract import DeviceStatusReportable, PreparedClaim

CHECK_INTERVAL: Final = 1.0
"""Seconds between two comparisons of the prepared claims with what was reported."""

_log: Final = logging.getLogger(__name__)


class PreparedClaimSource(Protocol):
    """The source of the prepared claims; `kubeletplugin.claim_preparer.ClaimPreparer` implements it."""

    @property
    def prepared_claims(self) -> tuple[PreparedClaim, ...]:
        """The prepared claims in memory."""
        ...


class DeviceStatusReporter:
    """Keeps the device statuses of prepared claims up to date; `run` ends only by cancellation."""

    def __init__(
        self,
        client: Client,
        driver: DeviceStatusReportable,
        *,
        preparer: PreparedClaimSource,
        manager: str,
    ) -> None:
        """Create a reporter of a driver's claims; `manager` owns the fields that the reporter writes."""
        self._client = client
        self._driver = driver
        self._manager = manager
        self._preparer = preparer
        self._reported: dict[Uid, list[dict[str, Any]]] = {}
        self._forbidden = False

    async def run(self) -> NoReturn:
        """Report each prepared claim until cancelled."""
        backoff = Backoff(base=1.0, cap=300.0)
        while True:
            pause = CHECK_INTERVAL
            try:
                await self._report()
            except ApiError as error:
                pause = backoff.next()
                if not (isinstance(error, Forbidden) and self._forbidden):
                    _log.info("claims: devices are not reported (rights: deploy/node-topology): %s", error)
                self._forbidden = isinstance(error, Forbidden)
            else:
                backoff.reset()
            await asyncio.sleep(pause)

    async def _report(self) -> None:
        prepared = {each.claim.uid: each for each in self._preparer.prepared_claims}
        self._reported = {uid: statuses for uid, statuses in self._reported.items() if uid in prepared}
        for uid, each in prepared.items():
            statuses = [_with_identity(each, number, data) for number, data in self._driver.device_data(each).items()]
            if statuses == self._reported.get(uid, []):
                continue
            try:
                await self._client.apply(
                    CLAIMS,
                    each.claim.key,
                    {"status": {"devices": statuses}},
                    model=PartialObjectMetadata,
                    manager=self._manager,
                    subresource="status",
                    uid=uid,
                )
            except (NotFound, Conflict, Invalid) as error:  # deleted, or deallocated: the kubelet unprepares it soon
                _log.info("%s: its devices are not reported: %s", each.claim, error)
            self._reported[uid] = statuses


def _with_identity(prepared: PreparedClaim, number: int, data: dict[str, Any]) -> dict[str, Any]:
    device = prepared.devices[number]
    found = {"driver": prepared.driver, "pool": device.pool, "device": device.device, "data": data}
    return found | ({"shareID": device.share} if device.share else {})
