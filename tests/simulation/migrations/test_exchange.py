"""The replacement of one pod takes the Reservation that a sibling's job holds: both jobs succeed, and nothing is left.

The first job is paused when it holds its Reservation, the oldest one, which is free when the replacement of the second
pod is scheduled.
"""

import pytest

from tests.simulation.migrations.initial_state import InitialState
from tests.simulation.migrations.operations import ChangeJob, CreateReplicaSet, KillProcess, Migrate
from tests.simulation.migrations.runner import run_scenario
from tests.simulation.migrations.scenario import Scenario

SEEDS = [pytest.param(range(1), id="one-seed"), pytest.param(range(1, 3), id="other-seeds", marks=pytest.mark.long)]


def history(seed: int, *, stop: float, device: bool, killed: float = 0.0) -> Scenario:
    operations = [
        CreateReplicaSet(at=3.0, namespace="ml", name="w", replicas=3, device=device, grace=30, stop=stop),
        Migrate(at=25.0, namespace="ml", name="first", app="w", nth=0, ttl="3m"),
        ChangeJob(at=25.12, name="first", how="paused"),
        Migrate(at=25.6, namespace="ml", name="second", app="w", nth=1, ttl="3m"),
        ChangeJob(at=60.0, name="first", how="resumed"),
    ]
    if killed:
        operations.append(KillProcess(at=killed, component="descheduler", down=2.0))
    limits = {"evictQPS": 100, "evictBurst": 10, "maxMigratingPerWorkload": "100%", "maxUnavailablePerWorkload": "100%"}
    limits |= {"skipCheckExpectedReplicas": True, "objectLimiters": {"workload": {"duration": "0s"}}}
    nodes = tuple((f"n{number}", 8) for number in range(1, 6))
    state = InitialState(nodes=nodes, devices=2, limits=limits | {"maxMigratingPerNode": None})
    return Scenario(seed=seed, initial_state=state, operations=tuple(operations), until=100.0)


@pytest.mark.parametrize("device", [pytest.param(False, id="capacity"), pytest.param(True, id="devices")])
@pytest.mark.parametrize("stop", [pytest.param(0.0, id="at-once"), pytest.param(20.0, id="after-its-grace-period")])
def test_both_jobs_succeed_whose_pods_take_each_others_reservation(stop, device):
    exchanged = 0
    for seed in range(2):
        result = run_scenario(history(seed, stop=stop, device=device))
        assert not result.violation, f"seed {seed}: {result.violation}\n{result.write_log}"
        found = (result.effects["a pod is evicted"], result.effects["a job ends: Succeeded"])
        assert found == (2, 2), f"seed {seed}: {result.effects}\n{result.write_log}"
        exchanged += result.effects["a job takes over the Reservation of a sibling"]
    assert exchanged


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("killed", [26.36, 26.41, 26.46, 26.51, 26.56, 27.0, 60.06, 60.16])
def test_a_killed_descheduler_finishes_the_exchange(killed, seeds):
    for seed in seeds:
        result = run_scenario(history(seed, stop=0.0, device=True, killed=killed))
        assert not result.violation, f"seed {seed}: {result.violation}\n{result.write_log}"
        found = (result.effects["a pod is evicted"], result.effects["a job ends: Succeeded"])
        assert found == (2, 2), f"seed {seed}: {result.effects}\n{result.write_log}"
