"""The descheduler is killed at each kind of write, before or after the API server has processed the write.

Whatever the place, the migration ends as it would have without: one eviction, the new pod in the Reservation, nothing
left behind.
"""

import pytest

from dra.kube.resources import POD_MIGRATION_JOBS, PODS, RESERVATIONS
from localplane.fault_injection import Fault, FaultRule
from tests.simulation.migrations.initial_state import InitialState
from tests.simulation.migrations.operations import CreateReplicaSet, InjectFaults, Migrate, Operation
from tests.simulation.migrations.runner import run_scenario
from tests.simulation.migrations.scenario import Scenario

JOBS = POD_MIGRATION_JOBS.label
STATUS = f"{JOBS}/status"
PLACES = {
    "arbitration": (JOBS, "patch", 1),
    "pinning-the-pod": (JOBS, "patch", 2),
    "running": (STATUS, "patch", 1),
    "creating-the-reservation": (RESERVATIONS.label, "create", 1),
    "referring-to-the-reservation": (JOBS, "patch", 3),
    "reservation-created": (STATUS, "patch", 2),
    "reservation-scheduled": (STATUS, "patch", 3),
    "announcing-the-eviction": (STATUS, "patch", 4),
    "evicting": (f"{PODS.label}/eviction", "create", 1),
    "evicted": (STATUS, "patch", 5),
    "waiting-for-the-new-pod": (STATUS, "patch", 6),
    "bound": (STATUS, "patch", 7),
    "ready": (STATUS, "patch", 8),
    "succeeded": (STATUS, "patch", 9),
}
"""Kinds of writes: resource, verb, and the number of the write among those.

The old pod ends before the new one is bound.
"""

WHILE_THE_OLD_POD_ENDS = {
    "bound-already": (STATUS, "patch", 6),
    "ready-already": (STATUS, "patch", 7),
    "succeeded-at-once": (STATUS, "patch", 8),
}
"""Where the new pod is there before the old one has ended: nothing waits for the new pod."""

SEEDS = [
    pytest.param(range(1), id="one-seed"),
    pytest.param(range(1, 2), id="another-seed", marks=pytest.mark.long),
    pytest.param(range(2, 5), id="more-seeds", marks=[pytest.mark.slow, pytest.mark.long]),
]
"""What is played in `make test`, in `.ci/run`, and with `-m long` only."""


def history(seed: int, *, resource: str, verb: str, nth: int, after: bool, stop: float) -> Scenario:
    """Return a migration of a pod with a device, with a descheduler that is killed once."""
    rule = FaultRule(
        fault=Fault.CRASH, component="descheduler", resource=resource, verb=verb, nth=nth, times=1, after=after
    )
    operations: tuple[Operation, ...] = (
        InjectFaults(at=0.0, rules=(rule,)),
        CreateReplicaSet(at=3.0, namespace="ml", name="w", replicas=3, cpu=1, device=True, stop=stop),
        Migrate(at=25.0 + seed / 10, namespace="ml", name="j", app="w", nth=seed),
    )
    state = InitialState(devices=2, limits={"evictQPS": 100, "evictBurst": 10})
    return Scenario(seed=seed, initial_state=state, operations=operations, until=60.0)


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("after", [pytest.param(False, id="before"), pytest.param(True, id="after")])
@pytest.mark.parametrize("place", [*PLACES, *WHILE_THE_OLD_POD_ENDS])
def test_a_killed_descheduler_goes_on_with_the_same_outcome(place, after, seeds):
    late = place in WHILE_THE_OLD_POD_ENDS
    resource, verb, nth = (PLACES | WHILE_THE_OLD_POD_ENDS)[place]
    for seed in seeds:
        stop = 1.0 + seed if late else 0.0
        result = run_scenario(history(seed, resource=resource, verb=verb, nth=nth, after=after, stop=stop))
        assert not result.violation, f"seed {seed}: {result.violation}\n{result.write_log}"
        found = (result.faults["crash"], result.effects["a pod is evicted"], result.effects["a job ends: Succeeded"])
        assert found == (1, 1, 1), f"seed {seed}: {found}\n{result.write_log}"
        assert result.effects["a job ends: Succeeded, with devices"] == 1
