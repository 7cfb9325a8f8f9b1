"""One history from its beginning to its end."""

import asyncio
import contextlib
import gc
import logging
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Self

from tests.dra.engine.simulation import list_limits
from tests.dra.engine.simulation.violation import Violation
from tests.simulation import liveness
from tests.simulation.scenario import Scenario
from tests.simulation.simulated_cluster import SimulatedSystem
from tests.simulation.virtual_loop import DeadlockError, LivelockError, VirtualLoop
from tests.simulation.write_log import WriteLog


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
    effects: Counter[str] = field(default_factory=Counter)
    """How often each kind of operation has had an effect."""
    digest: str = ""
    write_log: WriteLog = field(default_factory=WriteLog)


class ErrorCollector(logging.Handler):
    """What components log as errors instead of raising it: a bug that is survived is a bug. Use it in a ``with``."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []
        self._level = logging.NOTSET

    def __enter__(self) -> Self:
        root = logging.getLogger()
        self._level = root.level
        root.addHandler(self)
        root.setLevel(logging.ERROR)
        return self

    def __exit__(self, *_: object) -> None:
        root = logging.getLogger()
        root.removeHandler(self)
        root.setLevel(self._level)

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        self.found.append(text)


def run_scenario(scenario: Scenario) -> RunResult:
    """Let it happen."""
    loop = VirtualLoop()
    system = SimulatedSystem(loop, scenario.initial_state, seed=scenario.seed)
    with list_limits.limited_list_size(*scenario.initial_state.list_size):
        return run_history(loop, system, scenario, check=liveness.check_liveness)


def run_history(loop: VirtualLoop, system: Any, history: Any, *, check: Callable[[Any], Awaitable[None]]) -> RunResult:
    """Play the operations of a history on a system, and check the system once all is well again."""
    loop.set_exception_handler(lambda *_: None)
    result = RunResult(history.seed)
    gc.disable()
    with ErrorCollector() as errors:
        try:
            loop.run_until_complete(_run_operations(system, history, check))
        except Violation as violation:
            result.violation = str(violation)
        except (DeadlockError, LivelockError) as error:
            result.violation = f"{type(error).__name__}: {error}"
        except RuntimeError:
            if system.violation is None:
                raise
            result.violation = str(system.violation)
        finally:
            _cancel_tasks(loop, system)
            gc.enable()
    if errors.found and not result.violation:
        result.violation = errors.found[0]
    result.steps, result.seconds = system.write_log.writes, system.clock.now()
    result.faults, result.effects = system.fault_counts(), system.effects
    result.digest, result.write_log = system.write_log.digest, system.write_log
    return result


async def _run_operations(system: Any, history: Any, check: Callable[[Any], Awaitable[None]]) -> None:
    await system.start()
    for operation in sorted(history.operations, key=lambda d: d.at):
        await asyncio.sleep(max(operation.at - system.clock.now(), 0.0))
        if await operation.apply(system):
            system.effects[operation.kind] += 1
    await asyncio.sleep(max(history.until - system.clock.now(), 0.0))
    await check(system)


def _cancel_tasks(loop: VirtualLoop, system: Any) -> None:
    """End whatever still runs; nothing of it is of interest."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for process in system.processes.values():
            process.kill()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        with contextlib.suppress(TimeoutError, DeadlockError, LivelockError, RuntimeError):
            loop.run_until_complete(asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60.0))
        loop.close()
