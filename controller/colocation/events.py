"""Reports states of colocation, each once, as a log line, an Event and a count."""

import logging
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Final

from controller.colocation.metrics import ColocationMetrics
from dra.engine.colocation.reasons import ColocationEvent, SubjectKind
from dra.kube.event_correlator import EventRecord, Regarding, log_level
from dra.kube.events import EventRecorder
from dra.kube.resources import CONFIG_MAPS, NODES

ACTION: Final = "Colocate"
"""Value of the ``action`` field of the Events."""

_RESOURCES: Final = {SubjectKind.NODE: NODES, SubjectKind.CONFIG_MAP: CONFIG_MAPS}

_log: Final = logging.getLogger(__name__)


class StateEvents:
    """A publisher of states that remembers the published states by the key of the loop.

    A state of one object that many keys have is published once: two nodeConfigs that overlap do so on each of their
    nodes.
    """

    def __init__(self, recorder: EventRecorder, metrics: ColocationMetrics) -> None:
        self._recorder = recorder
        self._metrics = metrics
        self._published: dict[Hashable, frozenset[ColocationEvent]] = {}
        self._holders: Counter[ColocationEvent] = Counter()
        """State → number of keys that have it."""

    def publish(self, key: Hashable, states: Iterable[ColocationEvent]) -> None:
        """Publish the states that have begun since the last call."""
        now = frozenset(states)
        before = self._published.get(key, frozenset())
        for state in sorted(now - before, key=lambda state: state.text):
            if not self._holders[state]:
                self._record(state)
            self._holders[state] += 1
        for state in before - now:
            self._holders[state] -= 1
            if not self._holders[state]:
                del self._holders[state]
        if now:
            self._published[key] = now
        else:
            self._published.pop(key, None)

    def forget(self, key: Hashable) -> None:
        """Forget the states of an object that is gone."""
        self.publish(key, ())

    def _record(self, state: ColocationEvent) -> None:
        reason, resource = state.reason.value, _RESOURCES[state.kind]
        _log.log(log_level(state.severity), "%s", state.text, extra={"reason": reason})
        self._metrics.states.labels(reason).inc()
        namespace, name = state.key
        regarding = Regarding(
            api_version=resource.api_version, kind=resource.kind, namespace=namespace, name=name, uid=state.uid
        )
        self._recorder.record(
            EventRecord(regarding=regarding, reason=reason, action=ACTION, note=state.text, severity=state.severity)
        )
