"""The runtime of a process, which every part of it needs: client, clocks, leadership, Events and metrics."""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from prometheus_client import Counter

from controller.leadership import leader_elector, process_identity
from dra.api.configuration import LeaderElection
from dra.engine.instants import Instant, Moment
from dra.engine.messages.object_sizes import ObjectSizeReason
from dra.kube.client import WRITE_TIMEOUT, Client
from dra.kube.clock import SYSTEM, Clock
from dra.kube.codec import ObjectIdentity
from dra.kube.event_correlator import EventRecord, Regarding
from dra.kube.events import EventRecorder
from dra.kube.large_objects import LargeObjects, Report
from dra.kube.rate_limiter import RateLimiter
from dra.kube.resources import Resource
from dra.kube.sender import RequestObserver
from dra.kube.transport import Transport
from dra.model.event_type import EventType
from dra.requests.leadership import Leadership


class ProcessConfiguration(Protocol):
    """The part that the configurations of all processes have in common."""

    @property
    def qps(self) -> float:
        """Return the requests per second that the process may send."""

    @property
    def burst(self) -> int:
        """Return the number of requests that the process may send at once."""

    @property
    def leader_election(self) -> LeaderElection:
        """Return the settings of the lease."""


class ProcessMetrics(Protocol):
    """The metrics that all processes have in common."""

    large_objects: LargeObjects
    events_discarded: Counter

    @property
    def request(self) -> RequestObserver:
        """Return the observer of requests."""


M_co = TypeVar("M_co", bound=ProcessMetrics, covariant=True)
M = TypeVar("M", bound=ProcessMetrics)


@dataclass(frozen=True, kw_only=True)
class Runtime(Generic[M_co]):
    """One process on one API server; ``metrics`` are those of its kind."""

    client: Client
    clock: Clock
    leadership: Leadership
    recorder: EventRecorder
    metrics: M_co

    def instant(self) -> Instant:
        """Return the time in monotonic seconds."""
        return self.clock.now()

    def moment(self) -> Moment:
        """Return the time on both clocks."""
        return Moment(instant=self.clock.now(), wall=self.clock.wall().timestamp())

    def write_timeout(self) -> float:
        """Return how long a write that begins now may take: it must end before the lease can expire."""
        return self.leadership.write_timeout(WRITE_TIMEOUT, now=self.clock.now())


def create_runtime(  # noqa: PLR0913 - keyword-only: what differs between processes, and what tests replace
    configuration: ProcessConfiguration,
    transport: Transport,
    *,
    metrics: M,
    name: str,
    action: str,
    clock: Clock = SYSTEM,
    identity: str = "",
    lease_transport: Transport | None = None,
) -> Runtime[M]:
    """Return the runtime of a process; ``name`` and ``action`` are fields of its Events.

    ``identity`` must be unique to this process (default: the host plus a random part). With ``lease_transport`` the
    lease is renewed in a thread of its own. Raises MalformedConfigurationError.
    """
    limiter = RateLimiter(configuration.qps, configuration.burst, clock=clock)
    client = Client(transport, limiter, clock=clock, observer=metrics.request, large_objects=metrics.large_objects)
    identity = identity or process_identity()
    election = leader_elector(
        configuration.leader_election,
        client,
        identity=identity,
        clock=clock,
        lease_transport=lease_transport,
        observer=metrics.request,
    )
    recorder = EventRecorder(
        client, instance=identity, controller=name, clock=clock, on_discard=metrics.events_discarded.inc
    )
    metrics.large_objects.report = large_object_reporter(recorder, action=action)
    return Runtime(client=client, clock=clock, leadership=Leadership(election), recorder=recorder, metrics=metrics)


def large_object_reporter(recorder: EventRecorder, *, action: str) -> Report:
    """Return a function that records an Event on an object that is too large: users see there why nothing happens."""

    def report(resource: Resource, identity: ObjectIdentity, reason: str) -> None:
        recorder.record(
            EventRecord(
                regarding=Regarding(
                    api_version=resource.api_version,
                    kind=resource.kind,
                    namespace=identity.namespace,
                    name=identity.name,
                    uid=identity.uid,
                ),
                reason=ObjectSizeReason.OBJECT_TOO_LARGE.value,
                action=action,
                note=f"{resource.kind} {identity}: {reason}. Until then its last known state stays in effect",
                severity=EventType.WARNING,
            )
        )

    return report
