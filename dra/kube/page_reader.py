"""Reads a collection page by page, within bounds of memory."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from functools import partial
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from dra.kube.codec import METADATA_LIST_ONLY, Codec, ListPage, decode_response, identify_page, split_page
from dra.kube.errors import Expired, ResponseTooLarge
from dra.kube.transport import Request, Response

T = TypeVar("T")

SendRequest: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]

PAGE_SIZE: Final = 500
"""Objects in a page of a list; kubectl and client-go request the same number."""

PAGE_BYTES_MAX: Final = 8 << 20
"""Maximum number of bytes of one page of a list. An object may have a megabyte, and a user who may create objects may
create hundreds of that size: a page of such objects would take all the memory of a process. A longer page is requested
again with fewer objects; of a single object that is longer, only the identity is requested."""

LIST_BYTES_MAX: Final = 64 << 20
"""Maximum number of bytes of a whole list, after the server has expired the continue token."""

_UNPAGED: Final = 0
"""Page size that requests all objects at once."""

PAGE_SHRINK_FACTOR: Final = 64
"""Divisor of the number of objects in the next attempt when a page was too long: each attempt costs the API server the
whole page, so there are two at most. Pages grow again soon."""

PAGE_GROWTH_FACTOR: Final = 4
"""Maximum growth from one page to the next after pages had to be smaller."""


class PageReader(Generic[T]):
    """The pages of one list.

    When the server has dropped the snapshot behind the continue token (410 after a few minutes), the list restarts
    without pagination, as in client-go: a list that was too slow in pages would be too slow again.

    No page is longer than `PAGE_BYTES_MAX`; where objects are large, pages have fewer objects. An object that is longer
    itself is among the unreadable ones.
    """

    def __init__(
        self,
        send: SendRequest,
        request: Request,
        codec: Codec[T],
        *,
        label: str,
        may_matter: Callable[[bytes], bool] | None = None,
        ahead: bool = False,
    ) -> None:
        """Create a reader of what ``request`` lists; errors name ``label``.

        ``may_matter`` tells by the JSON of an object, or of a whole page, whether the object is to be decoded.
        ``ahead``: a page is requested before the page before it is decoded, so that the server works meanwhile.
        """
        self._send = send
        self._list_request = request
        self._codec = codec
        self._label = label
        self._may_matter = may_matter
        self._ahead = ahead
        self._page_size = PAGE_SIZE
        self._token = ""
        self._sent: asyncio.Task[Response] | None = None
        """The request of the next page, if it is on its way."""

    async def pages(self) -> AsyncGenerator[ListPage[T], None]:
        """Yield all pages; consistently: all show the resourceVersion of the last page.

        Raises `ResponseTooLarge` if an unpaginated list is longer than `LIST_BYTES_MAX`.
        """
        try:
            while True:
                page = await self._next_page()
                if page is None:
                    continue
                yield page
                self._token = page.token
                if not self._token:
                    return
        finally:
            if self._sent is not None:
                self._sent.cancel()
                await asyncio.gather(self._sent, return_exceptions=True)

    async def _next_page(self) -> ListPage[T] | None:
        """Return the next page; None if it is to be requested again in another way."""
        request = self._page_request(self._token)
        sent, self._sent = self._sent, None
        try:
            response = await (sent or self._send(request))
        except Expired:
            if not self._token:
                raise
            self._page_size, self._token = _UNPAGED, ""
            return None
        except ResponseTooLarge:
            if self._page_size == _UNPAGED:
                raise
            if self._page_size == 1:
                return await self._identify_one(request)
            self._page_size = max(1, self._page_size // PAGE_SHRINK_FACTOR)
            return None
        return await self._decode(response.body)

    async def _decode(self, body: bytes) -> ListPage[T]:
        """Decode a page after the next page was requested, if that is wanted."""
        listed = decode_response(partial(split_page, may_matter=self._may_matter), body, self._label)
        if self._page_size:
            self._page_size = _next_page_size(self._page_size, len(body))
        if self._ahead and listed.token:
            self._sent = asyncio.create_task(self._send(self._page_request(listed.token)))
            await asyncio.sleep(0)  # the task sends the request now; its response arrives while objects are decoded
        return self._codec.decode_page(listed, first=not self._token)

    async def _identify_one(self, request: Request) -> ListPage[Any]:
        """Read the page of one object that is longer than a page may be: only its identity, as an unreadable object."""
        response = await self._send(msgspec.structs.replace(request, accept=METADATA_LIST_ONLY))
        identify = partial(identify_page, first=not self._token, size=PAGE_BYTES_MAX)
        return decode_response(identify, response.body, self._label)

    def _page_request(self, token: str) -> Request:
        size = self._page_size
        paging = ({"limit": str(size)} if size else {}) | ({"continue": token} if token else {})
        return msgspec.structs.replace(
            self._list_request,
            query={**self._list_request.query, **paging},
            accept=self._codec.accept_list,
            max_bytes=PAGE_BYTES_MAX if size else LIST_BYTES_MAX,
        )


def _next_page_size(page_size: int, page_bytes: int) -> int:
    """Return the number of objects in the next page: more of them, up to `PAGE_SIZE`, if that many may fit."""
    fitting = page_size * (PAGE_BYTES_MAX // 2) // max(1, page_bytes)
    return max(1, min(PAGE_SIZE, fitting, page_size * PAGE_GROWTH_FACTOR)) if page_size < PAGE_SIZE else page_size
