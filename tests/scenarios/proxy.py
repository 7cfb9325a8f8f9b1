"""A reverse proxy between one client and the API server that lets things go wrong on the way, as `Fault` values say.

Plain HTTP on loopback, and one proxy per client: what is held back or counted is that client's. The client's own
credentials go through, so its rights are the server's to judge. What a client has given up waiting for goes on here:
nobody can take back what is under way.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import aiohttp
from aiohttp import web

from tests.cluster import kubeconfig
from tests.cluster.ports import LOOPBACK
from tests.scenarios.credentials import Credentials
from tests.scenarios.eventually import eventually
from tests.scenarios.faults import Call, Fault, Faults, Kind

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from pathlib import Path
    from types import TracebackType

PAGE: Final = "20"
"""Items per page where lists are to have further pages; clients ask for 500."""

TOUCHED: Final = "scenario.dra/touched"
"""The annotation by which another client causes a conflict."""

HALF_A_FRAME: Final = b'{"type":"MODIFIED","object":{"kind":"'

_FORWARDED: Final = ("Authorization", "Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_RETURNED: Final = ("Content-Type", "Content-Encoding", "Retry-After")
_UNLIMITED: Final = aiohttp.ClientTimeout(total=None)


@dataclass(kw_only=True)
class Exchange:
    """One request and what became of it."""

    call: Call
    came: float
    """When it came, `time.monotonic()`."""
    fault: Kind | None
    answer: int | None = None
    """The status that the server gave, whatever its client got to see; None while or if there is none."""
    answered: float | None = None
    """When it did."""


class Proxy:
    """The way of one client to the API server; a context manager."""

    def __init__(self, way: Path, *, admin: Path, seed: int = 0) -> None:
        self.exchanges: Final[list[Exchange]] = []
        self.faults: Final = Faults(seed)
        self.url = ""
        self._way: Final = way
        self._client: Final = Credentials.read(way)
        self._admin: Final = Credentials.read(admin)
        self._stack: Final = AsyncExitStack()
        self._watches: Final[set[asyncio.Timeout]] = set()
        self._gate = asyncio.Event()
        self._line = asyncio.Event()
        self._line.set()

    async def __aenter__(self) -> Self:
        # As client-go, our clients send no credentials without TLS: the proxy adds those of its way.
        self._server = await self._stack.enter_async_context(_session(self._client, headers=self._client.headers))
        self._somebody = await self._stack.enter_async_context(_session(self._admin, headers=self._admin.headers))
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, LOOPBACK, 0).start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def kubeconfig(self, path: Path) -> Path:
        """Write the kubeconfig for going this way."""
        return kubeconfig.via(path, kubeconfig=self._way, server=self.url)

    def inject(self, *faults: Fault) -> None:
        """Put faults in force, in the place of those before; watches that are open break, to meet theirs as well."""
        self.faults.put(faults)
        if any("watch" in fault.verbs for fault in faults):
            for watch in self._watches:
                watch.reschedule(asyncio.get_running_loop().time())

    async def met(self, kind: Kind, *, times: int = 1, within: float) -> bool:
        """Wait until that many more requests have met a fault of the kind; tell whether they have in time."""
        target = self.faults.met[kind] + times
        with suppress(AssertionError):
            await eventually(lambda: self.faults.met[kind] >= target, within=within, saying=f"{kind} was met")
        return self.faults.met[kind] >= target

    def let_go(self) -> list[Exchange]:
        """Let what was held reach the server; return it."""
        held = [each for each in self.exchanges if each.fault is Kind.HELD and each.answer is None]
        self._gate.set()
        self._gate = asyncio.Event()
        return held

    def freeze(self) -> None:
        """Let no byte through, in neither direction; connections stay open."""
        self._line.clear()

    def thaw(self) -> None:
        """Go on."""
        self._line.set()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        call = Call.of(request.method, request.path, query=request.query, body=body)
        fault = self.faults.draw(call)
        exchange = Exchange(call=call, came=time.monotonic(), fault=fault.kind if fault else None)
        self.exchanges.append(exchange)
        await self._line.wait()
        if fault is not None:
            if early := _instead(fault, call):
                return early
            await self._before(fault, call)
        try:
            if call.verb == "watch":
                return await self._stream(request, exchange, fault)
            return await self._once(request, body, exchange, fault)
        except (aiohttp.ClientError, ConnectionError):
            _break(request)  # the server is away, or the client
            return web.Response(status=502)

    async def _before(self, fault: Fault, call: Call) -> None:
        """Let happen what happens before the server gets the request."""
        if fault.kind is Kind.HELD:
            await self._gate.wait()
        elif fault.kind is Kind.CONFLICT:
            touched = {"metadata": {"annotations": {TOUCHED: str(time.monotonic_ns())}}}
            merge = {"Content-Type": "application/merge-patch+json"}
            async with self._somebody.patch(call.object_path, data=json.dumps(touched), headers=merge) as answer:
                await answer.read()

    async def _once(
        self, request: web.Request, body: bytes, exchange: Exchange, fault: Fault | None
    ) -> web.StreamResponse:
        query = dict(request.query)
        if self.faults.pages and "limit" in query and exchange.call.verb == "list":
            query["limit"] = PAGE
        async with self._server.request(
            request.method,
            request.path,
            params=query,
            data=body or None,
            headers=_some(request.headers, _FORWARDED),
            allow_redirects=False,
        ) as found:
            content = await found.read()
        exchange.answer, exchange.answered = found.status, time.monotonic()
        if fault is not None and fault.kind is Kind.STALL:
            await asyncio.sleep(fault.seconds)
        if fault is not None and fault.kind is Kind.LOST_ANSWER and found.ok:
            return _refusal(500, "InternalError", "etcdserver: request timed out")
        await self._line.wait()
        return web.Response(status=found.status, body=content, headers=_some(found.headers, _RETURNED))

    async def _stream(self, request: web.Request, exchange: Exchange, fault: Fault | None) -> web.StreamResponse:
        kind = fault.kind if fault is not None else None
        ends = fault.seconds if fault is not None and kind in {Kind.CUT, Kind.ENDED} else None
        async with self._server.get(
            request.path, params=dict(request.query), headers=_some(request.headers, _FORWARDED)
        ) as found:
            exchange.answer, exchange.answered = found.status, time.monotonic()
            answer = web.StreamResponse(status=found.status, headers=_some(found.headers, _RETURNED))
            await answer.prepare(request)
            if kind is Kind.EXPIRED:
                await answer.write(_EXPIRED_EVENT)
                return answer
            if fault is not None and kind is Kind.STALL:
                await asyncio.sleep(fault.seconds)
            try:
                async with asyncio.timeout(ends) as until:
                    self._watches.add(until)
                    chunks = found.content.iter_any()
                    if fault is not None and kind is Kind.LATE:
                        chunks = self._late(found.content, fault)
                    async for chunk in chunks:
                        await self._line.wait()
                        await answer.write(chunk)
            except TimeoutError:
                if kind is not Kind.ENDED:
                    await answer.write(HALF_A_FRAME)
                    _break(request)
            finally:
                self._watches.discard(until)
        return answer

    async def _late(self, content: aiohttp.StreamReader, fault: Fault) -> AsyncGenerator[bytes]:
        """Yield the events of a watch, each some time after it came, and none before the one that came before it."""
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def take() -> None:
            async for line in _lines(content):
                waiting.put_nowait((time.monotonic() + self.faults.delay(fault), line))
            waiting.put_nowait((0.0, b""))

        taking = asyncio.create_task(take())
        try:
            while True:
                due, line = await waiting.get()
                if not line:
                    taking.result()
                    return
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                yield line
        finally:
            taking.cancel()


async def _lines(content: aiohttp.StreamReader) -> AsyncGenerator[bytes]:
    """Yield whole lines; not `readline`, which gives up on lines above 64 KiB."""
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n"


def _instead(fault: Fault, call: Call) -> web.Response | None:
    """Return what the client gets without the server's ever hearing of it."""
    if fault.kind is Kind.OVERLOAD:
        text = "the server has received too many requests and has asked us to try again later"
        return _refusal(429, "TooManyRequests", text, headers={"Retry-After": f"{max(1.0, fault.seconds):.0f}"})
    if fault.kind is Kind.EXPIRED and call.verb == "list":
        return _refusal(410, "Expired", "The provided continue parameter is too old")
    return None


def _refusal(code: int, reason: str, message: str, *, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.json_response(_status(code, reason, message), status=code, headers=headers)


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    about = {"status": "Failure", "message": message, "reason": reason, "code": code}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, **about}


_EXPIRED_EVENT: Final = (
    json.dumps({"type": "ERROR", "object": _status(410, "Expired", "too old resource version: 1 (2)")}) + "\n"
).encode()


def _some(headers: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    return {name: headers[name] for name in names if name in headers}


def _break(request: web.Request) -> None:
    """End the client's connection without an answer."""
    if request.transport is not None:
        request.transport.abort()


def _session(credentials: Credentials, *, headers: Mapping[str, str]) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        credentials.server,
        connector=aiohttp.TCPConnector(ssl=credentials.tls, limit=0),
        headers=headers,
        auto_decompress=False,
        timeout=_UNLIMITED,
        read_bufsize=1 << 20,
        trust_env=False,
    )
