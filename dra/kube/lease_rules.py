"""When to acquire, renew or wait for a Lease: the part of leader election that needs no network.

Rules:
1. Wall clocks are never compared. A lease held by another process has expired when *this* process has observed no
   change of it for the duration written in it, on its own monotonic clock. So after a start a candidate waits for a
   full duration.
2. A leader counts from before it sent its renewal, all other candidates from after: its tenure ends before any of them
   can consider the lease expired. Its writes must be over by then; `Tenure.write_until` is their deadline.
3. A request in flight cannot be recalled. A new leader therefore knows until when writes of the previous leader may
   still arrive (`Tenure.previous_writes_until`), and until then does nothing that they could spoil. A write that
   arrives even later fails on its resourceVersion.
   A leader that releases the lease after every write was answered states so in the lease (`WRITES_ANSWERED`): then no
   write is late, and a rolling update frees devices without a pause.
4. A lease in the name of this process that this process has not acquired belongs to another one: to its predecessor.
5. An annotation of the lease (`STAND_DOWN`) can order a stand-down: its holder then releases it and no candidate
   acquires it, except for a candidate that needs this silence.
"""

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from dra.kube.client import WRITE_TIMEOUT
from dra.model.meta import ObjectMeta, Struct

LONG_PAST: Final = float("-inf")

WRITES_ANSWERED: Final = "reserve.dra/all-writes-answered"
"""Annotation of a lease that was released with no write in flight. Valid for the tenure whose number (the lease's
``leaseTransitions``) it names, so that it has no effect once a leader that does not know the annotation came between.
"""

STAND_DOWN: Final = "reserve.dra/stand-down"
"""Annotation of a lease by which a user orders all controllers to stop writing; any non-empty value does. It outlives
the controllers."""

SAFETY_MARGIN: Final = 1.0
"""Seconds by which writes end before the lease expires: event loops are late, clocks differ in rate."""


class LeaseSpec(Struct, frozen=True):
    """The ``spec`` of a Lease; its times are for people."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0


class Lease(Struct, frozen=True):
    """A Lease of coordination.k8s.io/v1."""

    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()

    @property
    def all_writes_answered(self) -> bool:
        """Report whether the last holder released the lease with all of its writes answered."""
        answered = (self.metadata.annotations or {}).get(WRITES_ANSWERED)
        return not self.spec.holder_identity and answered == str(self.spec.lease_transitions)

    @property
    def is_stood_down(self) -> bool:
        """Report whether the lease orders a stand-down."""
        return bool((self.metadata.annotations or {}).get(STAND_DOWN))


@dataclass(frozen=True, slots=True)
class ElectionTimings:
    """Durations of a leader election, in seconds."""

    lease_duration: int = 15
    """Time for which other candidates respect a lease that is not renewed."""

    renew_deadline: float = 10.0
    """Time for which a leader continues without a successful renewal."""

    retry_period: float = 2.0
    """Time between two renewals, and between two reads of a lease held by another process."""

    request_timeout: float = WRITE_TIMEOUT
    """Maximum duration of a write of any leader."""

    def __post_init__(self) -> None:
        if not self.retry_period < self.renew_deadline < self.lease_duration - SAFETY_MARGIN:
            raise ValueError(
                f"election timings: retry_period ({self.retry_period:g}) must be less than renew_deadline "
                f"({self.renew_deadline:g}), and renew_deadline less than lease_duration - {SAFETY_MARGIN:g} "
                f"({self.lease_duration - SAFETY_MARGIN:g})"
            )


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """A lease, and since when its holder has shown no sign of life."""

    lease: Lease
    since: float
    missing: bool = False
    """The object has been deleted since; its holder may nevertheless still write."""

    @property
    def expires(self) -> float:
        """Return when the lease may be acquired, unless it changes."""
        return self.since + self.lease.spec.lease_duration_seconds


def observe_lease(before: ObservedLease | None, lease: Lease | None, *, now: float) -> ObservedLease | None:
    """Return the observation after a read; only changes of the spec are a sign of life, annotations are not."""
    if lease is None:
        return before and replace(before, missing=True)
    if before is not None and before.lease.spec == lease.spec:
        return ObservedLease(lease, before.since)
    return ObservedLease(lease, now)


@dataclass(frozen=True, slots=True)
class CreateLease:
    """The decision to create the lease, which does not exist; `lease` is the deleted one, if any."""

    lease: Lease | None = None


@dataclass(frozen=True, slots=True)
class AcquireLease:
    """The decision to acquire the lease from its previous holder."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class RenewLease:
    """The decision to renew the lease, which this process holds."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class AwaitLease:
    """The decision to wait: another process holds the lease, at least until `until`."""

    until: float


LeaseDecision: TypeAlias = CreateLease | AcquireLease | RenewLease | AwaitLease


def decide(seen: ObservedLease | None, *, identity: str, is_leader: bool, now: float) -> LeaseDecision:
    """Return what to do about the lease."""
    if seen is None:
        return CreateLease()
    lease, holder = seen.lease, seen.lease.spec.holder_identity
    if holder not in ("", identity) and now < seen.expires:
        return AwaitLease(until=seen.expires)
    if seen.missing:
        return CreateLease(lease)
    return RenewLease(lease) if is_leader and holder == identity else AcquireLease(lease)


@dataclass(frozen=True, slots=True)
class Tenure:
    """The time during which this process is the leader."""

    renewed_at: float
    """Time just before the last successful renewal was sent."""

    previous_writes_until: float
    """Time until which writes of a previous leader may still arrive; `LONG_PAST` if there was none."""

    previous: str = ""

    def write_until(self, terms: ElectionTimings) -> float:
        """Return when all writes must be over."""
        return self.renewed_at + terms.lease_duration - SAFETY_MARGIN

    def is_over(self, terms: ElectionTimings, *, now: float) -> bool:
        """Return whether renewal has failed for too long."""
        return now >= self.renewed_at + terms.renew_deadline


def begin_tenure(
    decision: CreateLease | AcquireLease, seen: ObservedLease | None, *, terms: ElectionTimings, sent: float, now: float
) -> Tenure:
    """Return the tenure that begins with the success, at `now`, of a request that was sent at `sent`.

    `seen` is the observation that was decided on. A holder that released the lease has stopped writing, so only
    requests whose answers it gave up on may be in flight, if any. The same holds for one whose lease has expired under
    observation. Of any other, the predecessor under the same name, only this is known: its lease may have been renewed
    the moment before this process read it.
    """
    if decision.lease is None or seen is None:
        return Tenure(sent, LONG_PAST)
    previous = decision.lease.spec
    if not previous.holder_identity:
        return Tenure(sent, LONG_PAST if decision.lease.all_writes_answered else now + terms.request_timeout)
    return Tenure(sent, max(now, seen.expires) + terms.request_timeout, previous.holder_identity)
