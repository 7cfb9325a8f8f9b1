"""Questions of claims that a live read of one object answers (`LookUpPod`, `LookUpWorkload`), until it has."""

from collections.abc import Iterable
from typing import TypeAlias

from dra.engine.claims.actions import LookUpPod, LookUpWorkload
from dra.engine.dirty_keys import Cache, DirtyKeys
from dra.model.meta import Key

Question: TypeAlias = LookUpPod | LookUpWorkload


class OpenQuestions(Cache[Key]):
    """The open questions by the claim that asks: a pod may be listed in several. ``dirty`` has claims with new ones.

    Each decision tells all that its claim asks: what only earlier ones asked is open no longer. Otherwise a read that
    is refused would be repeated for ever, and each list that another client writes would leave its questions behind.
    """

    def __init__(self) -> None:
        self.dirty: DirtyKeys[Key] = DirtyKeys()
        self._open: dict[Key, dict[Question, None]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def questions(self, claim: Key) -> tuple[Question, ...]:
        """Return what a claim asks."""
        return tuple(self._open.get(claim, ()))

    def set_questions(self, claim: Key, asked: Iterable[Question]) -> None:
        """Set what a claim asks; asked again before it is answered, it is read once."""
        before, after = self._open.pop(claim, {}), dict.fromkeys(asked)
        if after:
            self._open[claim] = after
        if after.keys() - before.keys():
            self.dirty.add(claim)

    def remove(self, claim: Key, question: Question) -> None:
        """Remove a question that is answered."""
        others = self._open.get(claim, {})
        others.pop(question, None)
        if not others:
            self._open.pop(claim, None)

    def mark_all_dirty(self) -> None:
        """Mark what was asked before the loop began."""
        self.dirty.update(self._open)
