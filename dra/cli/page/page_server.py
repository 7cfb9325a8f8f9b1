"""The HTTP server of the page: files, rows, single objects and the stream of changes. Nothing can be written."""

import asyncio
import gzip
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final

import msgspec
from aiohttp import web

from dra.cli.page import access, idle_view, object_page
from dra.cli.page.access import HEADERS, AccessRules, Refusal, RefusedError
from dra.cli.page.assets import Assets, SignIn, load_assets
from dra.cli.page.cluster_feed import ClusterFeed, FeedClosedError
from dra.cli.page.patch_stream import Subscriber, TooManySubscribersError, encode_patches, encode_reset
from dra.cli.page.sessions import Gate, PageSession
from dra.cli.page.use_sources import UseSource
from dra.cli.page.views import COLUMNS
from dra.engine.device_usage.history import GROUPINGS
from dra.engine.device_usage.timelines import SPANS
from dra.httpserver.listener import keep_connection

PING_INTERVAL: Final = 15.0
"""Seconds of silence after which a comment is sent: proxies close idle streams, and clients notice a dead one."""

WRITE_TIMEOUT: Final = 10.0
"""Seconds for which a client does not read; the page then closes the connection."""

SEND_INTERVAL: Final = 0.05
"""Least seconds between two messages to one client: changes in between are merged."""

REVIEW_INTERVAL: Final = 30.0
"""Seconds after which the rights of the client of an open stream are reviewed again."""

FIRST_ROWS_TIMEOUT: Final = 10.0
"""Seconds for which a question about an object waits for the first rows."""

NOT_READY: Final = Refusal(503, "the rows are not ready; try again", retry_after=2)

GZIP_LEVEL: Final = 5

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log: Final = logging.getLogger(__name__)


class KeyGate:
    """The gate of a page on the user's machine: who has the key sees everything."""

    headers: Mapping[str, str] = HEADERS

    def __init__(self, feed: ClusterFeed, rules: Callable[[], AccessRules]) -> None:
        self._session = PageSession(feed)
        self._rules = rules

    def refusal(self, headers: Mapping[str, str], *, is_data: bool) -> Refusal | None:
        """Return why a request is refused."""
        return self._rules().refusal(headers, is_data=is_data)

    async def admit(self, request: web.Request) -> PageSession:
        """Return the session, which is the same for all requests with the key."""
        del request
        return self._session


class PageServer:
    """The routes of the page."""

    def __init__(self, gate: Gate, *, assets: Assets, use: UseSource | None = None) -> None:
        """Create the server; ``use``: knows the use of devices over time, None for a bundle."""
        self._gate = gate
        self._assets = assets
        self._use = use
        self._is_closing = False
        self._subscribers: set[Subscriber] = set()

    def application(self, *, client_max_size: int = 1 << 20) -> web.Application:
        """Return the application with all routes; ``client_max_size``: maximum bytes of the body of a request."""
        app = web.Application(middlewares=[self._guard], client_max_size=client_max_size)
        app.router.add_get("/", self._index)
        app.router.add_get("/assets/{version}/{path:.+}", self._asset)
        app.router.add_get("/api/session", self._session)
        app.router.add_get("/api/rows", self._rows)
        app.router.add_get("/api/object", self._object)
        app.router.add_get("/api/idle", self._idle)
        app.router.add_get("/api/events", self._events, allow_head=False)
        app.on_shutdown.append(self._close)
        return app

    async def _close(self, _: web.Application) -> None:
        self._is_closing = True
        for subscriber in self._subscribers:
            subscriber.changed.set()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse what the gate refuses, and give every response the same headers."""
        refusal = self._gate.refusal(request.headers, is_data=request.path.startswith("/api/"))
        try:
            response = _refuse(refusal) if refusal is not None else await handler(request)
        except RefusedError as error:
            response = _refuse(error.refusal)
        except web.HTTPException as error:
            response = web.Response(status=error.status, text=error.reason)
            if "Allow" in error.headers:
                response.headers["Allow"] = error.headers["Allow"]
        except Exception:  # a defect must not send a response without the headers
            if request.writer.output_size:
                raise  # a stream has begun
            _log.exception("a request failed")
            response = web.Response(status=500, text="the page has a defect; its log says which")
        if not response.prepared:
            for name, value in self._gate.headers.items():
                response.headers.setdefault(name, value)
        return response

    async def _index(self, _: web.Request) -> web.Response:
        return web.Response(body=self._assets.index, content_type="text/html", charset="utf-8")

    async def _asset(self, request: web.Request) -> web.Response:
        asset = self._assets.files.get(request.match_info["path"])
        if asset is None or request.match_info["version"] != self._assets.version:
            raise web.HTTPNotFound
        headers = {"Cache-Control": "private, max-age=31536000, immutable"}
        return web.Response(body=asset.content, content_type=asset.content_type, charset="utf-8", headers=headers)

    async def _session(self, request: web.Request) -> web.Response:
        session = await self._gate.admit(request)
        return web.Response(body=msgspec.json.encode(session.description), content_type="application/json")

    async def _rows(self, request: web.Request) -> web.Response:
        session = await self._gate.admit(request)
        view = request.query.get("view", "")
        if view not in COLUMNS:
            raise web.HTTPBadRequest(reason=f"unknown view; the views are: {' '.join(COLUMNS)}")
        _raise_if_refused(session.view_refusal(view))
        body = session.feed.stream.rows(view)
        if "gzip" not in request.headers.get("Accept-Encoding", ""):
            return web.Response(body=body, content_type="application/json")
        packed = await asyncio.to_thread(gzip.compress, body, GZIP_LEVEL)
        return web.Response(body=packed, content_type="application/json", headers={"Content-Encoding": "gzip"})

    async def _object(self, request: web.Request) -> web.Response:
        session = await self._gate.admit(request)
        query = request.query
        kind, namespace, name = (query.get(parameter, "") for parameter in ("kind", "namespace", "name"))
        if kind not in object_page.KINDS or not name:
            raise web.HTTPBadRequest(reason=f"kind and name are needed; the kinds are: {' '.join(object_page.KINDS)}")
        _raise_if_refused(session.object_refusal(kind, namespace))
        feed, now = session.feed, session.feed.now()
        try:
            async with asyncio.timeout(FIRST_ROWS_TIMEOUT):
                await feed.stream.ready.wait()  # before, no object exists
            content = await feed.ask(
                lambda tables: object_page.describe(tables, kind=kind, namespace=namespace, name=name, now=now)
            )
        except (TimeoutError, FeedClosedError) as error:
            raise RefusedError(NOT_READY) from error
        uid = content.pop("uid")
        if uid and feed.events is not None:
            content["events"] = await feed.events.events_of(namespace, uid)
        return web.Response(body=msgspec.json.encode(content), content_type="application/json")

    async def _idle(self, request: web.Request) -> web.Response:
        session = await self._gate.admit(request)
        by, over = request.query.get("by", "namespace"), request.query.get("over", "24h")
        if by not in GROUPINGS or over not in SPANS:
            raise web.HTTPBadRequest(reason=f"by is one of: {' '.join(GROUPINGS)}; over is one of: {' '.join(SPANS)}")
        if self._use is None:
            raise RefusedError(Refusal(404, "a bundle is of one moment: it has no history"))
        try:
            async with asyncio.timeout(FIRST_ROWS_TIMEOUT):
                namespaces = await session.namespaces()
        except (TimeoutError, FeedClosedError) as error:
            raise RefusedError(NOT_READY) from error
        use = await self._use.read(by=by, span=SPANS[over], namespaces=namespaces)
        return web.Response(body=msgspec.json.encode(idle_view.draw(use, over=over)), content_type="application/json")

    async def _events(self, request: web.Request) -> web.StreamResponse:
        session = await self._gate.admit(request)
        views = access.known_views(request.query.get("views", ""), all_views=COLUMNS.keys())
        if views is None:
            raise web.HTTPBadRequest(reason=f"views are needed; they are: {' '.join(COLUMNS)}")
        for view in views:
            _raise_if_refused(session.view_refusal(view))
        with session.open_stream():
            keep_connection(request)
            return await self._send_events(request, session, views)

    async def _send_events(
        self, request: web.Request, session: PageSession, views: frozenset[str]
    ) -> web.StreamResponse:
        stream = session.feed.stream
        try:
            subscriber = stream.subscribe(views, request.headers.get("Last-Event-ID", ""))
        except TooManySubscribersError:
            return _refuse(Refusal(503, "too many open pages", retry_after=30))
        response = web.StreamResponse(
            headers={**self._gate.headers, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        )
        self._subscribers.add(subscriber)
        try:
            await response.prepare(request)
            await self._send_changes(response, session, subscriber)
        except (TimeoutError, ConnectionError):
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._subscribers.discard(subscriber)
            stream.unsubscribe(subscriber)
        return response

    async def _send_changes(self, response: web.StreamResponse, session: PageSession, subscriber: Subscriber) -> None:
        """Send changes until the client leaves or loses its rights; raise TimeoutError if the client does not read."""
        loop = asyncio.get_running_loop()
        review_at = loop.time() + REVIEW_INTERVAL
        while not self._is_closing:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(PING_INTERVAL, max(review_at - loop.time(), 0.0))):
                    await subscriber.changed.wait()
            is_over = session.feed.is_closed
            if not is_over and loop.time() >= review_at:
                is_over = not await _is_current(session)
                review_at = loop.time() + REVIEW_INTERVAL
            must_reset, patches = subscriber.take()
            event_id = session.feed.stream.event_id
            message = encode_reset(event_id) if must_reset or is_over else b": ping\n\n"
            if patches and not is_over:
                message = encode_patches(patches, event_id)
            async with asyncio.timeout(WRITE_TIMEOUT):
                await response.write(message)
            if is_over:
                return
            await asyncio.sleep(SEND_INTERVAL)


async def _is_current(session: PageSession) -> bool:
    """Report whether a session is still valid; a review that fails ends it, and the next request says why."""
    try:
        return await session.is_current()
    except RefusedError:
        return False


def _raise_if_refused(refusal: Refusal | None) -> None:
    if refusal is not None:
        raise RefusedError(refusal)


def _refuse(refusal: Refusal) -> web.Response:
    headers = {"Retry-After": str(refusal.retry_after)} if refusal.retry_after else None
    return web.Response(status=refusal.status, text=refusal.text, headers=headers)


@asynccontextmanager
async def serve_page(feed: ClusterFeed, *, port: int, secret: str, use: UseSource | None = None) -> AsyncIterator[str]:
    """Serve the page on loopback and yield its URL, with the secret in the fragment; raise OSError.

    ``use``: knows the use of devices over time; None: nothing does, as of a bundle.
    """
    rules = AccessRules(hosts=frozenset(), secret=secret)

    def current_rules() -> AccessRules:
        return rules

    server = PageServer(KeyGate(feed, current_rules), assets=load_assets(SignIn.KEY), use=use)
    # Without handler_cancellation, a client that has left an idle stream is noticed only at the next write.
    runner = web.AppRunner(server.application(), access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        chosen = runner.addresses[0][1]
        rules = AccessRules(hosts=access.loopback_hosts(chosen), secret=secret)
        yield f"http://127.0.0.1:{chosen}/#{secret}"
    finally:
        await runner.cleanup()
