"""Reporting of reasons: each reason becomes a log line, an Event and a count.

A state that persists is reported when it begins, not at each decision. A change of its numbers does not make it new, a
change of its words does.
"""

import logging
from collections.abc import Iterable
from typing import Final, TypeAlias

from controller.metrics import ControllerMetrics
from dra.engine.claims.codes import Code
from dra.engine.claims.reasons import Reason
from dra.engine.instants import Instant
from dra.kube.event_correlator import EventRecord, Regarding, log_level
from dra.kube.events import EventRecorder
from dra.kube.resources import CLAIMS, POD_GROUPS, PODS
from dra.model.meta import Key, Uid

ACTION: Final = "Reserve"
"""Value of the ``action`` field in all Events of the controller."""

REPEAT_AFTER: Final = 600.0
"""Seconds after which a persisting state is reported again: Events are kept for an hour."""

_RESOURCES: Final = {resource.kind: resource for resource in (CLAIMS, PODS, POD_GROUPS)}
"""The resources of the subjects of reasons, by kind."""

_State: TypeAlias = tuple[Code, Uid, tuple[str, ...]]

_log: Final = logging.getLogger(__name__)


class ClaimEvents:
    """A publisher of reasons that remembers what was published for each claim."""

    def __init__(self, recorder: EventRecorder, metrics: ControllerMetrics) -> None:
        self._recorder = recorder
        self._metrics = metrics
        self._published: dict[Key, dict[_State, Instant]] = {}

    def publish(self, key: Key, reasons: Iterable[Reason], *, now: Instant) -> None:
        """Report the reasons of a decision on the claim that are new; an effect is reported each time."""
        before = self._published.get(key, {})
        current: dict[_State, Instant] = {}
        for reason in reasons:
            words = tuple(value for _, value in reason.arguments if isinstance(value, str))
            state = (reason.code, reason.subject.uid, words)
            published_at = before.get(state)
            if reason.done:
                self.record(reason)
            elif published_at is None or now - published_at >= REPEAT_AFTER:
                self.record(reason)
                current[state] = now
            else:
                current[state] = published_at
        if current:
            self._published[key] = current
        else:
            self._published.pop(key, None)

    def forget(self, key: Key) -> None:
        """Forget the published reasons of a claim that is gone."""
        self._published.pop(key, None)

    def record(self, reason: Reason) -> None:
        """Report something that has been done, regardless of what was published for the claim."""
        _log.log(log_level(reason.severity), "%s", reason.text, extra={"reason": reason.code.value})
        self._metrics.reasons.labels(reason.code.value).inc()
        self._recorder.record(_event(reason))


def _event(reason: Reason) -> EventRecord:
    subject, resource = reason.subject, _RESOURCES[reason.subject.kind]
    namespace, name = subject.key
    return EventRecord(
        regarding=Regarding(
            api_version=resource.api_version, kind=resource.kind, namespace=namespace, name=name, uid=subject.uid
        ),
        reason=reason.code.value,
        action=ACTION,
        note=reason.note,
        severity=reason.severity,
    )
