"""One history from its beginning to its end."""

import asyncio
import contextlib
import gc
import logging
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from tests.simulation import list_limits, liveness
from tests.simulation.scenario import Scenario
from tests.simulation.simulated_cluster import SimulatedSystem
from tests.simulation.violation import Violation
from tests.simulation.virtual_loop import DeadlockError, LivelockError, VirtualLoop
from tests.simulation.write_log import WriteLog

STEPS: Final = 30_000
"""Writes after which somebody evidently works against somebody."""


@dataclass(slots=True)
class RunResult:
    """What came of a history."""

    seed: int
    violation: str = ""
    steps: int = 0
    """Writes, after each of which everything was checked."""
    seconds: float = 0.0
    """Virtual ones."""
    faults: Counter[str] = field(default_factory=Counter)
    made: Counter[str] = field(default_factory=Counter)
    """How often each kind of decision has had an effect."""
    digest: str = ""
    chronicle: WriteLog = field(default_factory=WriteLog)


class _ErrorCollector(logging.Handler):
    """What components log as errors instead of raising it: a bug that is survived is a bug."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        self.found.append(text)


def run_scenario(scenario: Scenario) -> RunResult:
    """Let it happen."""
    loop = VirtualLoop()
    loop.set_exception_handler(lambda *_: None)
    errors = _ErrorCollector()
    root = logging.getLogger()
    root.addHandler(errors)
    level = root.level
    root.setLevel(logging.ERROR)
    outcome = RunResult(scenario.seed)
    world = SimulatedSystem(loop, scenario.beginning, seed=scenario.seed)
    gc.disable()
    try:
        with list_limits.limited_list_size(*scenario.beginning.lists):
            loop.run_until_complete(_run_operations(world, scenario))
    except Violation as violation:
        outcome.violation = str(violation)
    except (DeadlockError, LivelockError) as error:
        outcome.violation = f"{type(error).__name__}: {error}"
    except RuntimeError:
        if world.violation is None:
            raise
        outcome.violation = str(world.violation)
    finally:
        _cancel_tasks(loop, world)
        root.removeHandler(errors)
        root.setLevel(level)
        gc.enable()
    if errors.found and not outcome.violation:
        outcome.violation = errors.found[0]
    outcome.steps, outcome.seconds = world.chronicle.writes, world.clock.now()
    outcome.faults, outcome.made = world.counts(), world.made
    outcome.digest, outcome.chronicle = world.chronicle.digest, world.chronicle
    return outcome


async def _run_operations(world: SimulatedSystem, scenario: Scenario) -> None:
    await world.begin()
    for decision in sorted(scenario.decisions, key=lambda d: d.at):
        await asyncio.sleep(max(decision.at - world.clock.now(), 0.0))
        if await decision.play(world):
            world.made[decision.kind] += 1
    await asyncio.sleep(max(scenario.until - world.clock.now(), 0.0))
    await liveness.check_liveness(world)


def _cancel_tasks(loop: VirtualLoop, world: SimulatedSystem) -> None:
    """End whatever still runs; nothing of it is of interest."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for process in world.processes.values():
            process.kill()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        with contextlib.suppress(TimeoutError, DeadlockError, LivelockError, RuntimeError):
            loop.run_until_complete(asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60.0))
        loop.close()
