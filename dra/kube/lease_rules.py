"""When to take, keep or wait for a Lease: the part of leader election that needs no network.

Rules:
1. Nobody compares wall clocks. The lease of somebody else has expired when *we* have seen no change of it for the
   duration written in it, on our own monotonic clock. So after a start one waits for a full duration.
2. A leader counts from before it sent its renewal, everybody else from after: its tenure ends before anybody can
   think so. Its writes must be over by then; `Tenure.write_until` is their deadline.
3. Nothing can take back a request that is under way. A new leader therefore knows until when writes of the old one
   may still arrive (`Tenure.quiet_until`), and does nothing before that which they could spoil. What comes even
   later fails on its resourceVersion.
   Who gives the lease back and has got an answer to each of its writes says so in it (`ANSWERED`): then nothing is
   late, and a rolling update frees devices without a pause.
4. A lease in our own name that this process has not taken is that of somebody else: of the process before us.
5. A lease can be told to be left alone (`STAND_DOWN`): then its holder gives it back and no candidate takes it, except
   for whoever needs that silence.
"""

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from dra.kube.client import WRITE_TIMEOUT
from dra.model.meta import ObjectMeta, Struct

LONG_PAST: Final = float("-inf")

WRITES_ANSWERED: Final = "reserve.dra/all-writes-answered"
"""Annotation of a lease that was given back with no write under way; it counts for the tenure whose number (the lease's
``leaseTransitions``) it names, so that it is worth nothing once a leader that knows nothing of it came between."""

STAND_DOWN: Final = "reserve.dra/stand-down"
"""Annotation of a lease by which a person tells all controllers to do nothing, whatever it says; it outlives them."""

SAFETY_MARGIN: Final = 1.0
"""Seconds by which writes end before the lease does: event loops are late, clocks differ in rate."""


class LeaseSpec(Struct, frozen=True):
    """``spec`` of a Lease; times are there for people."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0


class Lease(Struct, frozen=True):
    """coordination.k8s.io/v1 Lease."""

    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()

    @property
    def quiet(self) -> bool:
        """Whether its last holder gave it back with all of its writes answered."""
        answered = (self.metadata.annotations or {}).get(WRITES_ANSWERED)
        return not self.spec.holder_identity and answered == str(self.spec.lease_transitions)

    @property
    def stood_down(self) -> bool:
        """Whether it is to be left alone."""
        return bool((self.metadata.annotations or {}).get(STAND_DOWN))


@dataclass(frozen=True, slots=True)
class ElectionTimings:
    """Durations in seconds."""

    duration: int = 15
    """How long others respect a lease that is not renewed."""

    renew_deadline: float = 10.0
    """How long a leader goes on without having renewed."""

    retry: float = 2.0
    """Time between two renewals, and between two looks at somebody else's lease."""

    request: float = WRITE_TIMEOUT
    """The longest that a write of any leader takes."""

    def __post_init__(self) -> None:
        if not self.retry < self.renew_deadline < self.duration - SAFETY_MARGIN:
            raise ValueError(f"lease terms {self}: must be retry < renew_deadline < duration - {SAFETY_MARGIN:g}")


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """A lease, and since when its holder has shown no sign of life."""

    lease: Lease
    since: float
    missing: bool = False
    """The object has been deleted since; that stops nobody who holds it from writing."""

    @property
    def expires(self) -> float:
        """When it may be taken, unless it changes."""
        return self.since + self.lease.spec.lease_duration_seconds


def observe_lease(before: ObservedLease | None, lease: Lease | None, *, now: float) -> ObservedLease | None:
    """Return the sighting after a look; only the lease's spec is a sign of life, annotations are not."""
    if lease is None:
        return before and replace(before, missing=True)
    if before is not None and before.lease.spec == lease.spec:
        return ObservedLease(lease, before.since)
    return ObservedLease(lease, now)


@dataclass(frozen=True, slots=True)
class CreateLease:
    """There is no lease: make one. There may have been one."""

    lease: Lease | None = None


@dataclass(frozen=True, slots=True)
class AcquireLease:
    """The lease may be taken from whoever had it."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class RenewLease:
    """It is ours."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class AwaitLease:
    """It is somebody else's, until then at least."""

    until: float


LeaseDecision: TypeAlias = CreateLease | AcquireLease | RenewLease | AwaitLease


def decide(seen: ObservedLease | None, *, identity: str, leading: bool, now: float) -> LeaseDecision:
    """Return what to do about the lease."""
    if seen is None:
        return CreateLease()
    lease, holder = seen.lease, seen.lease.spec.holder_identity
    if holder not in ("", identity) and now < seen.expires:
        return AwaitLease(until=seen.expires)
    if seen.missing:
        return CreateLease(lease)
    return RenewLease(lease) if leading and holder == identity else AcquireLease(lease)


@dataclass(frozen=True, slots=True)
class Tenure:
    """Our time as the leader."""

    renewed_at: float
    """Before the last successful renewal was sent."""

    quiet_until: float
    """Until then writes of a previous leader may still arrive; NEVER if there was none."""

    previous: str = ""

    def write_until(self, terms: ElectionTimings) -> float:
        """Return when all writes must be over."""
        return self.renewed_at + terms.duration - SAFETY_MARGIN

    def over(self, terms: ElectionTimings, *, now: float) -> bool:
        """Whether renewing has failed for too long."""
        return now >= self.renewed_at + terms.renew_deadline


def begin_tenure(
    decision: CreateLease | AcquireLease, seen: ObservedLease | None, *, terms: ElectionTimings, sent: float, now: float
) -> Tenure:
    """Return the tenure that begins with the success, at `now`, of a request that was sent at `sent`.

    `seen` is what was decided on. Who gave the lease back has stopped writing, so only requests he gave up waiting for
    may be under way, if there are any. So it is with one whose lease has expired before our eyes; of any other, the
    process before us under the same name, we know only that the lease it had may have been renewed the moment before
    we looked.
    """
    if decision.lease is None or seen is None:
        return Tenure(sent, LONG_PAST)
    previous = decision.lease.spec
    if not previous.holder_identity:
        return Tenure(sent, LONG_PAST if decision.lease.quiet else now + terms.request)
    return Tenure(sent, max(now, seen.expires) + terms.request, previous.holder_identity)
