"""What was written: by whom, when, on what, and what it changed."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from dra.local.store import Change, Event

HEARTBEATS: Final = frozenset({"leases.coordination.k8s.io", "events", "events.events.k8s.io"})
"""Collections in which there is always something to write."""

_SILENT: Final = frozenset({"resourceVersion", "managedFields", "generation"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One write, or a word about what happened besides."""

    at: float
    actor: str
    event: Event | None = None
    note: str = ""

    def __str__(self) -> str:
        if self.event is None:
            return f"{self.at:9.3f}  {self.actor:<12} {self.note}"
        key = self.event.now.key
        what = f"{key.collection.partition('.')[0]} {'/'.join(filter(None, (key.namespace, key.name)))}"
        return f"{self.at:9.3f}  {self.actor:<12} {what}: {told(self.event)}"


class Chronicle:
    """All writes of one run, in order."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.writes = 0
        self.last = 0.0
        """When something was written last that is no heartbeat."""
        self._digest = hashlib.sha256()

    def wrote(self, event: Event, *, actor: str, at: float) -> None:
        """Take in a write."""
        self.writes += 1
        self._digest.update(f"{at!r} {actor} {event.change} ".encode())
        self._digest.update(event.now.raw)
        if event.now.key.collection in HEARTBEATS or _beats(event):
            return
        self.last = at
        self.entries.append(Entry(at, actor, event))

    def note(self, text: str, *, actor: str, at: float) -> None:
        """Take in what happened besides."""
        self.entries.append(Entry(at, actor, note=text))

    @property
    def digest(self) -> str:
        """Equal for equal histories, to the byte."""
        return self._digest.hexdigest()

    def __str__(self) -> str:
        return "\n".join(map(str, self.entries))


def told(event: Event) -> str:
    """Return what a write has changed, on one line."""
    now = msgspec.json.decode(event.now.raw)
    if event.change is Change.DELETED:
        return "gone"
    if event.before is None:
        spec = msgspec.json.encode(now.get("spec", {})).decode()
        return f"created {_short(spec, 160)}"
    return "; ".join(_changes(msgspec.json.decode(event.before.raw), now)) or "touched"


def _beats(event: Event) -> bool:
    """Whether a write only says that a node is still there."""
    if event.now.key.collection != "nodes" or event.before is None:
        return False
    return all("eartbeat" in change for change in _changes(*_both(event)))


def _both(event: Event) -> tuple[Any, Any]:
    assert event.before is not None
    return msgspec.json.decode(event.before.raw), msgspec.json.decode(event.now.raw)


def _changes(before: Any, after: Any, path: str = "") -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after} - _SILENT):
            yield from _changes(before.get(name), after.get(name), f"{path}.{name}" if path else name)
    elif isinstance(before, list) or isinstance(after, list):
        old, new = [[_text(each) for each in side or ()] for side in (before, after)]
        gone, came = [e for e in old if e not in new], [e for e in new if e not in old]
        if gone or came:
            yield " ".join((path, *(f"-{e}" for e in gone), *(f"+{e}" for e in came)))
    elif before != after:
        yield f"{path}={_text(after)}"


def _text(value: Any) -> str:
    """Return a value in few words; references and conditions in fewer."""
    if isinstance(value, dict) and {"name", "uid"} <= value.keys():
        return f"{value.get('resource', value.get('kind', ''))}/{value['name']}({value['uid'][:6]})"
    if isinstance(value, dict) and {"type", "status"} <= value.keys():
        return f"{value['type']}={value['status']}" + (f"({value['reason']})" if value.get("reason") else "")
    return _short(msgspec.json.encode(value).decode(), 160)


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"
