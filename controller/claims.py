"""The loop of claims: brings each claim to what the engine decides.

A plan is carried out as a chain of writes of the claim, and then, at the same time, requests about its pods. Its
reasons are published once the status is written, since a reason may report the effect of that write; a later write may
fail, and no later decision has a reason for the effect.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final

import msgspec

from controller.claim_events import ClaimEvents
from controller.claim_lookups import ClaimLookups
from controller.claim_pod_writer import ClaimPodWriter
from controller.claim_writer import ClaimWriter
from controller.informers import ControllerInformers
from controller.metrics import ControllerMetrics
from controller.parallel_requests import DeferredRequest, PartialFailureError, raise_failures, run_in_parallel
from controller.reconciler import AGAIN, OUTAGES, Reconciler, Settings
from controller.runtime import Runtime
from dra.engine.claims import scheduling_gates
from dra.engine.claims.actions import (
    ClaimPlan,
    DeleteClaim,
    Lookup,
    PatchMetadata,
    ResyncPod,
    Ungate,
)
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.deallocation_check import BoundMeanwhileError
from dra.engine.claims.decide import decide
from dra.engine.claims.policy import Policy
from dra.engine.claims.view import ClaimView
from dra.engine.instants import Instant, Moment
from dra.kube.errors import ApiError, Conflict
from dra.model.meta import Key

RETRY: Final = (0.2, 30.0)
"""Seconds, minimum and maximum, before a claim whose plan failed is decided again."""

RETRY_AFTER_OUTAGE: Final = (0.2, 10.0)
"""Seconds, minimum and maximum, after a failure of the server: once it is back, devices and pods should not wait
long."""

RETRY_AFTER: Final[dict[type[Exception], tuple[float, float]]] = {
    # Another client has written the claim, and the writer has read it again. Mostly kube-scheduler, which goes on
    # until each of its pods is listed: one write of the controller ends that for many of them.
    Conflict: (0.05, 0.4),
    BoundMeanwhileError: (5.0, 30.0),  # a binding cycle is in progress
    PartialFailureError: (RETRY[0], RETRY[0]),
    **dict.fromkeys(OUTAGES, RETRY_AFTER_OUTAGE),
}
"""Seconds, minimum and maximum, after failures whose cause is known."""

WORKERS: Final = 256
"""Claims reconciled at the same time. Most only wait for the rate limiter, which serves what tidies up last: a claim
that a pod waits for must find a free worker beside hundreds of these."""


class Claims(Reconciler[Key]):
    """The loop that reconciles claims."""

    settings = Settings(
        name="claim",
        workers=WORKERS,
        retry=RETRY,
        retry_after=RETRY_AFTER,
        rounds=4,  # a write makes the next decision possible: listed, then ungated
        # The stock claim controller writes a claim with finished pods twenty times a second: a retry with a delay would
        # always be too late.
        conflicts=4,
        short_log_ids=True,
    )
    cache: ClaimCache
    _runtime: Runtime[ControllerMetrics]

    def __init__(
        self,
        runtime: Runtime[ControllerMetrics],
        informers: ControllerInformers,
        *,
        cache: ClaimCache,
        lookups: ClaimLookups,
        policy: Policy,
    ) -> None:
        super().__init__(runtime, informers, cache, needs=(informers.nodes, informers.claims, informers.pods))
        self._informers = informers
        self._lookups = lookups
        self._policy = policy
        self._writer = ClaimWriter(runtime, cache=cache)
        self._pods = ClaimPodWriter(runtime, cache=cache)
        self._events = ClaimEvents(runtime.recorder, runtime.metrics)
        self._contended: set[Key] = set()
        """Claims that other clients have written during the present reconciliation."""

    async def begin(self) -> None:
        """Take over: waiting pods may have been listed by another leader."""
        self.cache.mark_synced(now=self._runtime.instant())

    async def reconcile(self, key: Key, now: Moment) -> Instant:
        """Carry out the plan for one claim; return when it is due again. Raises ApiError and what has a retry time."""
        self._runtime.metrics.queue.set(len(self._queue))
        view, plan = self._decide(key, now.instant)
        await self.carry_out(plan, view, key=key)
        return AGAIN if plan.claim_writes else plan.wake_at

    async def refresh(self, key: Key) -> None:
        """Have the next decision know of the conflict; the writer has read the claim again."""
        self._contended.add(key)

    def reconciled(self, key: Key) -> None:
        """Have evictions decided, whether the claim could be written or not."""
        self._contended.discard(key)
        if self.cache.evictions.mark_reconciled(key):
            self._informers.notify()

    def _decide(self, key: Key, now: Instant) -> tuple[ClaimView | None, ClaimPlan]:
        began = self._runtime.instant()
        view = self.cache.view(key, now=now)
        if view is not None:
            until = self._runtime.leadership.previous_writes_until()
            view = msgspec.structs.replace(view, previous_writes_until=until, contended=key in self._contended)
            plan = decide(view, policy=self._policy, now=now)
        else:
            plan = scheduling_gates.ungate_without_claim(self.cache.gated_without_claim(key), now=now)
        cost = self._runtime.instant() - began
        self._runtime.metrics.decision.observe(cost)
        self._queue.set_cost(key, cost)
        return view, plan

    async def carry_out(self, plan: ClaimPlan, view: ClaimView | None, *, key: Key) -> None:
        """Carry out a plan made for the view; raise ApiError, BoundMeanwhileError or PartialFailureError."""
        if view is not None:
            await self._write_claim(plan, view)
        self._lookups.request((action for action in plan.actions if isinstance(action, Lookup)), claim=key)
        raise_failures(await run_in_parallel(list(self._requests(plan))))
        if not plan.writes_status:
            self._publish(key, plan)

    async def _write_claim(self, plan: ClaimPlan, view: ClaimView) -> None:
        claim = view.claim
        try:
            for write in plan.claim_writes:
                claim = await self._writer.write(write, view, claim)
                if not isinstance(write, PatchMetadata):
                    self._publish(view.key, plan)
        except ApiError:
            # Pods that were listed before a later write of the chain failed: the next plan will not resync them.
            resyncs = plan.resyncs_of(self.cache.claim(view.key))
            raise_failures(await run_in_parallel([partial(self._pods.resync, action) for action in resyncs]))
            raise

    def _requests(self, plan: ClaimPlan) -> Iterator[DeferredRequest]:
        """Yield the requests that follow the writes of the claim."""
        for action in plan.actions:
            match action:
                case Ungate():
                    yield partial(self._pods.ungate, action)
                case ResyncPod():
                    yield partial(self._pods.resync, action)
                case DeleteClaim():
                    yield partial(self._writer.delete, action)
                case _:
                    pass

    def _publish(self, key: Key, plan: ClaimPlan) -> None:
        self._events.publish(key, plan.reasons, now=self._runtime.instant())
