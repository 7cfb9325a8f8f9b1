"""The claim loop: reconciles each claim with the plan of the engine."""

import itertools
import logging
from functools import partial
from typing import Final

import msgspec

from controller.claim_events import ClaimEvents
from controller.claim_writer import ClaimWriter
from controller.leadership import Leadership
from controller.metrics import ControllerMetrics
from controller.parallel_requests import PartialFailureError
from dra.engine.claims import scheduling_gates
from dra.engine.claims.actions import ClaimPlan
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.deallocation_check import BoundMeanwhileError
from dra.engine.claims.decide import decide
from dra.engine.claims.policy import Policy
from dra.engine.claims.view import ClaimView
from dra.engine.instants import NEVER, Instant
from dra.kube.clock import Clock
from dra.kube.errors import ApiError, Conflict, ServerError, TooManyRequests, Unreachable
from dra.kube.shared_informers import SharedInformers
from dra.kube.store import ServerRestoredError
from dra.kube.workqueue import ItemBackoff, WorkQueue
from dra.model.meta import Key
from dra.telemetry.logs import reconcile_id

WORKERS: Final = 16
"""Number of claims reconciled at the same time."""

DECISIONS_MAX: Final = 4
"""Maximum number of decisions in a row on one claim: a write makes the next one possible (listed, then ungated)."""

CONFLICTS_MAX: Final = 4
"""Maximum number of immediate retries after conflicts in a row. The stock claim controller writes a claim with finished
pods twenty times a second: a retry with a delay would always be too late."""

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
}
"""Seconds, minimum and maximum, after failures whose cause is known and temporary."""

_log: Final = logging.getLogger(__name__)
_reconcile_numbers: Final = itertools.count(1)


class ClaimLoop:
    """The loop that takes dirty claims from the cache through the queue to the writer."""

    def __init__(  # noqa: PLR0913 - keyword-only: the parts it puts together
        self,
        *,
        cache: ClaimCache,
        queue: WorkQueue[Key],
        writer: ClaimWriter,
        events: ClaimEvents,
        metrics: ControllerMetrics,
        policy: Policy,
        clock: Clock,
        leadership: Leadership,
        informers: SharedInformers,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._writer = writer
        self._events = events
        self._metrics = metrics
        self._policy = policy
        self._clock = clock
        self._leadership = leadership
        self._informers = informers
        self._retries: ItemBackoff[Key] = ItemBackoff()

    def enqueue_dirty(self) -> None:
        """Enqueue the claims that the cache has marked dirty."""
        dirty = self._cache.dirty
        while dirty:
            self._queue.add(dirty.pop())

    async def run(self) -> None:
        """Reconcile claims until cancelled."""
        await self._queue.run(self._process_item, workers=WORKERS)

    async def _process_item(self, key: Key) -> Instant:
        """Reconcile one claim; return when it is due again."""
        self._metrics.queue.set(len(self._queue))
        cost, again = await self._reconcile_or_back_off(key)
        if self._cache.evictions.mark_reconciled(key):
            self._informers.notify()
        self._queue.set_cost(key, cost)
        return again

    async def _reconcile_or_back_off(self, key: Key) -> tuple[float, Instant]:
        """Return the cost of a claim's decisions and, after a failure, when to retry."""
        reconcile_id.set(f"{key[0]}/{key[1]}#{next(_reconcile_numbers)}")
        try:
            cost = await self.reconcile(key)
        except (ApiError, BoundMeanwhileError, PartialFailureError) as error:
            if isinstance(error, PartialFailureError):
                self._retries.forget(key)
            delay = self._retries.next_delay(key, _backoff_bounds(error))
            passing = type(error) in RETRY_AFTER and delay < _backoff_bounds(error)[1]
            level = logging.DEBUG if passing else logging.WARNING
            _log.log(level, "claim %s/%s: not reconciled, retrying in %.2f s: %s", *key, delay, error)
        except ServerRestoredError:
            raise  # the cache is void: no claim can be decided
        except Exception:  # noqa: BLE001 - see the comment
            # One claim must not stop all others: it is retried with a growing delay, whatever is wrong with it.
            delay = self._retries.next_delay(key, RETRY)
            _log.exception("claim %s/%s: internal error, retrying in %.2f s", *key, delay)
            self._metrics.failures.inc()
        else:
            self._retries.forget(key)
            return cost, NEVER
        finally:
            self.enqueue_dirty()
        return 0.0, self._clock.now() + delay

    async def reconcile(self, key: Key) -> float:
        """Execute the plan for one claim; return the seconds that its most expensive decision took."""
        max_cost = 0.0
        conflicts = 0
        rounds = DECISIONS_MAX
        while rounds:
            began = self._clock.now()
            view, plan = self._decide(key, contended=conflicts > 0)
            cost = self._clock.now() - began
            self._metrics.decision.observe(cost)
            max_cost = max(max_cost, cost)
            publish = partial(self._publish, key, plan)
            try:
                await self._writer.apply(plan, view=view, on_status_written=publish)
            except Conflict:  # the writer has read the claim again; after the last attempt the queue retries
                conflicts += 1
                if conflicts > CONFLICTS_MAX:
                    raise
                continue
            rounds -= 1
            if not plan.writes_status:
                publish()
            self._queue.add_at(key, plan.wake_at)
            if not plan.claim_writes:
                break
        return max_cost

    def _publish(self, key: Key, plan: ClaimPlan) -> None:
        """Publish the reasons of a plan, once its status is written: a reason may report the effect of that write.

        A later write of the plan may fail, and no later decision has a reason for the effect.
        """
        self._events.publish(key, plan.reasons, now=self._clock.now())

    def _decide(self, key: Key, *, contended: bool) -> tuple[ClaimView | None, ClaimPlan]:
        now = self._clock.now()
        view = self._cache.view(key, now=now)
        if view is not None:
            until = self._leadership.previous_writes_until()
            view = msgspec.structs.replace(view, previous_writes_until=until, contended=contended)
            return view, decide(view, policy=self._policy, now=now)
        self._events.forget(key)
        return None, scheduling_gates.ungate_without_claim(self._cache.gated_without_claim(key), now=now)


def _backoff_bounds(error: Exception) -> tuple[float, float]:
    """Return the minimum and the maximum delay after a failure."""
    if isinstance(error, ServerError | Unreachable | TooManyRequests):
        return RETRY_AFTER_OUTAGE
    return RETRY_AFTER.get(type(error), RETRY)
