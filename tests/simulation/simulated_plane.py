"""The part of a simulated cluster that all simulations with users share: an API server, its clients, and the history.

A cluster adds processes, and a checker for its writes.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final, Protocol

import msgspec

from dra.kube.backoff import JITTER
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from dra.kube.resources import Resource
from dra.kube.transport import JSON, MERGE_PATCH, Request, Response, Transport
from localplane.fault_injection import FaultInjector
from localplane.objects import Object
from localplane.schemas.builtin_schemas import Dialect
from localplane.server import ApiServer, RequestHandler, WatchResponse
from localplane.store import ObjectKey, WatchCacheEvent
from tests.dra.engine.simulation.violation import Violation
from tests.simulation.processes import SimulatedProcess
from tests.simulation.virtual_loop import LoopClock, VirtualLoop
from tests.simulation.write_log import WriteLog

USER: Final = "user"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RESTART_SECONDS: Final = 3.0
"""Seconds for which a process is down that a fault has ended."""

UNLIMITED: Final = 1e6


class WriteChecker(Protocol):
    """The rules of a simulation for each write."""

    def check_write(self, event: WatchCacheEvent, *, actor: str) -> None:
        """Raise Violation for a write that breaks a rule."""
        ...


class SimulatedPlane:
    """An API server on virtual time, with users and the record of all writes."""

    safety: WriteChecker

    def __init__(self, loop: VirtualLoop, *, seed: int) -> None:
        JITTER.seed(seed)
        self.clock = LoopClock(loop)
        self.server = ApiServer(api=Dialect.STOCK, clock=self.clock, random=Random(seed))
        self.faults = FaultInjector(clock=self.clock, random=Random(seed + 1))
        self.faults.crash_component = self._crash
        self.faults.current_revision = lambda: self.server.store.revision
        self.write_log = WriteLog()
        self.actor = USER
        self.violation: Violation | None = None
        self.effects: Counter[str] = Counter()
        """Number of times that each kind of operation, or outcome, occurred."""
        self.processes: dict[str, SimulatedProcess] = {}
        self._loop = loop
        self._random = Random(seed + 2)
        self._watch_writes()

    def _client(self, transport: Transport) -> Client:
        return Client(transport, RateLimiter(UNLIMITED, int(UNLIMITED), clock=self.clock), clock=self.clock)

    def kill(self, component: str, *, down: float) -> bool:
        """End a process between two instructions; the process starts again after `down` seconds."""
        killed = self.processes[component].kill(down=down)
        if killed:
            self.note(f"{component} ends, and starts again in {down:g} s")
        return killed

    def _crash(self, component: str) -> bool:
        return self.kill(component, down=RESTART_SECONDS)

    def later(self, seconds: float, act: Callable[[], Any]) -> None:
        """Perform an action after some seconds."""
        self._loop.call_later(seconds, lambda: self._loop.create_task(act()))

    def fault_counts(self) -> Counter[str]:
        """Return how often each kind of fault occurred."""
        return Counter({str(fault): count for fault, count in self.faults.counts.items()})

    def note(self, text: str) -> None:
        """Write a line into the history."""
        self.write_log.note(text, actor="simulation", at=self.clock.now())

    def _connection(self, actor: str) -> RequestHandler:
        """Return the API server for an actor, whose name each of its writes has."""
        return ActorConnection(self, actor)

    # Objects

    def find(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return an object as the API server has it."""
        found = self.server.store.get(ObjectKey(resource.label, namespace, name))
        return msgspec.json.decode(found.raw) if found is not None else None

    def all(self, resource: Resource) -> list[Object]:
        """Return all objects of a kind."""
        return [msgspec.json.decode(each.raw) for each in self.server.store.snapshot(resource.label)]

    async def create(self, resource: Resource, namespace: str, body: Object) -> bool:
        """Create an object as a user; a name that is taken keeps its object."""
        typed = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        return await self.create_at(resource.path(namespace or None), typed)

    async def create_at(self, path: str, body: Object) -> bool:
        return await self._request("POST", path, body, accepted_errors=(404, 409))

    async def delete(self, resource: Resource, namespace: str, name: str, *, grace: int | None = None) -> bool:
        """Delete an object as a user."""
        options = {"gracePeriodSeconds": grace} if grace is not None else {}
        return await self._request("DELETE", resource.path(namespace or None, name), options, accepted_errors=(404,))

    async def patch(
        self, resource: Resource, namespace: str, name: str, body: Object, subresource: str | None = None
    ) -> bool:
        """Patch an object as a user."""
        path = resource.path(namespace or None, name, subresource)
        return await self._request("PATCH", path, body, accepted_errors=(404, 409, 422))

    async def _request(self, method: str, path: str, body: Object, *, accepted_errors: tuple[int, ...] = ()) -> bool:
        kind = MERGE_PATCH if method == "PATCH" else JSON
        request = Request(method=method, path=path, body=msgspec.json.encode(body), content_type=kind, timeout=30.0)
        response = await self._connection(USER).handle(request)
        assert isinstance(response, Response)
        if response.status >= 300 and response.status not in accepted_errors:
            raise Violation(f"{method} {path}: {response.status} {response.body.decode()}")
        return response.status < 300

    # Every write is checked at the moment it is done.

    def _watch_writes(self) -> None:
        store = self.server.store
        remember = store._record_event

        def remember_and_check(collection: Any, event: WatchCacheEvent) -> None:
            remember(collection, event)
            self.write_log.record(event, actor=self.actor, at=self.clock.now())
            if self.violation is None:
                try:
                    self.safety.check_write(event, actor=self.actor)
                except Violation as violation:
                    self.failed(violation)

        store._record_event = remember_and_check

    def failed(self, violation: Violation) -> None:
        """End the run after this step: whatever follows a violation proves nothing."""
        if self.violation is None:
            self.violation = violation
            self._loop.stop()


class ActorConnection:
    """The API server with the author of each request."""

    def __init__(self, plane: SimulatedPlane, actor: str) -> None:
        self._plane = plane
        self._actor = actor

    async def handle(self, request: Request) -> Response | WatchResponse:
        self._plane.actor = self._actor
        return await self._plane.server.handle(request)
