"""Leader election with a Lease object; the rules are in dra.kube.lease_rules."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any, Final, NoReturn

from dra.kube.backoff import JITTER
from dra.kube.client import Client
from dra.kube.clock import SYSTEM, Clock, rfc3339_micro
from dra.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound
from dra.kube.lease_rules import (
    LONG_PAST,
    STAND_DOWN,
    WRITES_ANSWERED,
    AcquireLease,
    AwaitLease,
    CreateLease,
    ElectionTimings,
    Lease,
    LeaseDecision,
    ObservedLease,
    RenewLease,
    Tenure,
    begin_tenure,
    decide,
    observe_lease,
)
from dra.kube.rate_limiter import RequestPriority
from dra.kube.resources import LEASES
from dra.model.meta import Key

DEFAULT_TIMINGS: Final = ElectionTimings()

_MIN_RETRY_DELAY: Final = 0.01

REMINDER_INTERVAL: Final = 60.0
"""Seconds between two warnings of the same failure, which is met at each retry."""

_log: Final = logging.getLogger(__name__)


class LeadershipLostError(Exception):
    """This process is not the leader any more; all work that requires leadership must stop."""


class StoodDownError(LeadershipLostError):
    """An annotation of the lease orders a stand-down; this process still holds the lease and must release it."""


class LeaderElector:
    """A candidate in a leader election.

    The caller must `acquire` the lease, run `renew` beside the work, and `release` the lease after it::

        await election.acquire()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(election.renew())  # raises LeadershipLostError, which ends the work
                group.create_task(work())
        finally:
            await election.release()

    `identity` must be unique to this process: the name of the pod plus a random part.
    """

    def __init__(  # noqa: PLR0913 - keyword-only
        self,
        client: Client,
        *,
        key: Key,
        identity: str,
        terms: ElectionTimings = DEFAULT_TIMINGS,
        clock: Clock = SYSTEM,
        random: Random | None = None,
        ignore_stand_down: bool = False,
        is_stalled: Callable[[], bool] = lambda: False,
        late_writes_until: Callable[[], float] | None = None,
    ) -> None:
        """Create a candidate; ``ignore_stand_down``: acquire the lease even if its annotation orders a stand-down.

        The lease is not renewed while the work ``is_stalled``. ``late_writes_until`` returns until when a write of the
        work may still arrive whose answer was given up on; by default, that of ``client``.
        """
        self.identity = identity
        self._is_stalled = is_stalled
        self._late_writes_until = late_writes_until or (lambda: client.late_writes_until)
        self._ignore_stand_down = ignore_stand_down
        self.failure: ApiError | None = None
        """Error that currently prevents reading or writing the lease."""
        self._last_warning: tuple[str, float] | None = None
        """Text of the last warning, and when it was logged; None once the lease could be read or written again."""

        self._client = client
        self._key = key
        self._terms = terms
        self._clock = clock
        self._random = random or JITTER
        self._renewals = 0
        self._seen: ObservedLease | None = None
        self._tenure: Tenure | None = None

    @property
    def write_deadline(self) -> float:
        """Return the deadline of all writes begun now, on the clock's `now`; in the past without leadership.

        May be read in another thread than that of the election.
        """
        tenure = self._tenure  # read once: the thread of the election may end it at any moment
        return tenure.write_until(self._terms) if tenure is not None else LONG_PAST

    @property
    def previous_writes_until(self) -> float:
        """Return until when late writes of the previous leader may arrive; until then, undo nothing they rely on."""
        tenure = self._tenure
        return tenure.previous_writes_until if tenure is not None else LONG_PAST

    @property
    def holder(self) -> str:
        """Return the last observed holder of the lease."""
        return self._seen.lease.spec.holder_identity if self._seen is not None else ""

    async def acquire(self) -> Tenure:
        """Wait until this process is the leader."""
        logged = False
        while self._tenure is None:
            try:
                await self._read_lease()
                if self._is_stood_down:
                    if not logged:
                        _log.info("lease %s/%s: ordered to stand down (%s), waiting", *self._key, STAND_DOWN)
                    logged = True
                else:
                    await self._execute(self._decision())
            except ApiError as error:
                self._observe_failure(error)
            if self._tenure is None:
                await asyncio.sleep(self._retry_delay())
        _log.info("lease %s/%s: acquired by %s", *self._key, self.identity)
        return self._tenure

    async def renew(self) -> NoReturn:
        """Renew the lease until renewal fails for too long or another process holds it; raise `LeadershipLostError`.

        Raises `StoodDownError` when a stand-down is ordered: this process still holds the lease then, so `release`
        gives it up.
        """
        while self._tenure is not None:
            await asyncio.sleep(self._terms.retry_period)
            if self._is_stalled():
                self._tenure = None
                raise LeadershipLostError(f"lease {self._key[0]}/{self._key[1]}: not renewed (the process has stalled)")
            try:
                if self._seen is None or self.failure is not None:  # the state of the lease is uncertain
                    await self._read_lease()
                decision = self._decision()
                if isinstance(decision, AwaitLease | AcquireLease):
                    break
                await self._execute(decision)
                if self._is_stood_down:
                    raise StoodDownError(f"lease {self._key[0]}/{self._key[1]}: ordered to stand down ({STAND_DOWN})")
            except ApiError as error:
                self._observe_failure(error)
            if self._tenure.is_over(self._terms, now=self._clock.now()):
                break
        self._tenure = None
        reason = f"held by {self.holder or 'nobody'}" if self.failure is None else f"not renewed ({self.failure})"
        raise LeadershipLostError(f"lease {self._key[0]}/{self._key[1]}: {reason}")

    async def release(self) -> None:
        """Release the lease, so that the next leader need not wait for its expiry. Call after all writes have ended."""
        if self._tenure is None or self._seen is None:
            return
        self._tenure = None
        lease = self._seen.lease
        answered = str(lease.spec.lease_transitions) if self._late_writes_until() <= self._clock.now() else None
        given_back = {"holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            await self._patch(lease, given_back, annotations={WRITES_ANSWERED: answered})
        except ApiError as error:
            _log.warning("lease %s/%s: not released, it will expire (%s)", *self._key, error)

    @property
    def _is_stood_down(self) -> bool:
        return (
            not self._ignore_stand_down
            and self._seen is not None
            and not self._seen.missing
            and self._seen.lease.is_stood_down
        )

    def _retry_delay(self) -> float:
        """Return the delay before a candidate reads the lease again: at most until the lease expires."""
        delay = self._terms.retry_period * self._random.uniform(1.0, 1.2)
        decision = self._decision()
        if isinstance(decision, AwaitLease) and not self._is_stood_down:
            return min(delay, max(decision.until - self._clock.now(), _MIN_RETRY_DELAY))
        return delay

    def _decision(self) -> LeaseDecision:
        is_leader = self._tenure is not None
        return decide(self._seen, identity=self.identity, is_leader=is_leader, now=self._clock.now())

    async def _read_lease(self) -> None:
        """Read the lease from the API server."""
        lease: Lease | None
        try:
            lease = await self._client.get(
                LEASES, self._key, Lease, priority=RequestPriority.LEADERSHIP, timeout_seconds=self._request_timeout()
            )
        except NotFound:
            lease = None
        self._seen = observe_lease(self._seen, lease, now=self._clock.now())
        self.failure = None

    async def _execute(self, decision: LeaseDecision) -> None:
        """Execute a decision; its success makes this process the leader."""
        seen, sent = self._seen, self._clock.now()
        match decision:
            case CreateLease(lease=before):
                lease = await self._create(before)
            case AcquireLease(lease=before):
                lease = await self._patch(before, self._new_holder_spec(before))
            case RenewLease(lease=before):
                lease = await self._patch(before, {})
            case AwaitLease():
                return
        now = self._clock.now()
        self._seen = ObservedLease(lease, now)
        self.failure = self._last_warning = None
        if self._tenure is None and not isinstance(decision, RenewLease):
            self._tenure = begin_tenure(decision, seen, terms=self._terms, sent=sent, now=now)
        elif self._tenure is not None:
            self._tenure = replace(self._tenure, renewed_at=sent)

    async def _create(self, before: Lease | None) -> Lease:
        namespace, name = self._key
        spec = {**self._new_holder_spec(before), "renewTime": self._next_renew_time()}
        return await self._client.create(
            LEASES,
            {"metadata": {"name": name}, "spec": spec},
            model=Lease,
            namespace=namespace,
            priority=RequestPriority.LEADERSHIP,
            timeout_seconds=self._request_timeout(),
        )

    async def _patch(
        self, lease: Lease, spec: dict[str, Any], *, annotations: Mapping[str, str | None] | None = None
    ) -> Lease:
        body: dict[str, Any] = {"spec": {**spec, "renewTime": self._next_renew_time()}}
        if annotations is not None:
            body["metadata"] = {"annotations": annotations}
        return await self._client.merge_patch(
            LEASES,
            self._key,
            body,
            model=Lease,
            resource_version=lease.metadata.resource_version,
            priority=RequestPriority.LEADERSHIP,
            timeout_seconds=self._request_timeout(),
        )

    def _next_renew_time(self) -> str:
        """Return a renewTime that differs from all before, even if the wall clock stands still or jumps back.

        Other candidates take a changed renewTime as the sign of life. The API server treats a write of the same value
        as no write at all.
        """
        self._renewals += 1
        return rfc3339_micro(self._clock.wall() + timedelta(microseconds=self._renewals))

    def _new_holder_spec(self, before: Lease | None) -> dict[str, Any]:
        """Return the spec that a new holder writes."""
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._terms.lease_duration,
            "acquireTime": rfc3339_micro(self._clock.wall()),
            "leaseTransitions": before.spec.lease_transitions + 1 if before is not None else 0,
        }

    def _request_timeout(self) -> float:
        """Return the timeout of one request: at least two requests must fit into the rest of a tenure."""
        share = self._terms.renew_deadline / 2.0
        if self._tenure is None:
            return share
        left = self._tenure.renewed_at + self._terms.renew_deadline - self._clock.now()
        return max(0.1, min(share, left))

    def _observe_failure(self, error: ApiError) -> None:
        self.failure = error
        if isinstance(error, Conflict | AlreadyExists):  # another candidate was faster; the next read shows which
            _log.debug("%s", error)
            return
        text, now = f"{error}{_advice(error)}", self._clock.now()
        last = self._last_warning
        if last is None or last[0] != text or now - last[1] >= REMINDER_INTERVAL:
            self._last_warning = (text, now)
            _log.warning("%s", text)


def _advice(error: ApiError) -> str:
    """Return what to do about an error that no retry ends; empty for others."""
    if isinstance(error, NotFound) and error.details.kind == "namespaces":
        return "; create this namespace, or name another one in leaderElection.namespace"
    if isinstance(error, Forbidden):
        return "; leaderElection.namespace and leaderElection.name must be those for which the account has a Role"
    return ""
