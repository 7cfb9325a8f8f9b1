"""Reasons: one value feeds the Event, the condition, the log line, the metric label and the CLI."""

from collections.abc import Iterable
from typing import Final

from dra.engine.claims.codes import Code
from dra.engine.messages.remedies import without_commands
from dra.engine.messages.texts import singularize
from dra.model.event_type import EventType
from dra.model.meta import Key, Struct, Uid

LISTED_NAMES: Final = 5
"""Number of names that a text lists; further names are counted."""

LONGEST_ARGUMENT: Final = 300
"""Maximum number of characters of one argument in a text."""

_SHORT_KINDS: Final = {"ResourceClaim": "claim"}
"""Kinds with a common name that is shorter than the API's."""


class Subject(Struct, frozen=True):
    """The object that a reason is about."""

    kind: str
    key: Key
    uid: Uid

    def __str__(self) -> str:
        return f"{_SHORT_KINDS.get(self.kind, self.kind.lower())} {'/'.join(filter(None, self.key))}"


class Reason(Struct, frozen=True):
    """A reason with its numbers; equal reasons are one occurrence."""

    code: Code
    subject: Subject
    arguments: tuple[tuple[str, str | int], ...] = ()
    done: bool = False
    """Whether the reason reports an effect: it is published only after the write has succeeded."""

    @property
    def severity(self) -> EventType:
        """Return the event type; a warning needs the user's attention."""
        return self.code.severity

    @property
    def note(self) -> str:
        """Return the text without the object, as Events carry it."""
        return singularize(self.code.text.format(**{name: _printable(value) for name, value in self.arguments}))

    @property
    def text(self) -> str:
        """Return the whole sentence with the object first."""
        return f"{self.subject}: {self.note}"


def _printable(value: str | int) -> str | int:
    """Return an argument in readable form: names in lists may have any length and any characters."""
    if isinstance(value, int):
        return value
    text = without_commands("".join(c if c.isprintable() else repr(c)[1:-1] for c in value[:LONGEST_ARGUMENT]))
    return text if len(value) <= LONGEST_ARGUMENT else f"{text}…"


def claim_reason(code: Code, *, key: Key, uid: Uid, done: bool = False, **numbers: str | int) -> Reason:
    """Return a reason about a claim; its text may use ``namespace``, ``claim`` and ``uid``."""
    arguments = {"namespace": key[0], "claim": key[1], "uid": uid} | numbers
    subject = Subject(kind="ResourceClaim", key=key, uid=uid)
    return Reason(code=code, subject=subject, arguments=tuple(arguments.items()), done=done)


def pod_reason(code: Code, *, key: Key, uid: Uid, done: bool = False, **numbers: str | int) -> Reason:
    """Return a reason about a pod; its text may use ``namespace`` and ``name``."""
    arguments = {"namespace": key[0], "name": key[1]} | numbers
    subject = Subject(kind="Pod", key=key, uid=uid)
    return Reason(code=code, subject=subject, arguments=tuple(arguments.items()), done=done)


def list_names(names: Iterable[str]) -> str:
    """Return a few names for a text, and the number of further names."""
    listed = tuple(names)
    rest = len(listed) - LISTED_NAMES
    return ", ".join(listed[:LISTED_NAMES]) + (f" and {rest} more" if rest > 0 else "")
