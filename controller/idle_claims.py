"""Reports claims that hold devices for hours without use (``idleClaimHours``), and deallocates none.

`dra.engine.device_usage.idle_claims` decides.
"""

from controller.claim_events import ClaimEvents
from controller.device_usage import DeviceUsage
from controller.informers import ControllerInformers
from controller.metrics import ControllerMetrics
from controller.reconciler import Reconciler, Settings
from controller.runtime import Runtime
from dra.engine.device_usage.idle_claims import IdleClaims, count_overdue, decide
from dra.engine.instants import Instant, Moment


class IdleClaimEvents(Reconciler[str]):
    """The loop that checks all claims each minute, and reports the claims that were idle for long."""

    settings = Settings(name="idle claims", workers=1, retry=(10.0, 60.0))
    cache: IdleClaims
    _runtime: Runtime[ControllerMetrics]

    def __init__(
        self,
        runtime: Runtime[ControllerMetrics],
        informers: ControllerInformers,
        *,
        usage: DeviceUsage,
        events: ClaimEvents,
        hours: int,
    ) -> None:
        super().__init__(runtime, informers, IdleClaims())
        self._usage, self._events, self._hours = usage, events, hours

    async def reconcile(self, key: str, now: Moment) -> Instant:  # noqa: ARG002 - there is one key
        """Report the claims that are due, and count the claims that are idle for long."""
        idle = self.cache.look(self._usage.records(), self._usage.activity(now), now=now.instant)
        plan = decide(idle, hours=self._hours, now=now.instant)
        for reason in plan.reasons:
            self._events.record(reason)
        self.cache.record_reported(plan.actions, now=now.instant)
        self._runtime.metrics.idle_claims.set(count_overdue(idle, hours=self._hours, now=now.instant))
        return plan.wake_at
