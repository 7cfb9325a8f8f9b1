"""Asks the page as its scripts in a browser do: a token in a header; rows, single objects, a stream of changes."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from dra.cli.page.views import COLUMNS
from tests.scenarios.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.scenarios.page.page_process import PageProcess

LIMIT: Final = aiohttp.ClientTimeout(total=60)
UNLIMITED: Final = aiohttp.ClientTimeout(total=None)

Row = dict[str, str]


@dataclass
class Events:
    """The stream of changes of one client."""

    text: bytes = b""
    """Everything that the server has sent."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class PageClient:
    """One signed-in user; `answered` has every byte that the server has answered."""

    def __init__(self, session: aiohttp.ClientSession, *, namespace: str) -> None:
        self.session: Final = session
        self._where: Final = {"ns": namespace} if namespace else {}
        self.answered = b""

    async def get(self, path: str, **query: str) -> tuple[int, bytes]:
        """Return status and body of an answer."""
        async with self.session.get(path, params=query | self._where, timeout=LIMIT) as answer:
            body = await answer.read()
            self.answered += body + str(answer.headers).encode()
            return answer.status, body

    async def status(self, view: str = "claims") -> int:
        """Return the status of the answer to a question for the rows of a view."""
        status, _ = await self.get("/api/rows", view=view)
        return status

    async def rows(self, view: str) -> list[Row]:
        """Return the rows of a view, each as cells by column, as soon as the server has computed all of them."""
        found = await eventually(
            lambda: self._answer(view), until=lambda found: found["ready"], saying=f"the rows of {view} are complete"
        )
        return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]

    async def _answer(self, view: str) -> Any:
        status, body = await self.get("/api/rows", view=view)
        assert status == HTTPStatus.OK, body
        return json.loads(body)

    async def shows(self, view: str, until: Callable[[list[Row]], object], *, saying: str) -> list[Row]:
        """Return the rows of a view as soon as they are as wanted."""
        return await eventually(lambda: self.rows(view), until=until, saying=f"the view {view} shows {saying}")

    async def unread(self) -> dict[str, str]:
        """Return the kinds that the overview names as not read, with the reasons."""
        return {row["NAME"]: row["VALUE"] for row in await self.rows("overview") if row["SECTION"] == "gap"}

    async def all_views(self) -> dict[str, int]:
        """Ask for the rows of every view; return the statuses."""
        return {view: await self.status(view) for view in COLUMNS}

    @asynccontextmanager
    async def events(self, *views: str) -> AsyncIterator[Events]:
        """Open the stream of changes of some views."""
        found = Events()

        async def receive(answer: aiohttp.ClientResponse) -> None:
            try:
                async for chunk in answer.content.iter_any():
                    found.text += chunk
                    self.answered += chunk
            finally:
                found.ended.set()

        query = {"views": ",".join(views), **self._where}
        async with self.session.get("/api/events", params=query, timeout=UNLIMITED) as answer:
            assert answer.status == HTTPStatus.OK, await answer.text()
            task = asyncio.create_task(receive(answer))
            try:
                yield found
            finally:
                task.cancel()
                await asyncio.wait([task])


@asynccontextmanager
async def signed_in(page: PageProcess, token: str, *, namespace: str = "") -> AsyncIterator[PageClient]:
    """Yield a client with a token, for the whole cluster or for one namespace."""
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(page.url, headers=headers, trust_env=False) as session:
        yield PageClient(session, namespace=namespace)
