"""The triggers of users' plugins, checked when the plugin is loaded: an error names the path of the mistake.

The expressions are the plugin's, the objects are anybody's: the number and length of expressions are bounded here, and
the size of what they are evaluated on by what the informers keep.
"""

from collections.abc import Iterable
from typing import Final

from dra.cel.object_rules import CompiledRule, MalformedRuleError
from dra.engine.descheduling.triggers import Trigger, TriggerKind

TRIGGERS_MAX: Final = 8
"""Maximum triggers of a plugin."""
EXPRESSION_MAX: Final = 1024
"""Maximum length of an expression, in characters."""


class MalformedTriggerError(ValueError):
    """A trigger that is none; the text says what is wrong."""


def checked_triggers(given: object) -> tuple[Trigger, ...]:
    """Return the triggers of a plugin. Raises MalformedTriggerError."""
    if not isinstance(given, Iterable):
        raise MalformedTriggerError("triggers: is no tuple of Trigger(kind=…, when=…)")
    triggers = tuple(given)
    if len(triggers) > TRIGGERS_MAX:
        raise MalformedTriggerError(f"triggers: has {len(triggers)} entries, the limit is {TRIGGERS_MAX}")
    return tuple(_checked(trigger, f"triggers[{index}]") for index, trigger in enumerate(triggers))


def _checked(trigger: object, path: str) -> Trigger:
    if not isinstance(trigger, Trigger):
        raise MalformedTriggerError(f"{path}: is a {type(trigger).__name__}, not a Trigger")
    kinds, kind, when = [known.value for known in TriggerKind], str(trigger.kind), str(trigger.when)
    if kind not in kinds:
        raise MalformedTriggerError(f"{path}.kind: {kind!r} is none of {', '.join(kinds)}")
    if len(when) > EXPRESSION_MAX:
        raise MalformedTriggerError(f"{path}.when: is longer than {EXPRESSION_MAX} characters")
    try:
        CompiledRule(when)
    except MalformedRuleError as error:
        raise MalformedTriggerError(f"{path}.when: {error}") from error
    return Trigger(kind=TriggerKind(kind), when=when)
