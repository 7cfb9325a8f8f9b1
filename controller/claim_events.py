"""Tells people why: one reason becomes a log line, an Event and a count.

A state that persists is told once when it begins, not at each decision; numbers that change in it do not make it new,
words do.
"""

import logging
from collections.abc import Iterable
from typing import Final, Protocol, TypeAlias

from controller.metrics import ControllerMetrics
from dra.engine.claims.reasons import Code, EventType, Reason
from dra.engine.instants import Instant
from dra.model.meta import Key, Uid

REPEAT_AFTER: Final = 600.0
"""Seconds after which a state that still persists is told again: Events are kept for an hour."""

_State: TypeAlias = tuple[Code, Uid, tuple[str, ...]]

_log: Final = logging.getLogger(__name__)


class ReasonRecorder(Protocol):
    """Who posts Events."""

    def record(self, reason: Reason) -> None:
        """Post an Event for the reason, sometime."""
        ...


class ClaimEvents:
    """Remembers what was told of each claim."""

    def __init__(self, recorder: ReasonRecorder, metrics: ControllerMetrics) -> None:
        self._recorder = recorder
        self._metrics = metrics
        self._told: dict[Key, dict[_State, Instant]] = {}

    def publish(self, key: Key, reasons: Iterable[Reason], *, now: Instant) -> None:
        """Tell what is new among the reasons of a decision on the claim."""
        before = self._told.get(key, {})
        current: dict[_State, Instant] = {}
        for reason in reasons:
            words = tuple(value for _, value in reason.arguments if isinstance(value, str))
            state = (reason.code, reason.subject.uid, words)
            told = before.get(state)
            if reason.done:
                self.tell(reason)
            elif told is None or now - told >= REPEAT_AFTER:
                self.tell(reason)
                current[state] = now
            else:
                current[state] = told
        if current:
            self._told[key] = current
        else:
            self._told.pop(key, None)

    def forget(self, key: Key) -> None:
        """The claim is gone."""
        self._told.pop(key, None)

    def tell(self, reason: Reason) -> None:
        """Tell of something that has been done, besides what is published of the claim."""
        level = logging.WARNING if reason.severity is EventType.WARNING else logging.INFO
        _log.log(level, "%s", reason.text, extra={"reason": reason.code.value})
        self._metrics.reasons.labels(reason.code.value).inc()
        self._recorder.record(reason)
