"""One history from its beginning to its end."""

import asyncio
import contextlib
import gc
import logging
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from tests.simulation import calm, limits
from tests.simulation.chronicle import Chronicle
from tests.simulation.loop import DeadlockError, LivelockError, VirtualLoop
from tests.simulation.scenario import Scenario
from tests.simulation.violation import Violation
from tests.simulation.world import World

STEPS: Final = 30_000
"""Writes after which somebody evidently works against somebody."""


@dataclass(slots=True)
class Outcome:
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
    chronicle: Chronicle = field(default_factory=Chronicle)


class _Errors(logging.Handler):
    """What components log as errors instead of raising it: a bug that is survived is a bug."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        self.found.append(text)


def play(scenario: Scenario) -> Outcome:
    """Let it happen."""
    loop = VirtualLoop()
    loop.set_exception_handler(lambda *_: None)
    errors = _Errors()
    root = logging.getLogger()
    root.addHandler(errors)
    level = root.level
    root.setLevel(logging.ERROR)
    outcome = Outcome(scenario.seed)
    world = World(loop, scenario.beginning, seed=scenario.seed)
    gc.disable()
    try:
        with limits.list_size(*scenario.beginning.lists):
            loop.run_until_complete(_live(world, scenario))
    except Violation as violation:
        outcome.violation = str(violation)
    except (DeadlockError, LivelockError) as error:
        outcome.violation = f"{type(error).__name__}: {error}"
    except RuntimeError:
        if world.violation is None:
            raise
        outcome.violation = str(world.violation)
    finally:
        _end(loop, world)
        root.removeHandler(errors)
        root.setLevel(level)
        gc.enable()
    if errors.found and not outcome.violation:
        outcome.violation = errors.found[0]
    outcome.steps, outcome.seconds = world.chronicle.writes, world.clock.now()
    outcome.faults, outcome.made = world.counts(), world.made
    outcome.digest, outcome.chronicle = world.chronicle.digest, world.chronicle
    return outcome


async def _live(world: World, scenario: Scenario) -> None:
    await world.begin()
    for decision in sorted(scenario.decisions, key=lambda d: d.at):
        await asyncio.sleep(max(decision.at - world.clock.now(), 0.0))
        if await decision.play(world):
            world.made[decision.kind] += 1
    await asyncio.sleep(max(scenario.until - world.clock.now(), 0.0))
    await calm.run(world)


def _end(loop: VirtualLoop, world: World) -> None:
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
