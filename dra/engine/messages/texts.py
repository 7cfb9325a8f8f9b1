"""The documentation of reasons, and the singular forms of texts.

Each enum of reasons that users see (Events, conditions, metric labels, the command line) is an `ExplainedReason`: each
member is declared with its `Guidance`, and docs/reference/reasons.md is generated from them. Each reason that can alert
a user must have a page to read and a step to take.
"""

import re
from enum import StrEnum
from typing import Final, NamedTuple, Self

_ONE: Final = re.compile(
    r"(?<![\d/.,:-])(?<!of )1 (?P<kind>(?:unfinished |unlisted |more |equal |batch )?)"
    r"(?P<noun>pod|node|device|claim|tombstone)s\b"
    r"(?P<that>(?: that| in use| there)?(?: still)?)"
    r"(?: (?P<verb>use|wait|reference|end|have|hold|are)\b(?: are\b(?= gone))?)?"
)

_VERBS: Final = {
    "use": "uses",
    "wait": "waits",
    "reference": "references",
    "end": "ends",
    "have": "has",
    "hold": "holds",
    "are": "is",
}


class KeepsDevices(StrEnum):
    """The answer whether a claim keeps its devices while the reason lasts."""

    YES = "yes"
    NO = "–"  # the reason is about something else, or the devices are free


class Guidance(NamedTuple):
    """The documentation of a reason, each field a sentence or two in Markdown."""

    meaning: str
    cause: str
    remedy: str
    keeps_devices: KeepsDevices = KeepsDevices.NO


UNEXPLAINED: Final = Guidance("", "", "")
"""The default for type checkers: ``Code("HeldForReservation")`` looks a member up, and declares none."""


class ExplainedReason(StrEnum):
    """A closed set of reasons that users see; `explain` declares a member."""

    _value_: str
    guidance: Guidance

    def __new__(cls, word: str, guidance: Guidance = UNEXPLAINED, *_: object) -> Self:
        """Return a member that is its word, with its guidance."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.guidance = guidance
        return member


def explain(
    word: str, meaning: str, cause: str, remedy: str, keeps_devices: KeepsDevices = KeepsDevices.NO
) -> tuple[str, Guidance]:
    """Return the declaration of a reason: its word, and its guidance."""
    return word, Guidance(meaning, cause, remedy, keeps_devices)


def singularize(text: str) -> str:
    """Return the text with ``1 pods use it`` as ``1 pod uses it``."""
    return _ONE.sub(_one, text) if "1 " in text else text


def _one(match: re.Match[str]) -> str:
    verb = f" {_VERBS[match['verb']]}" if match["verb"] else ""
    gone = " is" if match[0].endswith(" are") and match["verb"] != "are" else ""
    return f"1 {match['kind']}{match['noun']}{match['that']}{verb}{gone}"
