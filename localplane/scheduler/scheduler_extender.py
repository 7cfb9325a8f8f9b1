"""The scheduler's extender, which filters and prioritizes nodes and binds pods, in the same process.

As with an extender of kube-scheduler that has ``ignorable: false``, pods wait while the extender does not respond. Its
filter only advises; its bind decides, and notices changes in between.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from dra.model.scheduling import SchedulerPod


class ExtenderRefusedError(Exception):
    """The extender has not bound the pod, and an attempt that it has begun can no longer succeed."""


class ExtenderUnansweredError(Exception):
    """The pod may be bound or may still become bound; only reading the pod later shows which."""


class FilterExtender(Protocol):
    """Filters and prioritizes nodes, considering capacity that is reserved for other pods."""

    def filter(self, pod: SchedulerPod, nodes: Sequence[str], /) -> Mapping[str, str]:
        """Return the nodes on which the pod cannot run, each with the reason."""
        ...

    def prioritize(self, pod: SchedulerPod, nodes: Sequence[str], /) -> Mapping[str, int]:
        """Return the scores of nodes; they outweigh all scores of the scheduler."""
        ...


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
