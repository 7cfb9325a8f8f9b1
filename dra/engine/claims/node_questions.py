"""Questions about nodes that only a live read answers (`LookUpNode`), until they are answered."""

from collections.abc import Iterable

from dra.engine.claims.actions import LookUpNode
from dra.engine.dirty_keys import Cache, DirtyKeys


class NodeQuestions(Cache[str]):
    """The open questions by node; ``dirty`` has the names of nodes that are to be read."""

    def __init__(self) -> None:
        self.dirty: DirtyKeys[str] = DirtyKeys()
        self._questions: dict[str, dict[LookUpNode, None]] = {}

    def ask(self, question: LookUpNode) -> None:
        """Add a question of a claim; asked again, it stays one question."""
        self._questions.setdefault(question.node, {})[question] = None
        self.dirty.add(question.node)

    def about(self, node: str) -> tuple[LookUpNode, ...]:
        """Return the open questions about a node: a read that begins now answers these, and no later ones."""
        return tuple(self._questions.get(node, ()))

    def remove(self, questions: Iterable[LookUpNode]) -> None:
        """Remove questions that are answered."""
        for question in questions:
            left = self._questions[question.node]
            del left[question]
            if not left:
                del self._questions[question.node]

    def mark_all_dirty(self) -> None:
        """Mark the nodes that were asked about before the loop began."""
        self.dirty.update(self._questions)
