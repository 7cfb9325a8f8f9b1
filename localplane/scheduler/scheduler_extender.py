"""The scheduler's extender, which filters and prioritizes nodes and binds pods, in the same process.

As with an extender of kube-scheduler that has ``ignorable: false``, pods wait while the extender does not respond. Its
filter only advises; its bind decides, and notices changes in between.
"""

from typing import Protocol

from dra.engine.kube_scheduler.scheduling_cycle import FilterExtender
from dra.model.scheduling import SchedulerPod


class ExtenderRefusedError(Exception):
    """The extender has not bound the pod, and an attempt that it has begun can no longer succeed."""


class ExtenderUnansweredError(Exception):
    """The pod may be bound or may still become bound; only reading the pod later shows which."""


class Extender(FilterExtender, Protocol):
    """Filters and prioritizes nodes, and binds pods."""

    @property
    def is_ready(self) -> bool:
        """Report whether the extender can be called."""
        ...

    async def wait_ready(self) -> None:
        """Wait until the extender can be called."""
        ...

    async def bind(self, pod: SchedulerPod, node: str, /) -> None:
        """Bind a pod; raises ExtenderRefusedError and ExtenderUnansweredError."""
        ...
