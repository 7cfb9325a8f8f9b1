"""The steps on a claim's way, by name: what is timed, logged, and where a crash is survived.

A `Trace` is told of each step when it has been done. Whoever composes the plugin says what becomes of that: a debug
line, a histogram, or – in a test that walks all steps – the end of the process. Steps are reported from worker threads,
too.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias


class PrepareStep(StrEnum):
    """In the order of a prepare; an unprepare takes the CDI file away first (docs/design/kubelet-plugin.md)."""

    READ = "claims read"
    LOCKED = "folder locked"
    HELD = "devices held"
    CHECKPOINT_DRAFTED = "checkpoint drafted"
    CHECKPOINT_KEPT = "checkpoint kept"  # the state before, as .previous
    CHECKPOINT_REPLACED = "checkpoint replaced"
    CHECKPOINT_SYNCED = "checkpoint synced"
    ENFORCED = "enforced"
    CDI_DRAFTED = "cdi drafted"
    CDI_REPLACED = "cdi replaced"
    CDI_REMOVED = "cdi removed"
    RELEASED = "devices released"


StepObserver: TypeAlias = Callable[[PrepareStep], None]


def ignore_step(step: PrepareStep) -> None:
    """Make nothing of it."""
