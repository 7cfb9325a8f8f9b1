"""What was written: by whom, when, on what, and what it changed."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from localplane.store import WatchCacheEvent, WatchEventType

HEARTBEATS: Final = frozenset({"leases.coordination.k8s.io", "events", "events.events.k8s.io"})
"""Collections in which there is always something to write."""

_IGNORED_FIELDS: Final = frozenset({"resourceVersion", "managedFields", "generation"})


@dataclass(frozen=True, slots=True)
class WriteLogEntry:
    """One write, or a word about what happened besides."""

    at: float
    actor: str
    event: WatchCacheEvent | None = None
    note: str = ""

    def __str__(self) -> str:
        if self.event is None:
            return f"{self.at:9.3f}  {self.actor:<12} {self.note}"
        key = self.event.object.key
        what = f"{key.collection.partition('.')[0]} {'/'.join(filter(None, (key.namespace, key.name)))}"
        return f"{self.at:9.3f}  {self.actor:<12} {what}: {describe_write(self.event)}"


class WriteLog:
    """All writes of one run, in order."""

    def __init__(self) -> None:
        self.entries: list[WriteLogEntry] = []
        self.writes = 0
        self.last_write_at = 0.0
        """When something was written last that is no heartbeat."""
        self._digest = hashlib.sha256()

    def record(self, event: WatchCacheEvent, *, actor: str, at: float) -> None:
        """Take in a write."""
        self.writes += 1
        self._digest.update(f"{at!r} {actor} {event.type} ".encode())
        self._digest.update(event.object.raw)
        if event.object.key.collection in HEARTBEATS or _is_heartbeat(event):
            return
        self.last_write_at = at
        self.entries.append(WriteLogEntry(at, actor, event))

    def note(self, text: str, *, actor: str, at: float) -> None:
        """Take in what happened besides."""
        self.entries.append(WriteLogEntry(at, actor, note=text))

    @property
    def digest(self) -> str:
        """Equal for equal histories, to the byte."""
        return self._digest.hexdigest()

    def __str__(self) -> str:
        return "\n".join(map(str, self.entries))


def describe_write(event: WatchCacheEvent) -> str:
    """Return what a write has changed, on one line."""
    now = msgspec.json.decode(event.object.raw)
    if event.type is WatchEventType.DELETED:
        return "gone"
    if event.previous is None:
        spec = msgspec.json.encode(now.get("spec", {})).decode()
        return f"created {_short(spec, 160)}"
    return "; ".join(_changes(msgspec.json.decode(event.previous.raw), now)) or "touched"


def _is_heartbeat(event: WatchCacheEvent) -> bool:
    """Whether a write only says that a node is still there."""
    if event.object.key.collection != "nodes" or event.previous is None:
        return False
    return all("eartbeat" in change for change in _changes(*_decode_both(event)))


def _decode_both(event: WatchCacheEvent) -> tuple[Any, Any]:
    assert event.previous is not None
    return msgspec.json.decode(event.previous.raw), msgspec.json.decode(event.object.raw)


def _changes(before: Any, after: Any, path: str = "") -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after} - _IGNORED_FIELDS):
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
