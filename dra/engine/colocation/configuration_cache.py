"""The ConfigMap slo-controller-config as it is in force: each key in its last good content.

A ConfigMap that is deleted turns everything off, and so does a key that is gone. What is wrong with the present content
is told on the ConfigMap.
"""

from collections import Counter
from typing import Final

from dra.api.colocation.slo_configuration import (
    OFF,
    ConfigProblem,
    KeyConfiguration,
    SloConfiguration,
    read_slo_configuration,
)
from dra.api.colocation.well_known import (
    CONFIG_MAP,
    CONFIG_MAP_NAME,
    CONFIG_MAP_NAMESPACE,
    KEY_COLOCATION,
    KEY_QOS,
    KEY_THRESHOLD,
)
from dra.engine.colocation.reasons import ColocationEvent, ColocationReason, SubjectKind
from dra.engine.dirty_keys import Cache, DirtyKeys
from dra.model.meta import Key, Uid
from dra.model.node_pods import ConfigMap

SUBJECT: Final = f"ConfigMap {CONFIG_MAP_NAMESPACE}/{CONFIG_MAP_NAME}"


class SloConfigurationCache(Cache[Key]):
    """The configuration, and the problems to tell; ``dirty`` has the key of the ConfigMap."""

    def __init__(self) -> None:
        self.dirty: DirtyKeys[Key] = DirtyKeys()
        self.current: SloConfiguration = OFF
        self.uid = Uid("")
        """The uid of the ConfigMap; empty while there is none."""

    def observe(self, config_map: ConfigMap) -> None:
        """Read the ConfigMap; one with another uid has no last good content.

        What says the same stays the same object, by which others know that nothing has changed.
        """
        last = self.current if config_map.metadata.uid == self.uid else OFF
        read = read_slo_configuration(config_map.data, last=last)
        if read != self.current:
            self.current = read
        self.uid = config_map.metadata.uid
        self.dirty.add(CONFIG_MAP)

    def forget(self, config_map: ConfigMap) -> None:  # noqa: ARG002 - the signature of a subscriber
        """Turn everything off: the ConfigMap is deleted."""
        self.current, self.uid = OFF, Uid("")
        self.dirty.add(CONFIG_MAP)

    def mark_all_dirty(self) -> None:
        """Mark the ConfigMap as dirty."""
        self.dirty.add(CONFIG_MAP)

    def error_counts(self) -> dict[str, int]:
        """Return the number of errors in each key."""
        errors = Counter(problem.key for problem in self.current.problems if not problem.is_warning)
        return {key: errors[key] for key in (KEY_COLOCATION, KEY_THRESHOLD, KEY_QOS)}

    def events(self) -> tuple[ColocationEvent, ...]:
        """Return what is wrong with the ConfigMap."""
        return tuple(self._event(problem) for problem in self.current.problems)

    def overlap_event(self, first: str, second: str) -> ColocationEvent:
        """Return that a node matches two nodeConfigs; one that is in force has no mention of the node."""
        text = (
            f"{SUBJECT}: colocation-config: {first} and {second} match the same nodes; {first} counts there, since it "
            "comes first. Make the selectors exclude each other, or put the narrower one first"
        )
        return self._about(ColocationReason.NODE_CONFIGS_OVERLAP, text)

    def _event(self, problem: ConfigProblem) -> ColocationEvent:
        if problem.is_warning:
            return self._about(ColocationReason.CONFIG_QUESTIONABLE, f"{SUBJECT}: {problem}")
        if _content(self.current, problem.key) == KeyConfiguration():
            effect = (
                f"No valid content of {problem.key} is known since this process started, so its defaults are in "
                "effect, which switch it off"
            )
        else:
            effect = f"The last valid content of {problem.key} stays in effect"
        text = f"{SUBJECT}: {problem}. {effect}; correct the key"
        return self._about(ColocationReason.CONFIG_INVALID, text)

    def _about(self, reason: ColocationReason, text: str) -> ColocationEvent:
        return ColocationEvent(reason=reason, kind=SubjectKind.CONFIG_MAP, key=CONFIG_MAP, uid=self.uid, text=text)


def _content(configuration: SloConfiguration, key: str) -> KeyConfiguration:
    contents = {KEY_COLOCATION: configuration.colocation, KEY_THRESHOLD: configuration.threshold}
    return contents.get(key, configuration.qos)
