"""Injects faults between a client and the server: rules, drawn from a seed, in front of a `RequestHandler`.

A fault never makes the server lie: a real server, or the network in front of the server, could have given each answer
at that moment. So a component that breaks under faults is broken. For the single faults this means:

- A consistent read is never answered from the past. The answer may be late (`FaultRule.after`), which is the same to
  a client: the state has changed meanwhile. Only a read with ``resourceVersion=0`` may show an old state.
- A request that times out is not undone: it still arrives, possibly long after its client gave up.
- A watch keeps the order of events and omits none; it may lag, end, break, go silent or expire.
- A crash is a task that ends between two requests. The supervisor of the component restarts it.

The same wrapper serves the simulation (through `localplane.transport.LocalTransport`) and clients over HTTP.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
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
    """A fault of a request or of an open watch."""

    DELAY = "delay"  # up to `seconds` late; for a watch, the next block of frames is late
    STALE = "stale"  # the state of `revisions` ago, for reads with resourceVersion=0
    CONFLICT = "conflict"  # 409: another client has written first
    EXPIRED = "expired"  # 410: the history does not reach back that far
    BUSY = "busy"  # 429, with `seconds` as Retry-After
    ERROR = "error"  # 500
    REFUSED = "refused"  # no connection: the request was certainly not processed
    LOST = "lost"  # the connection breaks before the answer
    CRASH = "crash"  # the client itself crashes
    END = "end"  # the server closes the watch in order
    BREAK = "break"  # the connection of the watch breaks
    SILENCE = "silence"  # the watch stays open and sends no more events


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
"""Verbs of the requests that each fault can hit."""

WATCH_STREAM_FAULTS: Final = frozenset({Fault.DELAY, Fault.EXPIRED, Fault.END, Fault.BREAK, Fault.SILENCE})
"""Faults of an open watch: drawn for each block of frames; all other faults are drawn when the watch is opened."""

RESPONSE_FAULTS: Final = frozenset({Fault.DELAY, Fault.ERROR, Fault.LOST, Fault.CRASH})
"""Faults that can also hit the answer, after the server has processed the request."""


class FaultRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule that says when a fault happens; names are patterns such as ``*`` or ``sched*``."""

    fault: Fault
    component: str = "*"
    """Name of the client: a component of the plane, or the first word of a User-Agent."""
    verb: str = "*"
    """Verb of the API: get, list, watch, create, update, patch, delete, deletecollection."""
    resource: str = "*"
    """Resource, with group and subresource: ``pods``, ``resourceclaims.resource.k8s.io/status``."""
    probability: float = 1.0
    nth: int = 1
    """The first matching request that the rule can hit; earlier requests are spared."""
    times: int | None = None
    """Maximum number of times that the rule fires."""
    lasting: float | None = None
    """Seconds for which the rule is in force."""
    after: bool = False
    """Whether the fault hits the answer, after the server has processed the request (delay, error, lost, crash)."""
    seconds: float = 1.0
    closed_after: float | None = None
    """Seconds after which a silent watch is closed, as by a client that pings; null: its client closes the watch."""
    revisions: int = 10

    @property
    def on_response(self) -> bool:
        """Return whether the fault hits the answer, not the request."""
        return self.after and self.fault in RESPONSE_FAULTS


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """Verb, resource and name of a request, as rules name them."""

    verb: str
    resource: str
    name: str

    @property
    def group(self) -> str:
        """Return the API group of the resource."""
        return self.resource.partition("/")[0].partition(".")[2]

    @property
    def plural(self) -> str:
        """Return the resource without group and subresource."""
        return self.resource.partition("/")[0].partition(".")[0]


def request_info(request: Request) -> RequestInfo | None:
    """Return verb, resource and name of a request; None for paths of no resource."""
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
    verbs = {
        "GET": "get" if name else "watch" if _is_watch(request) else "list",
        "POST": "create",
        "PUT": "update",
        "PATCH": "patch",
        "DELETE": "delete" if name else "deletecollection",
    }
    return RequestInfo(verbs.get(request.method, request.method.lower()), resource, name)


def _is_watch(request: Request) -> bool:
    return request.query.get("watch") in {"true", "1"}


@dataclass(slots=True)
class _ActiveRule:
    """A rule in force, and how often the rule has matched and fired."""

    rule: FaultRule
    expires_at: float
    matched: int = 0
    fired: int = 0


class FaultInjector:
    """The fault rules in force; one instance serves all clients of a server."""

    def __init__(self, *, clock: Clock, random: Random, rules: Iterable[FaultRule] = ()) -> None:
        self.counts: Counter[Fault] = Counter()
        """Number of times that each fault has happened."""
        self.crash_component: Callable[[str], bool] = lambda _: False
        """Ends a component by name and returns whether the component is known; set by the supervisor."""
        self.current_revision: Callable[[], int] = lambda: 0
        """Returns the current revision of the server; set by the owner of the server."""
        self._clock = clock
        self._random = random
        self._active_rules: list[_ActiveRule] = []
        self.set(rules)

    @property
    def rules(self) -> list[FaultRule]:
        """Return the rules in force that may still fire."""
        return [active.rule for active in self._active_rules if not self._is_over(active)]

    def set(self, rules: Iterable[FaultRule]) -> None:
        """Replace all rules in force."""
        self._active_rules.clear()
        self.add(*rules)

    def add(self, *rules: FaultRule) -> None:
        """Add rules to the rules in force."""
        now = self._clock.now()
        for rule in rules:
            self._active_rules.append(
                _ActiveRule(rule, now + rule.lasting if rule.lasting is not None else float("inf"))
            )

    def draw(self, component: str, call: RequestInfo, *, excluding: frozenset[Fault] = frozenset()) -> list[FaultRule]:
        """Return the rules that fire for a request, or for a block of an open watch."""
        possible = [active for active in self._active_rules if active.rule.fault not in excluding]
        return [active.rule for active in possible if self._should_fire(active, component, call)]

    def draw_delay(self, rule: FaultRule) -> float:
        """Return the seconds of a delay, drawn from the range of its rule."""
        return self._random.uniform(0.0, rule.seconds)

    def _should_fire(self, active: _ActiveRule, component: str, call: RequestInfo) -> bool:
        rule = active.rule
        if not (
            call.verb in VERBS_OF_FAULT[rule.fault]
            and not self._is_over(active)
            and fnmatchcase(component, rule.component)
            and fnmatchcase(call.verb, rule.verb)
            and fnmatchcase(call.resource, rule.resource)
        ):
            return False
        active.matched += 1
        if active.matched < rule.nth or self._random.random() >= rule.probability:
            return False
        active.fired += 1
        self.counts[rule.fault] += 1
        return True

    def _is_over(self, active: _ActiveRule) -> bool:
        return self._clock.now() >= active.expires_at or (
            active.rule.times is not None and active.fired >= active.rule.times
        )


class FaultyHandler:
    """A `RequestHandler` that injects faults in front of another one, for one client."""

    def __init__(self, server: RequestHandler, faults: FaultInjector, *, component: str) -> None:
        self._server = server
        self._faults = faults
        self._component = component
        self._late_requests = BackgroundTasks()

    async def handle(self, request: Request) -> Response | WatchResponse:
        """Answer a request, or raise `Unreachable` as a failing network does."""
        if not self._faults.rules and not _is_watch(request):
            return await self._server.handle(request)
        call = request_info(request)
        if call is None:
            return await self._server.handle(request)
        rules = self._faults.draw(
            self._component, call, excluding=WATCH_STREAM_FAULTS if call.verb == "watch" else frozenset()
        )
        before, after = [rule for rule in rules if not rule.on_response], [rule for rule in rules if rule.on_response]
        remaining = await self._delay_request(request, before)
        if failed := await self._injected_failure(request, call, before):
            return failed
        response = await self._send(request, call, stale=next((r for r in before if r.fault is Fault.STALE), None))
        if isinstance(response, WatchResponse):
            return WatchResponse(self._faulty_blocks(response.blocks, request, call))
        await self._delay_response(request, after, remaining)
        return await self._injected_failure(request, call, after) or response

    async def close(self) -> None:
        """Cancel the late requests that have not reached the server yet."""
        await self._late_requests.close()

    async def _delay_request(self, request: Request, rules: Sequence[FaultRule]) -> float:
        """Delay a request; return the seconds that remain until its client times out."""
        seconds = self._total_delay(rules)
        if seconds >= request.timeout:
            self._deliver_after_timeout(request, seconds)
            await asyncio.sleep(request.timeout)
            raise _timeout_error(request)
        if seconds:
            await asyncio.sleep(seconds)
        return request.timeout - seconds

    async def _delay_response(self, request: Request, rules: Sequence[FaultRule], remaining: float) -> None:
        """Delay an answer, until its client times out at the latest."""
        seconds = self._total_delay(rules)
        if seconds:
            await asyncio.sleep(min(seconds, remaining))
        if seconds >= remaining:
            raise _timeout_error(request)

    def _total_delay(self, rules: Sequence[FaultRule]) -> float:
        return sum(self._faults.draw_delay(rule) for rule in rules if rule.fault is Fault.DELAY)

    def _deliver_after_timeout(self, request: Request, seconds: float) -> None:
        async def arrive() -> Response | WatchResponse:
            await asyncio.sleep(seconds)
            return await self._server.handle(request)

        self._late_requests.start(arrive(), name=f"late {request.method} {request.path}")

    async def _injected_failure(
        self, request: Request, call: RequestInfo, rules: Sequence[FaultRule]
    ) -> Response | None:
        """Return or raise the failure that the rules inject; None if the rules inject none."""
        for rule in rules:
            match rule.fault:
                case Fault.CONFLICT:
                    return status_errors.object_modified(call.plural, call.group, call.name).response
                case Fault.BUSY:
                    return _too_many_requests(rule)
                case Fault.ERROR:
                    return _etcd_timeout()
                case Fault.REFUSED:
                    raise Unreachable(request.path, "cannot connect: connection refused", outcome_unknown=False)
                case Fault.LOST:
                    raise Unreachable(request.path, "connection lost: reset by peer", outcome_unknown=True)
                case Fault.CRASH:
                    if self._faults.crash_component(self._component):
                        await asyncio.get_running_loop().create_future()  # never resolved: this task is being cancelled
                    raise Unreachable(request.path, "connection lost: reset by peer", outcome_unknown=True)
                case _:
                    pass
        return None

    async def _send(self, request: Request, call: RequestInfo, *, stale: FaultRule | None) -> Response | WatchResponse:
        if stale is None or request.query.get("resourceVersion") != "0":
            return await self._server.handle(request)
        return await self._stale_response(request, call, stale) or await self._server.handle(request)

    async def _stale_response(self, request: Request, call: RequestInfo, stale: FaultRule) -> Response | None:
        """Return the answer of `stale.revisions` ago; None if that revision is compacted or the answer was an error."""
        past = {"resourceVersion": str(max(1, self._faults.current_revision() - stale.revisions))}
        query = {**request.query, **past, "resourceVersionMatch": "Exact"}
        path = request.path
        if call.verb == "get":
            path = path.rpartition("/")[0]
            query["fieldSelector"] = f"metadata.name={call.name}"
        answer = await self._server.handle(msgspec.structs.replace(request, path=path, query=query))
        if not isinstance(answer, Response) or answer.status != HTTPStatus.OK:
            return None
        if call.verb == "list":
            return answer
        page = decode(answer.body)
        if not page.get("items"):
            return status_errors.not_found(call.plural, call.group, call.name).response
        one = {"kind": page["kind"].removesuffix("List"), "apiVersion": page["apiVersion"], **page["items"][0]}
        return Response(answer.status, answer.headers, encode(one))

    async def _faulty_blocks(
        self, blocks: AsyncGenerator[bytes], request: Request, call: RequestInfo
    ) -> AsyncGenerator[bytes]:
        """Yield the blocks of a watch until a fault ends the watch."""
        async with aclosing(blocks) as coming:
            async for block in coming:
                for rule in self._faults.draw(self._component, call, excluding=frozenset(Fault) - WATCH_STREAM_FAULTS):
                    match rule.fault:
                        case Fault.DELAY:
                            await asyncio.sleep(self._faults.draw_delay(rule))
                        case Fault.END:
                            return
                        case Fault.EXPIRED:
                            status = status_errors.expired(
                                "The resourceVersion for the provided watch is too old."
                            ).status
                            yield b'{"type":"ERROR","object":' + encode(status) + b"}\n"
                            return
                        case Fault.BREAK:
                            raise Unreachable(request.path, "connection lost: reset by peer", outcome_unknown=True)
                        case Fault.SILENCE:
                            if rule.closed_after is None:
                                await asyncio.get_running_loop().create_future()  # until the client closes the watch
                            else:
                                await asyncio.sleep(rule.closed_after)
                            return
                        case _:
                            pass
                yield block


def _timeout_error(request: Request) -> Unreachable:
    return Unreachable(request.path, f"no answer within {request.timeout:.3g} s", outcome_unknown=True)


def _too_many_requests(rule: FaultRule) -> Response:
    headers = {"content-type": "text/plain; charset=utf-8", "retry-after": str(max(1, round(rule.seconds)))}
    return Response(429, headers, b"Too many requests, please try again later.\n")


def _etcd_timeout() -> Response:
    """Return the 500 of a request timeout in etcd: the write may have happened."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return Response(
        500, {"content-type": JSON}, encode({**status, "message": "etcdserver: request timed out", "code": 500})
    )
