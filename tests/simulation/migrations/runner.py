"""One history of migrations from its beginning to its end."""

from tests.simulation.migrations.cluster import MigratingCluster
from tests.simulation.migrations.liveness import check_liveness
from tests.simulation.migrations.scenario import Scenario
from tests.simulation.runner import RunResult, run_history
from tests.simulation.virtual_loop import VirtualLoop


def run_scenario(scenario: Scenario) -> RunResult:
    """Play a history."""
    loop = VirtualLoop()
    cluster = MigratingCluster(loop, scenario.initial_state, seed=scenario.seed)
    return run_history(loop, cluster, scenario, check=check_liveness)
