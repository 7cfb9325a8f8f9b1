"""When the annotations of a kept node are written: twice without a pause, then with growing ones.

Another party may undo each write. While the permission to write Nodes is missing, one node at a time is tried.
"""

from typing import Final, Never, TypeAlias

from dra.engine.instants import NEVER, Instant, doubled
from dra.engine.plan import Plan
from dra.model.meta import Key, Struct

PROMPT_WRITES: Final = 2
"""Number of writes of one Node that are made without a pause: the annotations are set, and removed."""

PAUSE: Final = (1.0, 60.0)
"""Seconds, minimum and maximum, between further writes of one Node: another party may undo each of them."""

CALM: Final = 300.0
"""Seconds after the last write of a Node from which on its writes are prompt again."""

REFUSED: Final = (0.2, 60.0)
"""Seconds, minimum and maximum, from a refusal for want of permission to the next write of any Node."""


class AnnotateNode(Struct, frozen=True):
    """Change annotations of a Node; None removes one."""

    node: Key
    version: str
    changes: dict[str, str | None]


AnnotationPlan: TypeAlias = Plan[AnnotateNode, Never]


class NodeAnnotationsView(Struct, frozen=True):
    """The changes of a node's annotations that are missing, and when they may be written."""

    missing: AnnotateNode
    is_enabled: bool
    """Whether nodes are annotated; if not, annotations of an earlier configuration are removed."""

    is_refused: bool
    due: Instant


def decide(view: NodeAnnotationsView, *, now: Instant) -> AnnotationPlan:
    """Return the write of a node's annotations that is due; what is only left over is tried once without permission."""
    if not view.missing.changes or (view.is_refused and not view.is_enabled):
        return AnnotationPlan()
    if now < view.due:
        return AnnotationPlan(wake_at=view.due)
    return AnnotationPlan(actions=(view.missing,))


class _Writes(Struct, frozen=True):
    """The writes of one Node in a row."""

    number: int = 0
    last: Instant = -NEVER


class AnnotationWrites:
    """The latest writes of each Node, and whether the last write of any Node was refused."""

    def __init__(self) -> None:
        self.is_refused = False
        self.refused_until: Instant = -NEVER
        self._refusals = 0
        self._writes: dict[str, _Writes] = {}

    def due(self, name: str, *, now: Instant) -> Instant:
        """Return from when on a Node may be written."""
        writes = self._latest(name, now=now)
        further = writes.number - PROMPT_WRITES
        paused_until = -NEVER if further < 0 else writes.last + doubled(PAUSE, further)
        return max(paused_until, self.refused_until)

    def attempt(self, *, now: Instant) -> None:
        """Record that a write begins: without permission so far, other Nodes wait for its outcome."""
        if self.is_refused:
            self.refused_until = now + REFUSED[1]

    def refuse(self, *, now: Instant) -> bool:
        """Record a refusal; return whether it is the first in a row."""
        is_first, self.is_refused = not self.is_refused, True
        self.refused_until = now + doubled(REFUSED, self._refusals)
        self._refusals += 1
        return is_first

    def succeed(self, name: str, *, now: Instant) -> None:
        """Record a write of a Node."""
        self.is_refused, self.refused_until, self._refusals = False, -NEVER, 0
        self._writes[name] = _Writes(number=self._latest(name, now=now).number + 1, last=now)

    def forget(self, name: str) -> None:
        """Forget a Node that is gone."""
        self._writes.pop(name, None)

    def _latest(self, name: str, *, now: Instant) -> _Writes:
        writes = self._writes.get(name, _Writes())
        return writes if now < writes.last + CALM else _Writes()
