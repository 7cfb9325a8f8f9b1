"""Reports allocated devices in the status of their claims: ``status.devices[]``, for people and other programs.

A driver that chooses among several resources of a device, such as the CPUs of a node, tells its choice to nobody but
the container. The report shows the choice with the claim (``data``). A claim that the driver keeps refusing, although
another node may prepare it, gets the condition ``Ready`` with the status False; the controller may then evict the pod.

A report is written once for each claim and again when it changes; the API server removes it when the claim is
deallocated. No claim waits for its report: where the plugin may not write the status (deploy/claim-status has the
rights), there is none.
"""

import asyncio
import logging
from typing import Any, Final, NoReturn, Protocol

from dra.engine.prepare_refusals.reasons import READY
from dra.kube.backoff import Backoff
from dra.kube.client import Client
from dra.kube.clock import rfc3339
from dra.kube.errors import ApiError, Conflict, Forbidden, Invalid, NotFound
from dra.kube.resources import CLAIMS
from dra.model.meta import PartialObjectMetadata, Struct, Uid
from kubeletplugin.contract import ClaimIdentity, DeviceStatusReportable, PreparedClaim
from kubeletplugin.refused_claims import RefusedClaim
from kubeletplugin.ticks import until_tick

CHECK_INTERVAL: Final = 1.0
"""Seconds between two comparisons of the prepared claims with what was reported."""

_log: Final = logging.getLogger(__name__)


class ClaimOutcomes(Protocol):
    """The source of prepared and refused claims; `kubeletplugin.claim_preparer.ClaimPreparer` implements it."""

    @property
    def prepared_claims(self) -> tuple[PreparedClaim, ...]:
        """The prepared claims in memory."""
        ...

    @property
    def refused_claims(self) -> tuple[RefusedClaim, ...]:
        """The claims that the driver keeps refusing."""
        ...


class DeviceStatusReporter:
    """Keeps the device statuses of prepared claims up to date; `run` ends only by cancellation."""

    def __init__(
        self,
        client: Client,
        driver: DeviceStatusReportable,
        *,
        preparer: ClaimOutcomes,
        manager: str,
    ) -> None:
        """Create a reporter of a driver's claims; `manager` owns the fields that the reporter writes."""
        self._client = client
        self._driver = driver
        self._manager = manager
        self._preparer = preparer
        self._reported: dict[Uid, _Report] = {}
        self._forbidden = False

    async def run(self) -> NoReturn:
        """Report each prepared claim until cancelled."""
        backoff = Backoff(base=1.0, cap=300.0)
        while True:
            pause = until_tick(CHECK_INTERVAL)
            try:
                await self._report()
            except ApiError as error:
                pause = backoff.next()
                if not (isinstance(error, Forbidden) and self._forbidden):
                    _log.info("claims: devices are not reported (rights: component claim-status): %s", error)
                self._forbidden = isinstance(error, Forbidden)
            else:
                backoff.reset()
            await asyncio.sleep(pause)

    async def _report(self) -> None:
        wanted = self._reports()
        for uid in self._reported.keys() - wanted.keys():
            if self._reported[uid].is_refusal:  # the claim may stay allocated without anybody who asks for it
                wanted[uid] = _Report(claim=self._reported[uid].claim, statuses=[])
            else:
                del self._reported[uid]
        for uid, report in wanted.items():
            known = self._reported.get(uid)
            if report.statuses == (known.statuses if known is not None else []):
                continue
            try:
                await self._client.apply(
                    CLAIMS,
                    report.claim.key,
                    {"status": {"devices": report.statuses}},
                    model=PartialObjectMetadata,
                    manager=self._manager,
                    subresource="status",
                    uid=uid,
                )
            except (NotFound, Conflict, Invalid) as error:  # deleted, or deallocated: the kubelet unprepares it soon
                _log.info("%s: its devices are not reported: %s", report.claim, error)
            self._reported[uid] = report

    def _reports(self) -> dict[Uid, "_Report"]:
        """Return what is to be reported about each claim; of a claim that is prepared, no refusal."""
        refused = {
            refusal.claim.uid: _Report(claim=refusal.claim, statuses=_refusal_statuses(refusal), is_refusal=True)
            for refusal in self._preparer.refused_claims
        }
        prepared = {
            preparation.claim.uid: _Report(
                claim=preparation.claim,
                statuses=[
                    _with_identity(preparation, number, data)
                    for number, data in self._driver.device_data(preparation).items()
                ],
            )
            for preparation in self._preparer.prepared_claims
        }
        return refused | prepared


class _Report(Struct, frozen=True):
    """The statuses of a claim's devices, as the plugin writes them."""

    claim: ClaimIdentity
    statuses: list[dict[str, Any]]
    is_refusal: bool = False


def _with_identity(prepared: PreparedClaim, number: int, data: dict[str, Any]) -> dict[str, Any]:
    device = prepared.devices[number]
    status = {"driver": prepared.driver, "pool": device.pool, "device": device.device, "data": data}
    return status | ({"shareID": device.share} if device.share else {})


def _refusal_statuses(refused: RefusedClaim) -> list[dict[str, Any]]:
    condition = {
        "type": READY,
        "status": "False",
        "reason": refused.reason.value,
        "message": refused.text,
        "lastTransitionTime": rfc3339(refused.since),
    }
    return [
        {"driver": device.driver, "pool": device.pool, "device": device.device, "conditions": [condition]}
        | ({"shareID": device.share} if device.share else {})
        for device in refused.devices
    ]
