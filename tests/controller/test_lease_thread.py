"""The election in a thread: these tests run in real time, and wait for requests, never for time to pass."""

import asyncio
import contextlib
import functools
import threading
from datetime import UTC, datetime

import pytest

from controller.leadership import leader_elector, run_as_leader
from controller.lease_thread import STALLED_AFTER, Heartbeat, LeaseThread
from dra.api.configuration import LeaderElection
from dra.kube.client import Client
from dra.kube.leader_election import LeaderElector, LeadershipLostError
from dra.kube.lease_rules import ElectionTimings
from dra.kube.rate_limiter import RateLimiter
from tests.dra.kube.scripted import Handling
from tests.dra.kube.test_leader_election import KEY, LeaseServer

pytestmark = pytest.mark.timeout(60)

SECONDS_A_WRITE = 5.0
TIMINGS = ElectionTimings(lease_duration=15, renew_deadline=10.0, retry_period=0.001)


def real_time(test):
    """Run a test in an ordinary event loop: a thread knows nothing of virtual time."""

    @functools.wraps(test)
    def run():
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            runner.run(test())

    return run


class WriteClock:
    """A clock that moves with the writes of the lease: so much time goes by between two renewals."""

    def __init__(self):
        self.seconds = 100.0

    def now(self):
        return self.seconds

    def wall(self):
        return datetime.fromtimestamp(self.seconds, tz=UTC)


class Site:
    """A lease on a server, and a process whose event loop may be blocked."""

    def __init__(self):
        self.clock = WriteClock()
        self.server = LeaseServer()
        self.released = False
        self.threads = set()
        self.wanted = 0
        self.reached, self.stalled = threading.Event(), threading.Event()
        self.transport = Handling(self._handle)
        limiter = RateLimiter(1e6, 1e6, clock=self.clock)
        self.heartbeat = Heartbeat(self.clock)
        self.elector = LeaderElector(
            Client(self.transport, limiter, clock=self.clock),
            key=KEY,
            identity="one",
            terms=TIMINGS,
            clock=self.clock,
            is_stalled=self._is_stalled,
            late_writes_until=lambda: -1.0,
        )
        self.election = LeaseThread(self.elector, self.transport, heartbeat=self.heartbeat)

    def _handle(self, request):
        self.threads.add(threading.current_thread().name)
        answer = self.server._handle("one", request)
        if request.method != "GET":
            self.clock.seconds += SECONDS_A_WRITE
            if len(self.server.writes) >= self.wanted:
                self.reached.set()
        return answer

    def _is_stalled(self):
        if self.heartbeat.is_stalled():
            self.stalled.set()
        return self.heartbeat.is_stalled()

    def block(self, writes):
        """Block the event loop until the lease was written so many times more."""
        self.reached.clear()
        self.wanted = len(self.server.writes) + writes
        assert self.reached.wait(30), "the lease was not renewed"


@real_time
async def test_the_lease_is_renewed_while_the_event_loop_is_blocked_for_longer_than_a_lease():
    site = Site()

    async def work():
        await asyncio.sleep(0)
        site.block(8)  # 40 s
        assert site.election.write_deadline > site.clock.now()
        raise KeyError("the end of the work")

    with pytest.raises(ExceptionGroup) as ended:
        await run_as_leader(site.election, work)
    assert ended.group_contains(KeyError)
    assert not ended.group_contains(LeadershipLostError)
    assert site.threads == {"lease"}
    assert site.server.spec["holderIdentity"] == ""  # released
    assert site.transport.closed
    assert "lease" not in {thread.name for thread in threading.enumerate()}


@real_time
async def test_a_process_that_has_stalled_loses_its_lease():
    site = Site()

    async def work():
        await asyncio.sleep(0)
        assert site.stalled.wait(30), "the lease was renewed all the same"
        await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as ended:
        await run_as_leader(site.election, work)
    assert ended.group_contains(LeadershipLostError, match=r"not renewed \(the process has stalled\)$")
    assert site.server.spec["holderIdentity"] == "one"  # not released: writes may be under way


@real_time
async def test_a_lease_that_somebody_else_takes_ends_the_work():
    site = Site()

    async def work():
        site.server._store({**site.server.spec, "holderIdentity": "two"}, 200)
        await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as ended:
        await run_as_leader(site.election, work)
    assert ended.group_contains(LeadershipLostError)
    assert site.election.write_deadline < site.clock.now()


@real_time
async def test_a_standby_can_be_stopped():
    site = Site()
    site.server._store({"holderIdentity": "two", "leaseDurationSeconds": 15}, 200)
    standby = asyncio.create_task(run_as_leader(site.election, asyncio.Event().wait))
    await asyncio.sleep(0)
    standby.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await standby
    assert standby.cancelled()
    assert site.server.spec["holderIdentity"] == "two"
    assert "lease" not in {thread.name for thread in threading.enumerate()}


def test_an_event_loop_has_stalled_after_so_long_without_a_sign_of_life():
    clock = WriteClock()
    heartbeat = Heartbeat(clock)
    clock.seconds += STALLED_AFTER
    assert not heartbeat.is_stalled()
    clock.seconds += 0.1
    assert heartbeat.is_stalled()


def test_an_election_is_in_a_thread_only_with_a_transport_of_its_own():
    site = Site()
    client, options = site.elector._client, {"identity": "one", "clock": site.clock}
    assert isinstance(leader_elector(LeaderElection(), client, **options), LeaderElector)
    assert isinstance(leader_elector(LeaderElection(), client, lease_transport=Handling(None), **options), LeaseThread)
