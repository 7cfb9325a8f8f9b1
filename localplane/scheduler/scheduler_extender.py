"""Whom the scheduler asks about nodes, and who binds in its place: kube-scheduler's extenders, in the same process.

As there, with ``ignorable: false``: while the extender does not answer, pods wait. Its yes to a node is advice; only
its bind decides, so what has changed in between is noticed there.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from dra.model.scheduling import SchedulerPod


class ExtenderRefusedError(Exception):
    """The extender has not bound the pod, and what it has begun now will not come true any more."""


class ExtenderUnansweredError(Exception):
    """The pod may be bound, or may be about to be: only looking tells, and only after a while."""


class FilterExtender(Protocol):
    """Says where pods can run beside what is held for others."""

    def filter(self, pod: SchedulerPod, nodes: Sequence[str], /) -> Mapping[str, str]:
        """Return the nodes on which the pod cannot run, each with the reason."""
        ...

    def scores(self, pod: SchedulerPod, nodes: Sequence[str], /) -> Mapping[str, int]:
        """Return how good nodes are; what it says weighs more than all that the scheduler finds."""
        ...


class Extender(FilterExtender, Protocol):
    """Binds pods there, too."""

    @property
    def ready(self) -> bool:
        """Whether it answers."""
        ...

    async def wait(self) -> None:
        """Return once it is ready."""
        ...

    async def bind(self, pod: SchedulerPod, node: str, /) -> None:
        """Bind a pod. Raises RefusedError and UnansweredError."""
        ...
