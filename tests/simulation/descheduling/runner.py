"""One history of descheduling from its beginning to its end."""

import hashlib

from tests.dra.engine.simulation.violation import Violation
from tests.simulation.descheduling.cluster import SimulatedCluster
from tests.simulation.descheduling.descheduler import Descheduler
from tests.simulation.descheduling.safety import check_calm, check_moves, check_round
from tests.simulation.descheduling.scenario import CALM, Scenario
from tests.simulation.runner import RunResult


def run_scenario(scenario: Scenario) -> RunResult:
    """Play a history."""
    result = RunResult(scenario.seed)
    cluster = SimulatedCluster(scenario)
    try:
        _play(cluster, result)
    except Violation as violation:
        result.violation = str(violation)
    result.seconds, result.effects = cluster.now, cluster.effects
    result.digest = hashlib.sha256(str(cluster.evictions).encode()).hexdigest()[:16]
    return result


def _play(cluster: SimulatedCluster, result: RunResult) -> None:
    descheduler = Descheduler(cluster)
    waiting = list(cluster.scenario.operations)
    while cluster.now < cluster.scenario.until + CALM:
        while waiting and waiting[0].at <= cluster.now:
            operation = waiting.pop(0)
            cluster.effects[operation.kind] += cluster.apply(operation)
        reported = cluster.tick()
        if descheduler.is_due(reported):
            decided, _ = descheduler.run()
            result.steps += 1
            check_round(cluster, decided)
            for decision in decided.decisions:
                if decision.verdict.accepted:
                    receivers = None if decision.receivers is None else frozenset(decision.receivers)
                    cluster.create_job(decision.pod.metadata.uid, receivers)
            check_moves(cluster)
    check_calm(cluster)
