"""Questions of claims that a live read of one object answers (`LookUpPod`, `LookUpWorkload`), until it has."""

from collections.abc import Iterable
from typing import TypeAlias

from dra.engine.claims.actions import LookUpPod, LookUpWorkload
from dra.engine.dirty_keys import Cache, DirtyKeys
from dra.model.meta import Key

Question: TypeAlias = tuple[Key, LookUpPod | LookUpWorkload]
"""The claim that needs the answer, and what it asks: a pod may be listed in several claims."""


class OpenQuestions(Cache[Question]):
    """The open questions; ``dirty`` has those that are to be read.

    Each decision tells all that its claim asks: what only earlier ones asked is open no longer. Otherwise a read that
    is refused would be repeated for ever, and each list that another client writes would leave its questions behind.
    """

    def __init__(self) -> None:
        self.dirty: DirtyKeys[Question] = DirtyKeys()
        self._open: dict[Key, dict[LookUpPod | LookUpWorkload, None]] = {}
        """Questions by the claim that asks."""

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))

    def __contains__(self, question: Question) -> bool:
        claim, asked = question
        return asked in self._open.get(claim, ())

    def set_questions(self, claim: Key, asked: Iterable[LookUpPod | LookUpWorkload]) -> None:
        """Set what a claim asks; asked again before it is answered, it is read once."""
        before, after = self._open.pop(claim, {}), dict.fromkeys(asked)
        if after:
            self._open[claim] = after
        self.dirty.update((claim, question) for question in after if question not in before)

    def remove(self, question: Question) -> None:
        """Remove a question that is answered."""
        claim, asked = question
        others = self._open.get(claim, {})
        others.pop(asked, None)
        if not others:
            self._open.pop(claim, None)

    def mark_all_dirty(self) -> None:
        """Mark what was asked before the loop began."""
        self.dirty.update((claim, asked) for claim, questions in self._open.items() for asked in questions)
