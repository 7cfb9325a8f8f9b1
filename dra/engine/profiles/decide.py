"""The writes about profiles: the parameters of the admission policy, then the status of each profile.

The parameters come first: a status says what is in effect.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from dra.api.object_fields import Condition
from dra.engine.instants import Moment
from dra.engine.plan import Plan
from dra.engine.profiles.cache import ProfilesView
from dra.engine.profiles.evaluation import MAX_MESSAGE_LENGTH, Outcome
from dra.model.meta import Struct, Uid

READY: Final = "Ready"
CONFLICT: Final = "Conflict"
UNSUPPORTED: Final = "Unsupported"


class WriteParameters(Struct, frozen=True):
    """Give the admission policy the profiles."""

    spec: Mapping[str, Any]


class WriteConditions(Struct, frozen=True):
    """Say in the status of a profile what became of it."""

    name: str
    uid: Uid
    conditions: Sequence[Mapping[str, str]]


Action: TypeAlias = WriteParameters | WriteConditions


def decide(view: ProfilesView, *, now: Moment) -> Plan[Action, str]:
    """Return the writes that are due."""
    wanted = view.evaluation.parameters
    actions: list[Action] = [] if wanted == view.parameters else [WriteParameters(spec=wanted)]
    for outcome in view.evaluation.outcomes:
        conditions = conditions_of(outcome, now=now)
        if _differs(conditions, outcome.conditions):
            actions.append(WriteConditions(name=outcome.name, uid=outcome.uid, conditions=conditions))
    return Plan(actions=tuple(actions))


def conditions_of(outcome: Outcome, *, now: Moment) -> list[dict[str, str]]:
    """Return the conditions of a profile; a status that stays has the time of its transition."""
    reason, text = outcome.reason
    wanted = (
        (READY, reason == "Applied", reason, text),
        (CONFLICT, bool(outcome.conflicts), "FieldsSetTwice" if outcome.conflicts else "None", outcome.conflict_text),
        (UNSUPPORTED, bool(outcome.unsupported), "NoPolicy" if outcome.unsupported else "None", outcome.unsupported),
    )
    earlier = {condition.type: condition for condition in outcome.conditions}
    conditions = []
    for kind, holds, why, message in wanted:
        status = "True" if holds else "False"
        last = earlier.get(kind)
        stays = last is not None and last.status == status and last.last_transition_time is not None
        at = last.last_transition_time if last is not None and stays else datetime.fromtimestamp(now.wall, tz=UTC)
        conditions.append(
            {
                "type": kind,
                "status": status,
                "reason": why,
                "message": _shortened(message),
                "lastTransitionTime": f"{at:%Y-%m-%dT%H:%M:%SZ}",
            }
        )
    return conditions


def _differs(conditions: Sequence[Mapping[str, str]], before: Sequence[Condition]) -> bool:
    earlier = {condition.type: (condition.status, condition.reason, condition.message) for condition in before}
    return any(
        earlier.get(condition["type"]) != (condition["status"], condition["reason"], condition["message"])
        for condition in conditions
    )


def _shortened(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE_LENGTH else f"{message[: MAX_MESSAGE_LENGTH - 2]} …"
