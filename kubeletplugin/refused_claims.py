"""The claims that a driver keeps refusing to prepare, although another node may prepare them."""

from datetime import datetime
from typing import Final

from msgspec.structs import replace

from dra.engine.devices.ledger import DeviceID
from dra.engine.instants import Instant
from dra.engine.prepare_refusals.reasons import PrepareRefusalReason
from dra.kube.clock import Clock
from dra.kube.errors import truncated
from dra.model.meta import Struct, Uid
from kubeletplugin.contract import ClaimIdentity, PrepareError, PrepareRequest

FORGOTTEN_AFTER: Final = 300.0
"""Seconds without another attempt after which a refusal is forgotten: a kubelet that still has the pod retries sooner.
"""


class RefusedClaim(Struct, frozen=True):
    """A refused claim with its devices."""

    claim: ClaimIdentity
    devices: tuple[DeviceID, ...]
    reason: PrepareRefusalReason
    text: str
    """The text of the first refusal with this reason: later ones differ in the claims that hold CPUs meanwhile."""

    since: datetime
    first: Instant
    last: Instant


class RefusedClaims:
    """A record of the last refusal of each claim, from the first attempt to a success; only in memory."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._refused: dict[Uid, RefusedClaim] = {}

    def record(self, request: PrepareRequest, error: PrepareError) -> None:
        """Record an attempt that failed; an error without a reason would fail on other nodes as well."""
        uid, now, reason = request.claim.uid, self._clock.now(), error.reason
        if reason is None:
            self.forget(uid)
            return
        before, devices = self._refused.get(uid), tuple(sorted(request.items, key=str))
        if before is not None and (before.reason, before.devices) == (reason, devices):
            self._refused[uid] = replace(before, last=now)
            return
        self._refused[uid] = RefusedClaim(
            claim=request.claim,
            devices=devices,
            reason=reason,
            text=truncated(error),
            since=self._clock.wall(),
            first=now,
            last=now,
        )

    def forget(self, uid: Uid) -> None:
        """Forget the refusals of a claim that is prepared, or that no pod of the node uses any more."""
        self._refused.pop(uid, None)

    def lasting(self, seconds: float) -> tuple[RefusedClaim, ...]:
        """Return the claims that have been refused for more than some seconds."""
        now = self._clock.now()
        self._refused = {uid: refusal for uid, refusal in self._refused.items() if now - refusal.last < FORGOTTEN_AFTER}
        return tuple(refusal for refusal in self._refused.values() if now - refusal.first > seconds)
