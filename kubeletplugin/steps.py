"""Steps of a call as data: what each step does, how it is undone, and what a crash behind the step leaves.

A step answers for each claim of a batch. A claim that fails at a step is undone through the steps before, up to the
first that has no undo: what that step did stays (in doubt a device stays held). The other claims go on.

The lists are in `kubeletplugin.prepare_steps`, `kubeletplugin.unprepare_steps` and `kubeletplugin.inspection_steps`.
``tests/kubeletplugin/crash_injection.py`` kills the plugin behind each step of each list, and compares what is left
with `Leftover`; the table in docs/design/kubelet-plugin.md has the same lists.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from dra.model.meta import Uid
from kubeletplugin.contract import PrepareError
from kubeletplugin.worker_thread import WorkerThread

Failures: TypeAlias = Mapping[Uid, PrepareError]
"""The claims for which a step has failed, each with the reason."""


def failures_of(answers: Mapping[Uid, object]) -> Failures:
    """Return the failures among the answers for some claims."""
    return {uid: answer for uid, answer in answers.items() if isinstance(answer, PrepareError)}


class Leftover(StrEnum):
    """The state of a claim that a crash directly behind a step leaves; the value says what continues from there."""

    NOTHING = "neither checkpoint nor CDI spec: the kubelet calls again, and the call begins anew"
    RECORD = "a prepared claim without CDI spec: the next start writes the spec, and the kubelet calls again"
    RECORD_AND_SPEC = "a prepared claim with its CDI spec: the kubelet calls again, and gets the same devices"


class Batch(Protocol):
    """The claims of a call, with the answers so far."""

    answers: dict[Uid, Any]


BatchT = TypeVar("BatchT", bound=Batch)


@dataclass(frozen=True, kw_only=True)
class LoopStep(Generic[BatchT]):
    """A step in the event loop, where drivers live."""

    name: str
    do: Callable[[BatchT], Awaitable[Failures]]
    leaves: Leftover
    undo: Callable[[BatchT, Collection[Uid]], Awaitable[None]] | None = None


@dataclass(frozen=True, kw_only=True)
class FileStep(Generic[BatchT]):
    """A step that waits for files, in a worker thread; consecutive ones share a thread, since each switch costs."""

    name: str
    do: Callable[[BatchT], Failures]
    leaves: Leftover
    undo: Callable[[BatchT, Collection[Uid]], Awaitable[None]] | None = None


Step: TypeAlias = LoopStep[BatchT] | FileStep[BatchT]


async def run_steps(steps: Sequence[Step[BatchT]], batch: BatchT, *, worker: WorkerThread) -> None:
    """Take a batch through the steps in order, file steps in a worker; its answers are complete afterwards."""
    done = 0
    while done < len(steps):
        step = steps[done]
        if isinstance(step, LoopStep):
            failures, done = await step.do(batch), done + 1
        else:
            failures, done = await worker.run(partial(_do_file_steps, steps, batch, begin=done))
        if failures:
            batch.answers |= failures
            await _undo(steps[: done - 1], batch, failures)


def _do_file_steps(steps: Sequence[Step[BatchT]], batch: BatchT, *, begin: int) -> tuple[Failures, int]:
    """Do the file steps from `begin` on, to the first failure; return the failures and the number of the next step."""
    for number, step in enumerate(steps[begin:], start=begin + 1):
        if isinstance(step, LoopStep):
            return {}, number - 1
        if failures := step.do(batch):
            return failures, number
    return {}, len(steps)


async def _undo(done: Sequence[Step[BatchT]], batch: BatchT, failures: Failures) -> None:
    for step in reversed(done):
        if step.undo is None:
            return
        await step.undo(batch, failures.keys())
