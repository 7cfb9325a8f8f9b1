"""One history from its beginning to its end."""

import asyncio
import contextlib
import gc
import warnings

from tests.dra.engine.simulation.violation import Violation
from tests.simulation.migrations import liveness
from tests.simulation.migrations.cluster import MigratingCluster
from tests.simulation.migrations.scenario import Scenario
from tests.simulation.runner import ErrorCollector, RunResult
from tests.simulation.virtual_loop import DeadlockError, LivelockError, VirtualLoop


def run_scenario(scenario: Scenario) -> RunResult:
    """Play a history."""
    loop = VirtualLoop()
    loop.set_exception_handler(lambda *_: None)
    result = RunResult(scenario.seed)
    cluster = MigratingCluster(loop, scenario.initial_state, seed=scenario.seed)
    gc.disable()
    with ErrorCollector() as errors:
        try:
            loop.run_until_complete(_run_operations(cluster, scenario))
        except Violation as violation:
            result.violation = str(violation)
        except (DeadlockError, LivelockError) as error:
            result.violation = f"{type(error).__name__}: {error}"
        except RuntimeError:
            if cluster.violation is None:
                raise
            result.violation = str(cluster.violation)
        finally:
            _cancel_tasks(loop, cluster)
            gc.enable()
    if errors.found and not result.violation:
        result.violation = errors.found[0]
    result.steps, result.seconds = cluster.write_log.writes, cluster.clock.now()
    result.faults = cluster.fault_counts()
    result.effects = cluster.effects
    result.digest, result.write_log = cluster.write_log.digest, cluster.write_log
    return result


async def _run_operations(cluster: MigratingCluster, scenario: Scenario) -> None:
    await cluster.start()
    for operation in sorted(scenario.operations, key=lambda d: d.at):
        await asyncio.sleep(max(operation.at - cluster.clock.now(), 0.0))
        if await operation.apply(cluster):
            cluster.effects[operation.kind] += 1
    await asyncio.sleep(max(scenario.until - cluster.clock.now(), 0.0))
    await liveness.check_liveness(cluster)


def _cancel_tasks(loop: VirtualLoop, cluster: MigratingCluster) -> None:
    """End all tasks that still run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for process in cluster.processes.values():
            process.kill()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        with contextlib.suppress(TimeoutError, DeadlockError, LivelockError, RuntimeError):
            loop.run_until_complete(asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60.0))
        loop.close()
