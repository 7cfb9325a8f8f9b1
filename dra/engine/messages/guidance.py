"""Guidance on a reason for users: its meaning, its cause, and the remedy.

Each enum of reasons that users see (Events, conditions, metric labels, the command line) has one `Guidance` for each of
its members, in a module ``meanings`` beside it; docs/reference/reasons.md is generated from them. Each reason that can
alert a user must have a page to read and a step to take.
"""

from enum import StrEnum
from typing import NamedTuple


class KeepsDevices(StrEnum):
    """The answer whether a claim keeps its devices while the reason lasts."""

    YES = "yes"
    NO = "–"  # the reason is about something else, or the devices are free


class Guidance(NamedTuple):
    """The documentation of a reason, each field a sentence or two in Markdown."""

    meaning: str
    cause: str
    remedy: str
    kept: KeepsDevices = KeepsDevices.NO
