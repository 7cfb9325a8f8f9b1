"""One history of colocation from its beginning to its end."""

from tests.simulation.colocation.cluster import ColocatedCluster
from tests.simulation.colocation.liveness import check_liveness
from tests.simulation.colocation.scenario import Scenario
from tests.simulation.runner import RunResult, run_history
from tests.simulation.virtual_loop import VirtualLoop


def run_scenario(scenario: Scenario) -> RunResult:
    """Play a history."""
    loop = VirtualLoop()
    cluster = ColocatedCluster(loop, scenario.initial_state, seed=scenario.seed)
    return run_history(loop, cluster, scenario, check=check_liveness)
