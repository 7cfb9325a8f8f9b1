"""Watch streams: the history of a collection from a revision on, as frames."""

import asyncio
from collections.abc import AsyncGenerator, Iterable

from dra.kube.transport import Request
from dra.local import refusals
from dra.local.kinds.kind import Kind
from dra.local.objects import encode
from dra.local.routes import Route
from dra.local.store import Event, Expired, Store, Stored


async def blocks(store: Store, route: Route, request: Request) -> AsyncGenerator[bytes]:
    """Yield blocks of frames until the watch times out or its revision is too old."""
    collection, query = route.kind.collection, request.query
    began = query.get("resourceVersion", "")
    try:
        async with asyncio.timeout(float(query["timeoutSeconds"]) if "timeoutSeconds" in query else None):
            if began in ("", "0"):
                position = store.revision
                yield b"".join(_frame(route.kind, "ADDED", each) for each in _of(route, store.snapshot(collection)))
            else:
                position = int(began)
            while True:
                events = store.since(collection, position)
                if events:
                    position = events[-1].now.revision
                    yield b"".join(_frame(route.kind, event.change.value, event.now) for event in _in(route, events))
                else:
                    await store.change(collection, position)
    except Expired as error:
        yield b'{"type":"ERROR","object":' + encode(refusals.expired(str(error)).status) + b"}\n"
    except TimeoutError:
        return


def _frame(kind: Kind, change: str, stored: Stored) -> bytes:
    return b"".join((b'{"type":"', change.encode(), b'","object":', kind.shown(stored.raw), b"}\n"))


def _of(route: Route, found: Iterable[Stored]) -> Iterable[Stored]:
    return (each for each in found if not route.namespace or each.key.namespace == route.namespace)


def _in(route: Route, events: Iterable[Event]) -> Iterable[Event]:
    return (each for each in events if not route.namespace or each.now.key.namespace == route.namespace)
