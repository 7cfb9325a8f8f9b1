import asyncio
import math

import pytest

from controller.application import Application
from controller.extender.application import Extender
from controller.leadership import leader_elector, run_after_previous_writes, run_as_leader
from controller.migration.application import Descheduler
from dra.api.configuration import ControllerConfiguration, LeaderElection, MalformedConfigurationError
from dra.api.descheduler.configuration import DeschedulerProcessConfiguration
from dra.api.extender_configuration import ExtenderConfiguration
from dra.kube.clock import SYSTEM
from dra.kube.tasks import background_task
from tests.controller.cluster import Cluster
from tests.dra.kube.scripted import client_of


@pytest.mark.parametrize(
    ("server", "configuration"),
    [
        pytest.param(Application, ControllerConfiguration, id="controller"),
        pytest.param(Extender, ExtenderConfiguration, id="extender"),
        pytest.param(Descheduler, DeschedulerProcessConfiguration, id="descheduler"),
    ],
)
@pytest.mark.parametrize(
    ("timings", "problem"),
    [
        pytest.param(
            {"leaseSeconds": 10, "renewSeconds": 10},
            "leaderElection: retrySeconds (2) must be less than renewSeconds (10), and renewSeconds less than "
            "leaseSeconds - 1 (9)",
            id="renewed-too-late",
        ),
        pytest.param(
            {"renewSeconds": 5, "retrySeconds": 5.5},
            "leaderElection: retrySeconds (5.5) must be less than renewSeconds (5), and renewSeconds less than "
            "leaseSeconds - 1 (14)",
            id="retried-too-late",
        ),
    ],
)
def test_timings_that_do_not_fit_together_are_an_error_of_the_configuration(server, configuration, timings, problem):
    with pytest.raises(MalformedConfigurationError) as refused:
        server(configuration.model_validate({"leaderElection": timings}), Cluster())
    assert str(refused.value) == problem


def test_there_is_no_candidate_without_leader_election():
    settings = LeaderElection(enabled=False)
    assert leader_elector(settings, client_of(Cluster()), identity="a", clock=SYSTEM) is None


class Election:
    """A candidate that records its calls, and acquires the lease after `takes` seconds."""

    def __init__(self, *, takes=0.0, previous_writes_until=-math.inf):
        self.calls = []
        self._takes = takes
        self._previous_writes_until = previous_writes_until

    @property
    def previous_writes_until(self):
        assert "acquire" in self.calls, "known once the lease was acquired"
        return self._previous_writes_until

    async def acquire(self):
        await asyncio.sleep(self._takes)
        self.calls.append("acquire")

    async def renew(self):
        self.calls.append("renew")
        await asyncio.Event().wait()

    async def release(self):
        self.calls.append("release")


async def test_the_lease_is_released_after_the_work():
    election = Election()

    async def work():
        await asyncio.sleep(0.01)
        election.calls.append("work")
        raise KeyError("the end of the work")

    with pytest.raises(ExceptionGroup):
        await run_as_leader(election, work)
    assert election.calls == ["acquire", "renew", "work", "release"]


@pytest.mark.parametrize(
    ("election", "begins"),
    [
        pytest.param(None, 10.0, id="no-election-the-given-seconds"),
        pytest.param(Election(), 0.0, id="first-leader-at-once"),
        pytest.param(Election(takes=7.0, previous_writes_until=3.0), 7.0, id="writes-ended-before-the-lease-was-free"),
        pytest.param(Election(takes=7.0, previous_writes_until=18.0), 18.0, id="writes-of-the-previous-leader"),
    ],
)
async def test_the_work_begins_after_the_last_write_of_the_previous_process(election, begins, clock):
    start = clock.now()
    began = asyncio.Event()

    async def work():
        began.set()
        await asyncio.Event().wait()

    async with background_task(
        run_after_previous_writes(election, work, previous_writes_seconds=10.0, clock=clock), name="work"
    ):
        async with asyncio.timeout(60.0):
            await began.wait()
    assert clock.now() - start == pytest.approx(begins)


@pytest.mark.parametrize(
    ("election", "told"),
    [
        pytest.param(None, "not ready for 10 s: without leader election", id="no-election"),
        pytest.param(Election(), "", id="first-leader"),
        pytest.param(
            Election(previous_writes_until=8.0), "not ready for 8.0 s: writes of the leader", id="not-released"
        ),
    ],
)
async def test_the_log_says_why_the_work_has_not_begun(election, told, clock, caplog):
    async def work():
        began.set()

    began = asyncio.Event()
    caplog.set_level("INFO", logger="controller.leadership")
    running = run_after_previous_writes(election, work, previous_writes_seconds=10.0, clock=clock)
    async with background_task(running, name="work"):
        await began.wait()
    assert [told] * bool(told) == [message[: len(told)] for message in caplog.messages]
