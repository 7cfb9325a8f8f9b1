import asyncio

import pytest

from controller.application import Application
from controller.extender.application import Extender
from controller.leadership import leader_elector, run_as_leader
from dra.api.configuration import ControllerConfiguration, LeaderElection, MalformedConfigurationError
from dra.api.extender_configuration import ExtenderConfiguration
from dra.kube.clock import SYSTEM
from tests.controller.cluster import Cluster
from tests.dra.kube.scripted import client_of


@pytest.mark.parametrize(
    ("server", "configuration"),
    [
        pytest.param(Application, ControllerConfiguration, id="controller"),
        pytest.param(Extender, ExtenderConfiguration, id="extender"),
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
    """A candidate that records its calls."""

    def __init__(self):
        self.calls = []

    async def acquire(self):
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
