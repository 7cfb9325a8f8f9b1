"""Questions of claims that a live read of one object answers (`LookUpPod`, `LookUpWorkload`), until it has."""

from typing import TypeAlias

from dra.engine.claims.actions import LookUpPod, LookUpWorkload
from dra.engine.dirty_keys import Cache, DirtyKeys
from dra.model.meta import Key

Question: TypeAlias = tuple[Key, LookUpPod | LookUpWorkload]
"""The claim that needs the answer, and what it asks: a pod may be listed in several claims."""


class OpenQuestions(Cache[Question]):
    """The open questions; ``dirty`` has those that are to be read."""

    def __init__(self) -> None:
        self.dirty: DirtyKeys[Question] = DirtyKeys()
        self._open: dict[Question, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def ask(self, question: Question) -> None:
        """Add a question; asked again before it is answered, it is read once."""
        if question not in self._open:
            self._open[question] = None
            self.dirty.add(question)

    def remove(self, question: Question) -> None:
        """Remove a question that is answered, or that nobody asks any more."""
        self._open.pop(question, None)

    def mark_all_dirty(self) -> None:
        """Mark what was asked before the loop began."""
        self.dirty.update(self._open)
