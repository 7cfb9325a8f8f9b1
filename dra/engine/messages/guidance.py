"""What people are told about a reason: what it means, how it comes about, and what to do.

Each enum of reasons that people get to see (Events, conditions, metric labels, the command line) has one
`Guidance` for each of its members, in a module ``meanings`` beside it; docs/reference/reasons.md is written from them.
A reason is a promise to whoever is woken by it: that there is something to read, and something to do.
"""

from enum import StrEnum
from typing import NamedTuple


class KeepsDevices(StrEnum):
    """Whether a claim keeps its devices while the reason lasts."""

    YES = "yes"
    NO = "–"  # it is not about that, or they are free


class Guidance(NamedTuple):
    """What is told of a reason, each a sentence or two in Markdown."""

    meaning: str
    cause: str
    remedy: str
    kept: KeepsDevices = KeepsDevices.NO
