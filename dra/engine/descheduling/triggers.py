"""The changes of objects that start a round at once: a plugin's `Trigger` becomes true for a Node, Pod or NodeMetric.

An object for which an expression stays true starts no further round: nodes report every few seconds. What cannot be
evaluated (a label that is not set) is false. The expressions are the plugin's; the objects are anybody's, so the size
of what is evaluated is bounded by what the informers keep.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from dra.cel.object_rules import CompiledRule, MalformedRuleError, RuleError
from dra.engine.descheduling.plugin import Trigger
from dra.model.meta import Uid

TRIGGER_KINDS: Final = ("Node", "Pod", "NodeMetric")
TRIGGERS_MAX: Final = 8
"""Maximum triggers of a plugin."""
EXPRESSION_MAX: Final = 1024
"""Maximum length of an expression, in characters."""


class MalformedTriggerError(ValueError):
    """A trigger that is none; the text says what is wrong."""


class CompiledTrigger(NamedTuple):
    """A trigger whose expression is compiled."""

    kind: str
    rule: CompiledRule


def compile_triggers(given: object) -> tuple[CompiledTrigger, ...]:
    """Return the compiled triggers of a plugin. Raises MalformedTriggerError."""
    if not isinstance(given, Iterable):
        raise MalformedTriggerError("triggers: is no tuple of Trigger(kind=…, when=…)")
    triggers = tuple(given)
    if len(triggers) > TRIGGERS_MAX:
        raise MalformedTriggerError(f"triggers: has {len(triggers)} entries, the limit is {TRIGGERS_MAX}")
    return tuple(_compiled(index, trigger) for index, trigger in enumerate(triggers))


def _compiled(index: int, trigger: object) -> CompiledTrigger:
    if not isinstance(trigger, Trigger):
        raise MalformedTriggerError(f"triggers[{index}]: is a {type(trigger).__name__}, not a Trigger")
    if trigger.kind not in TRIGGER_KINDS:
        raise MalformedTriggerError(f"triggers[{index}].kind: {trigger.kind!r} is none of {', '.join(TRIGGER_KINDS)}")
    if len(str(trigger.when)) > EXPRESSION_MAX:
        raise MalformedTriggerError(f"triggers[{index}].when: is longer than {EXPRESSION_MAX} characters")
    try:
        return CompiledTrigger(trigger.kind, CompiledRule(str(trigger.when)))
    except MalformedRuleError as error:
        raise MalformedTriggerError(f"triggers[{index}].when: {error}") from error


class TriggerWatch:
    """The objects for which triggers hold, so that only a change to true starts a round."""

    def __init__(self, triggers: Mapping[str, Iterable[CompiledTrigger]]) -> None:
        """Create a watch; ``triggers`` are those of each plugin, by its name."""
        self._by_kind: dict[str, list[tuple[str, int, CompiledRule]]] = {kind: [] for kind in TRIGGER_KINDS}
        for plugin, compiled in triggers.items():
            for index, trigger in enumerate(compiled):
                self._by_kind[trigger.kind].append((plugin, index, trigger.rule))
        self._holds: set[tuple[Uid, str, int]] = set()

    def watches(self, kind: str) -> bool:
        """Return whether changes of a kind can start a round."""
        return bool(self._by_kind.get(kind))

    def observe(self, kind: str, uid: Uid, obj: Any) -> frozenset[str]:  # noqa: ANN401 - any struct of the kind
        """Return the plugins of which a trigger became true by a change of an object."""
        rules = self._by_kind.get(kind)
        if not rules:
            return frozenset()
        content = msgspec.to_builtins(obj)
        return frozenset(self._changed_to_true(rules, uid, content))

    def forget(self, kind: str, uid: Uid) -> None:
        """Forget an object that is gone."""
        for plugin, index, _ in self._by_kind.get(kind, ()):
            self._holds.discard((uid, plugin, index))

    def _changed_to_true(
        self, rules: Iterable[tuple[str, int, CompiledRule]], uid: Uid, content: Mapping[str, Any]
    ) -> Iterator[str]:
        for plugin, index, rule in rules:
            key = (uid, plugin, index)
            if not _holds(rule, content):
                self._holds.discard(key)
            elif key not in self._holds:
                self._holds.add(key)
                yield plugin


def _holds(rule: CompiledRule, content: Mapping[str, Any]) -> bool:
    try:
        return rule.holds(content)
    except RuleError:
        return False
