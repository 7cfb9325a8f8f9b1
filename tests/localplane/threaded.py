"""A server in a thread of its own, for tests of commands that run an event loop themselves."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from localplane.https_server import serve_https
from localplane.schemas.builtin_schemas import Dialect
from localplane.server import ApiServer


async def _nothing(_server: ApiServer) -> None:
    pass


@contextmanager
def served(
    folder: Path, dialect: Dialect, *, prepare: Callable[[ApiServer], Awaitable[object]] = _nothing
) -> Iterator[Path]:
    """Serve an API over HTTPS, once it is prepared; yield the kubeconfig that names the server."""
    up, down, loops = threading.Event(), asyncio.Event(), []

    async def serve() -> None:
        server = ApiServer(api=dialect)
        await prepare(server)
        async with serve_https(server.handle, folder=folder):
            loops.append(asyncio.get_running_loop())
            up.set()
            await down.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert up.wait(20)
    yield folder / "kubeconfig"
    loops[0].call_soon_threadsafe(down.set)
    thread.join(20)
