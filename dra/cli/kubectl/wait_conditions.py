"""Parses ``--for`` of ``kubectl dra wait``: a state of a claim or a Reservation, or a condition of its status."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import click
from click.shell_completion import CompletionItem

DELETED: Final = "deleted"

WAITED_STATES: Final[Mapping[str, Sequence[str]]] = {
    "claim": ("released", "allocated", DELETED),
    "reservation": ("available", "ended", DELETED),
}
"""Kind → the states to wait for, the default first."""

_STATES: Final = tuple(dict.fromkeys(state for states in WAITED_STATES.values() for state in states))
_CONDITION: Final = "condition="


class WaitCondition(NamedTuple):
    """The condition to wait for: a state of `WAITED_STATES`, or a condition of the object's status."""

    state: str = ""
    type: str = ""
    status: str = "true"

    def __str__(self) -> str:
        """Return the condition for messages: ``available``, ``condition Ready=False``."""
        return self.state or f"condition {self.type}" + ("" if self.status == "true" else f"={self.status}")


def parse_wait_condition(text: str) -> WaitCondition | None:
    """Return the condition of ``released``, ``delete`` or ``condition=TYPE[=STATUS]``; None for another form.

    A condition with the name of a state is the state: a Reservation's phase tells whether it is available.
    """
    words = text.lower()
    if words == "delete":
        return WaitCondition(DELETED)
    if words in _STATES:
        return WaitCondition(words)
    if not words.startswith(_CONDITION):
        return None
    name, _, status = text[len(_CONDITION) :].partition("=")
    status = status.lower() or "true"
    if name.lower() in _STATES and status == "true":
        return WaitCondition(name.lower())
    return WaitCondition(type=name, status=status) if name else None


class WaitConditionParam(click.ParamType):  # type: ignore[type-arg] # not generic in click 8.3
    """The type of ``--for``, whose value is a `WaitCondition`."""

    name = "CONDITION"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return the conditions that the help shows."""
        del param, ctx
        return "|".join((*_STATES, f"{_CONDITION}TYPE"))

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> WaitCondition:
        """Return the condition that the value names."""
        condition = value if isinstance(value, WaitCondition) else parse_wait_condition(str(value))
        if condition is None:
            self.fail(
                f"{value!r} is not a condition; use {', '.join(_STATES)} or {_CONDITION}TYPE[=STATUS]", param, ctx
            )
        return condition

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the states of the kind that begin with the incomplete word; those of all kinds for an unknown kind."""
        del param
        typed = ctx.params.get("what") or next(iter(ctx.args), "")  # click assigns no argument while an option is open
        kind = str(typed).partition("/")[0].lower().rstrip("s")
        known = {"reservation": "reservation", "rsv": "reservation", "claim": "claim", "resourceclaim": "claim"}
        states = WAITED_STATES.get(known.get(kind, ""), _STATES)
        offered = (*states, *((f"{_CONDITION}Available",) if "available" in states else ()))
        return [CompletionItem(offer) for offer in offered if offer.startswith(incomplete)]
