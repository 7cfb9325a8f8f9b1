"""A transport whose answers are written down before, and builders of answers."""

import asyncio
import contextlib
import json
from collections import deque

from dra.kube.client import Client
from dra.kube.errors import Unreachable, raise_for_status
from dra.kube.rate_limiter import RateLimiter
from dra.kube.transport import Response
from tests.dra.kube.virtual import LoopClock

FOREVER = object()
"""In a stream: nothing more comes, and the connection stays open."""

REFUSED = Unreachable("path", "connection refused", outcome_unknown=False)
BROKEN = Unreachable("path", "connection lost", outcome_unknown=True)


class Scripted:
    """Answers requests with `answers` and streams with `streams`, in order.

    An answer is a `Response`, an exception, or a function of the request that returns one of them. A stream is a list
    of blocks, seconds to wait (float), exceptions and `FOREVER`, or what an answer may be instead.
    """

    def __init__(self, *answers, streams=()):
        self.answers = deque(answers)
        self.streams = deque(streams)
        self.requests = []
        self.times = []
        """When each of them came."""
        self.closed = False

    async def send(self, request):
        self._note(request)
        assert self.answers, f"no answer left for {request.method} {request.path}"
        answer = self.answers.popleft()
        return self._given(answer, request)

    @contextlib.asynccontextmanager
    async def stream(self, request):
        self._note(request)
        assert self.streams, f"no stream left for {request.path}"
        stream = self.streams.popleft()
        if not isinstance(stream, list):
            raise_for_status(self._given(stream, request), request.path)
        yield self._blocks(stream)

    async def close(self):
        self.closed = True

    def _note(self, request):
        self.requests.append(request)
        self.times.append(asyncio.get_running_loop().time())

    @staticmethod
    def _given(answer, request):
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @staticmethod
    async def _blocks(stream):
        for item in stream:
            if item is FOREVER:
                await asyncio.get_running_loop().create_future()
            elif isinstance(item, float):
                await asyncio.sleep(item)
            elif isinstance(item, Exception):
                raise item
            else:
                yield item


class Handling(Scripted):
    """Answers every request with a function; an answer may also be awaited."""

    def __init__(self, handle):
        super().__init__()
        self.handle = handle

    async def send(self, request):
        self._note(request)
        answer = self.handle(request)
        if asyncio.iscoroutine(answer):
            answer = await answer
        return self._given(answer, request)


def client_of(transport, *, qps=1000.0, burst=1000.0, observer=None):
    clock = LoopClock()
    return Client(transport, RateLimiter(qps, burst, clock=clock), clock=clock, observer=observer)


def ok(obj, *, status=200):
    return Response(status, {}, json.dumps(obj).encode())


def refusal(code, reason="", message="no", *, headers=None, **details):
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return Response(code, headers or {}, json.dumps({**body, "details": details}).encode())


def pod(name, *, uid=None, version="1", namespace="ml", **metadata):
    identity = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": {**identity, **metadata}}


def page(*items, version="10", more=""):
    return ok({"metadata": {"resourceVersion": str(version), "continue": more}, "items": list(items)})


def frame(kind, obj):
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def bookmark(version):
    return frame("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})


def body_of(request):
    return json.loads(request.body)
