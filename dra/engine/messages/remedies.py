"""Remedies by what they cost: a command that is safe to paste, or a decision that the user takes.

Users paste what a program prints without reading it twice. So a printed command that changes a cluster

1. changes only the objects that it names, and these are in the namespace that the user asked about;
2. ends no working pod, even when it is pasted minutes later;
3. reverts no deliberate change: no cordon, taint, label, annotation or finalizer of another owner.

`SafeCommand` is the type of such a command; tests/advice runs each of them and compares the cluster before and after.
Everything else is a `WeighedChoice`: the choice and its consequence in words. No text outside of `SafeCommand` contains
a command that changes anything, so a line taken out of an Event or of a `WeighedChoice` only reads.
"""

import re
from typing import Final

from dra.model.meta import Struct

_READING: Final = re.compile(
    r"(?:(?:get|describe|logs|explain|events|top|wait|version|api-resources|api-versions|cluster-info|diff|options|edit"
    r"|auth (?:can-i|whoami)|rollout (?:status|history)|config (?:view|current-context|get-contexts))\b"
    r"|dra (?:explain|why|audit|get|tree|usage|wait|reservations|migrations|preflight|simulate|completion|bundle|ui)\b"
    r"|dra colocation why\b"
    r"|dra downgrade\b(?!.*--(?:apply|purge|give-up))"
    r"|dra(?! *[a-z]))"
)
"""Words after ``kubectl`` that change nothing; ``edit`` opens an editor, and saving there is the user's decision."""

_COMMAND: Final = re.compile(r"\bkubectl +([a-z][^`|;&\n]*)")
_HELP: Final = re.compile(r" --help\b| --dry-run(?:=client|=server)?\b")


class SafeCommand(Struct, frozen=True):
    """A command that is safe to paste as it stands; a template until names are filled in."""

    command: str


class WeighedChoice(Struct, frozen=True):
    """A decision in words: the options, and the consequences of each.

    Raises ValueError if the text has a command that changes anything.
    """

    text: str

    def __post_init__(self) -> None:
        commands = changing_commands(self.text)
        if commands:
            raise ValueError(f"{commands[0]}: describe a decision in words, since users paste commands")


Remedy = SafeCommand | WeighedChoice


def without_commands(name: str) -> str:
    """Return a foreign name or value with its commands disabled, so that no shell runs them."""
    return name.replace("kubectl ", "kubectl: ")


def changing_commands(text: str) -> list[str]:
    """Return the kubectl commands in a text that change the cluster."""
    return [
        f"kubectl {words.strip()}"
        for words in _COMMAND.findall(text)
        if not _READING.match(words) and not _HELP.search(words)
    ]
