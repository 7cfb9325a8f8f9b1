"""What can go wrong between a client and the server: rules, drawn from a seed, in front of a `Handler`.

Theory. A fault never makes the server lie: each answer given here is one that a real server, or the network before it,
could have given at that moment. So whatever breaks under faults is broken. What that means for each:

- A consistent read is never answered from the past. It may be answered late (`Rule.after`), which is the same to a
  client: the world has moved on meanwhile. Only a read that asks for ``resourceVersion=0`` may show an old state.
- A request whose answer does not come in time is not undone: it still arrives, maybe long after its client gave up.
- A watch keeps the order and leaves nothing out; it may lag, end, break, go silent or forget where it was.
- A crash is a task that ends between two requests. Whoever runs the component restarts it.

The same wrapper serves the simulation (through `localplane.transport.LocalTransport`) and clients over HTTP.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from http import HTTPStatus
from random import Random
from typing import Final
from urllib.parse import unquote

import msgspec

from dra.kube.clock import Clock
from dra.kube.errors import Unreachable
from dra.kube.tasks import BackgroundTasks
from dra.kube.transport import JSON, Request, Response
from localplane import status_errors
from localplane.objects import decode, encode
from localplane.server import RequestHandler, WatchResponse

READ_VERBS: Final = frozenset({"get", "list"})
WRITE_VERBS: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
WATCH_VERBS: Final = frozenset({"watch"})


class Fault(StrEnum):
    """What happens to a request, or to a watch that is open."""

    DELAY = "delay"  # up to `seconds` later; of a watch, the next block of frames
    STALE = "stale"  # `revisions` ago, for reads that allow it
    CONFLICT = "conflict"  # 409: somebody else was faster
    EXPIRED = "expired"  # 410: the history does not reach back that far
    BUSY = "busy"  # 429, with `seconds` as Retry-After
    ERROR = "error"  # 500
    REFUSED = "refused"  # no connection: certainly nothing was done
    LOST = "lost"  # the connection breaks without an answer
    CRASH = "crash"  # the client itself ends
    END = "end"  # the watch ends in order
    BREAK = "break"  # its connection breaks
    SILENCE = "silence"  # nothing more comes, and nothing says so


VERBS_OF_FAULT: Final = {
    Fault.DELAY: READ_VERBS | WRITE_VERBS | WATCH_VERBS,
    Fault.STALE: READ_VERBS,
    Fault.CONFLICT: frozenset({"update", "patch"}),
    Fault.EXPIRED: WATCH_VERBS,
    Fault.BUSY: READ_VERBS | WRITE_VERBS | WATCH_VERBS,
    Fault.ERROR: READ_VERBS | WRITE_VERBS | WATCH_VERBS,
    Fault.REFUSED: READ_VERBS | WRITE_VERBS | WATCH_VERBS,
    Fault.LOST: READ_VERBS | WRITE_VERBS,
    Fault.CRASH: READ_VERBS | WRITE_VERBS,
    Fault.END: WATCH_VERBS,
    Fault.BREAK: WATCH_VERBS,
    Fault.SILENCE: WATCH_VERBS,
}
"""The verbs at which each fault can happen."""

WATCH_STREAM_FAULTS: Final = frozenset({Fault.DELAY, Fault.EXPIRED, Fault.END, Fault.BREAK, Fault.SILENCE})
"""What happens to a watch once it is open; drawn for each block of its frames, the others when it is opened."""

RESPONSE_FAULTS: Final = frozenset({Fault.DELAY, Fault.ERROR, Fault.LOST, Fault.CRASH})
"""What can also happen to the answer, when the server has done its work."""


class FaultRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When which fault happens. Names are patterns: ``*``, ``sched*``."""

    fault: Fault
    component: str = "*"
    """The client: a component of the plane, or the first word of a User-Agent."""
    verb: str = "*"
    """Of the API: get, list, watch, create, update, patch, delete, deletecollection."""
    resource: str = "*"
    """``pods``, ``resourceclaims.resource.k8s.io/status``."""
    probability: float = 1.0
    nth: int = 1
    """Spares as many requests less one."""
    times: int | None = None
    """At most so often."""
    lasting: float | None = None
    """Seconds from when the rule was set."""
    after: bool = False
    """Only when the server has done what was asked (delay, error, lost, crash)."""
    seconds: float = 1.0
    revisions: int = 10

    @property
    def late(self) -> bool:
        """Whether it happens to the answer, not to the request."""
        return self.after and self.fault in RESPONSE_FAULTS


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """What a request asks for, in the words of the rules."""

    verb: str
    resource: str
    name: str

    @property
    def group(self) -> str:
        """The group of the resource."""
        return self.resource.partition("/")[0].partition(".")[2]

    @property
    def plural(self) -> str:
        """The resource without group and subresource."""
        return self.resource.partition("/")[0].partition(".")[0]


def request_info(request: Request) -> RequestInfo | None:
    """Return what a request asks of which kind; None for paths that are not about objects."""
    match [unquote(part) for part in request.path.strip("/").split("/")]:
        case ["api", "v1", *rest] if rest:
            group = ""
        case ["apis", group, _, *rest] if rest:
            pass
        case _:
            return None
    match rest:
        case ["namespaces", _, plural, *tail] if plural not in {"status", "finalize"}:
            pass
        case [plural, *tail]:
            pass
    name = tail[0] if tail else ""
    resource = "/".join((f"{plural}.{group}" if group else plural, *tail[1:]))
    watching = request.query.get("watch") in {"true", "1"}
    verbs = {
        "GET": "get" if name else "watch" if watching else "list",
        "POST": "create",
        "PUT": "update",
        "PATCH": "patch",
        "DELETE": "delete" if name else "deletecollection",
    }
    return RequestInfo(verbs.get(request.method, request.method.lower()), resource, name)


@dataclass(slots=True)
class _ActiveRule:
    """A rule, and what has come of it."""

    rule: FaultRule
    ends: float
    met: int = 0
    fired: int = 0


class FaultInjector:
    """The rules in force; one instance for all clients of a server."""

    def __init__(self, *, clock: Clock, chance: Random, rules: Iterable[FaultRule] = ()) -> None:
        self.counts: Counter[Fault] = Counter()
        """How often each fault has happened."""
        self.crash: Callable[[str], bool] = lambda _: False
        """Ends a component, by its name, and tells whether it knows it; set by whoever runs the components."""
        self.revision: Callable[[], int] = lambda: 0
        """Tells how far the server is; set by whoever has the server."""
        self._clock = clock
        self._chance = chance
        self._standing: list[_ActiveRule] = []
        self.set(rules)

    @property
    def rules(self) -> list[FaultRule]:
        """The rules in force that may still fire."""
        return [each.rule for each in self._standing if not self._over(each)]

    def set(self, rules: Iterable[FaultRule]) -> None:
        """Put rules in the place of those in force."""
        self._standing.clear()
        self.add(*rules)

    def add(self, *rules: FaultRule) -> None:
        """Put rules beside those in force."""
        now = self._clock.now()
        for rule in rules:
            self._standing.append(_ActiveRule(rule, now + rule.lasting if rule.lasting is not None else float("inf")))

    def draw(self, component: str, call: RequestInfo, *, but: frozenset[Fault] = frozenset()) -> list[FaultRule]:
        """Return the rules that fire for a request, or for a block of an open watch."""
        possible = [each for each in self._standing if each.rule.fault not in but]
        return [each.rule for each in possible if self._should_fire(each, component, call)]

    def length(self, rule: FaultRule) -> float:
        """Return for how long a delay is."""
        return self._chance.uniform(0.0, rule.seconds)

    def _should_fire(self, each: _ActiveRule, component: str, call: RequestInfo) -> bool:
        rule = each.rule
        if not (
            call.verb in VERBS_OF_FAULT[rule.fault]
            and not self._over(each)
            and fnmatchcase(component, rule.component)
            and fnmatchcase(call.verb, rule.verb)
            and fnmatchcase(call.resource, rule.resource)
        ):
            return False
        each.met += 1
        if each.met < rule.nth or self._chance.random() >= rule.probability:
            return False
        each.fired += 1
        self.counts[rule.fault] += 1
        return True

    def _over(self, each: _ActiveRule) -> bool:
        return self._clock.now() >= each.ends or (each.rule.times is not None and each.fired >= each.rule.times)


class FaultyHandler:
    """A `Handler` before another one, as one client meets it."""

    def __init__(self, server: RequestHandler, faults: FaultInjector, *, component: str) -> None:
        self._server = server
        self._faults = faults
        self._component = component
        self._late = BackgroundTasks()

    async def handle(self, request: Request) -> Response | WatchResponse:
        """Answer a request, or fail as a network fails: `Unreachable`."""
        call = request_info(request)
        if call is None or (call.verb not in WATCH_VERBS and not self._faults.rules):
            return await self._server.handle(request)
        rules = self._faults.draw(
            self._component, call, but=WATCH_STREAM_FAULTS if call.verb == "watch" else frozenset()
        )
        before, after = [rule for rule in rules if not rule.late], [rule for rule in rules if rule.late]
        patience = await self._delay_request(request, before)
        if failed := await self._fail(request, call, before):
            return failed
        answer = await self._ask(request, call, stale=next((r for r in before if r.fault is Fault.STALE), None))
        if isinstance(answer, WatchResponse):
            return WatchResponse(self._blocks(answer.blocks, request, call))
        await self._delay_response(request, after, patience)
        return await self._fail(request, call, after) or answer

    async def close(self) -> None:
        """Forget the requests that are still on their way."""
        await self._late.close()

    async def _delay_request(self, request: Request, rules: Sequence[FaultRule]) -> float:
        """Let the request take its time; return what is left of its client's patience."""
        seconds = self._total_delay(rules)
        if seconds >= request.timeout:
            self._deliver_after_timeout(request, seconds)
            await asyncio.sleep(request.timeout)
            raise _timeout_error(request)
        if seconds:
            await asyncio.sleep(seconds)
        return request.timeout - seconds

    async def _delay_response(self, request: Request, rules: Sequence[FaultRule], patience: float) -> None:
        """Let the answer take its time."""
        seconds = self._total_delay(rules)
        if seconds:
            await asyncio.sleep(min(seconds, patience))
        if seconds >= patience:
            raise _timeout_error(request)

    def _total_delay(self, rules: Sequence[FaultRule]) -> float:
        return sum(self._faults.length(rule) for rule in rules if rule.fault is Fault.DELAY)

    def _deliver_after_timeout(self, request: Request, seconds: float) -> None:
        async def arrive() -> Response | WatchResponse:
            await asyncio.sleep(seconds)
            return await self._server.handle(request)

        self._late.start(arrive(), name=f"late {request.method} {request.path}")

    async def _fail(self, request: Request, call: RequestInfo, rules: Sequence[FaultRule]) -> Response | None:
        """Return or raise what the rules put in the place of the answer."""
        for rule in rules:
            match rule.fault:
                case Fault.CONFLICT:
                    return status_errors.object_modified(call.plural, call.group, call.name).response
                case Fault.BUSY:
                    return _too_many_requests(rule)
                case Fault.ERROR:
                    return _etcd_timeout()
                case Fault.REFUSED:
                    raise Unreachable(request.path, "cannot connect: connection refused", ambiguous=False)
                case Fault.LOST:
                    raise Unreachable(request.path, "connection lost: reset by peer", ambiguous=True)
                case Fault.CRASH:
                    if self._faults.crash(self._component):
                        await asyncio.get_running_loop().create_future()  # nobody resolves it: we are being cancelled
                    raise Unreachable(request.path, "connection lost: reset by peer", ambiguous=True)
                case _:
                    pass
        return None

    async def _ask(self, request: Request, call: RequestInfo, *, stale: FaultRule | None) -> Response | WatchResponse:
        if stale is None or request.query.get("resourceVersion") != "0":
            return await self._server.handle(request)
        return await self._stale_response(request, call, stale) or await self._server.handle(request)

    async def _stale_response(self, request: Request, call: RequestInfo, stale: FaultRule) -> Response | None:
        """Return the answer of `stale.revisions` ago, None if that is not remembered or was another one in kind."""
        past = {"resourceVersion": str(max(1, self._faults.revision() - stale.revisions))}
        query = {**request.query, **past, "resourceVersionMatch": "Exact"}
        path = request.path
        if call.verb == "get":
            path = path.rpartition("/")[0]
            query["fieldSelector"] = f"metadata.name={call.name}"
        answer = await self._server.handle(replace(request, path=path, query=query))
        if not isinstance(answer, Response) or answer.status != HTTPStatus.OK:
            return None
        if call.verb == "list":
            return answer
        found = decode(answer.body)
        if not found.get("items"):
            return status_errors.not_found(call.plural, call.group, call.name).response
        one = {"kind": found["kind"].removesuffix("List"), "apiVersion": found["apiVersion"], **found["items"][0]}
        return Response(answer.status, answer.headers, encode(one))

    async def _blocks(
        self, blocks: AsyncGenerator[bytes], request: Request, call: RequestInfo
    ) -> AsyncGenerator[bytes]:
        """Yield the blocks of a watch while all goes well."""
        async with aclosing(blocks) as coming:
            async for block in coming:
                for rule in self._faults.draw(self._component, call, but=frozenset(Fault) - WATCH_STREAM_FAULTS):
                    match rule.fault:
                        case Fault.DELAY:
                            await asyncio.sleep(self._faults.length(rule))
                        case Fault.END:
                            return
                        case Fault.EXPIRED:
                            status = status_errors.expired(
                                "The resourceVersion for the provided watch is too old."
                            ).status
                            yield b'{"type":"ERROR","object":' + encode(status) + b"}\n"
                            return
                        case Fault.BREAK:
                            raise Unreachable(request.path, "connection lost: reset by peer", ambiguous=True)
                        case Fault.SILENCE:
                            await asyncio.get_running_loop().create_future()  # until the client has had enough
                        case _:
                            pass
                yield block


def _timeout_error(request: Request) -> Unreachable:
    return Unreachable(request.path, f"no answer within {request.timeout:.3g} s", ambiguous=True)


def _too_many_requests(rule: FaultRule) -> Response:
    headers = {"content-type": "text/plain; charset=utf-8", "retry-after": str(max(1, round(rule.seconds)))}
    return Response(429, headers, b"Too many requests, please try again later.\n")


def _etcd_timeout() -> Response:
    """Return what comes when etcd does not answer in time: the write may have happened."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return Response(
        500, {"content-type": JSON}, encode({**status, "message": "etcdserver: request timed out", "code": 500})
    )
