"""The steps of preparing and unpreparing a claim; the plugin survives a crash after each of them.

A `StepObserver` is called after each step, also from worker threads. It exists for tests, which end the process or fail
a write at each step (``tests/kubeletplugin/crash_injection.py``); the plugin itself ignores the steps.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias


class PrepareStep(StrEnum):
    """The steps in the order of a prepare; an unprepare begins with the CDI spec (docs/design/kubelet-plugin.md)."""

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
    """Ignore a step, as the default observer."""
