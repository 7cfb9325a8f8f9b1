"""What can go wrong between a client and its API server, as values, and the drawing of what goes wrong next.

Knows no network: `tests.scenarios.proxy` carries out what is drawn here. One seed replays the same draws, as far as
the requests come in the same order.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

READS: Final = frozenset({"get", "list", "watch"})
WRITES: Final = frozenset({"create", "patch", "update", "delete"})

_PATH: Final = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/[^/]+(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<subresource>[^/]+))?)?"
)
_VERBS: Final = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}


class Kind(StrEnum):
    """What goes wrong."""

    OVERLOAD = "overload"  # 429 with Retry-After; the server does nothing
    LOST_ANSWER = "lost-answer"  # 500, after the server has done it
    CONFLICT = "conflict"  # another client writes the object right before: a real 409
    CUT = "cut"  # a watch breaks in the middle of a frame
    ENDED = "ended"  # the server ends a watch early, as it does with slow clients
    EXPIRED = "expired"  # 410: an ERROR event in a watch, or the answer to a further page of a list
    STALL = "stall"  # done, but not a byte of the answer comes for a while; then it goes on
    LATE = "late"  # each event of a watch comes later, by a time that is drawn for it, and the events stay in order
    HELD = "held"  # reaches the server only when it is let go, whether its client still waits or not


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Which requests it befalls, and how often."""

    kind: Kind
    verbs: frozenset[str] = READS | WRITES
    path: str = ""
    """A regular expression to be found in the path."""
    body: str = ""
    """A regular expression to be found in what is sent."""
    share: float = 1.0
    """How likely each of those requests meets it."""
    times: int | None = None
    """How often at most."""
    seconds: float = 1.0
    """Of Retry-After, of silence, or until a watch ends; at most, for how late an event comes."""

    def befalls(self, call: Call) -> bool:
        """Tell whether it is about such a request."""
        return (
            call.verb in self.verbs
            and re.search(self.path, call.path) is not None
            and re.search(self.body, call.body) is not None
            and (self.kind is not Kind.LATE or call.verb == "watch")
            and (self.kind is not Kind.EXPIRED or call.verb == "watch" or call.continued)
        )


@dataclass(frozen=True, kw_only=True)
class Call:
    """A request as the API understands it; verbs are those of RBAC."""

    verb: str
    path: str
    resource: str
    """Plural, with the subresource: ``resourceclaims/status``."""
    namespace: str = ""
    name: str = ""
    body: str = ""
    continued: bool = False
    """Whether it asks for a further page of a list."""

    @classmethod
    def of(cls, method: str, path: str, *, query: Mapping[str, str], body: bytes = b"") -> Call:
        """Read a request."""
        found = _PATH.fullmatch(path)
        parts = {key: value or "" for key, value in found.groupdict().items()} if found else {}
        name, subresource = parts.get("name", ""), parts.get("subresource", "")
        if method == "GET":
            verb = "watch" if query.get("watch") == "true" else "get" if name or not parts else "list"
        else:
            verb = _VERBS[method]
        plural = parts.get("plural", "-")
        return cls(
            verb=verb,
            path=path,
            resource=f"{plural}/{subresource}" if subresource else plural,
            namespace=parts.get("namespace", ""),
            name=name,
            body=body.decode(errors="replace"),
            continued="continue" in query,
        )

    @property
    def object_path(self) -> str:
        """The path of the object itself, if it is about one or about a part of one."""
        return self.path.removesuffix("/status")


class Faults:
    """The faults in force."""

    def __init__(self, seed: int) -> None:
        self.met: Final[Counter[Kind]] = Counter()
        """How many requests have met a fault of each kind."""
        self._chance: Final = Random(seed)  # noqa: S311 - is to be repeatable
        self._in_force: tuple[Fault, ...] = ()
        self._drawn: Counter[Fault] = Counter()

    def put(self, faults: Iterable[Fault]) -> None:
        """Put these in force, instead of those before."""
        self._in_force = tuple(faults)
        self._drawn.clear()

    @property
    def pages(self) -> bool:
        """Whether lists are to have further pages, so that asking for one can come too late."""
        return any(fault.kind is Kind.EXPIRED and "list" in fault.verbs for fault in self._in_force)

    def delay(self, fault: Fault) -> float:
        """Draw how many seconds later the next event of a watch comes."""
        return self._chance.uniform(0, fault.seconds)

    def draw(self, call: Call) -> Fault | None:
        """Return what befalls this request: the first that applies, by chance."""
        for fault in self._in_force:
            if fault.times is not None and self._drawn[fault] >= fault.times:
                continue
            if fault.befalls(call) and self._chance.random() < fault.share:
                self._drawn[fault] += 1
                self.met[fault.kind] += 1
                return fault
        return None
