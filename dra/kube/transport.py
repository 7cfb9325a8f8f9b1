"""The seam between us and an API server: one request in, one response or one stream out.

Outside it is HTTP (dra.kube.http); the simulation answers in process. So nothing of an HTTP library may be seen
here, and everything a server can do to a client must be expressible.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final, Protocol

JSON: Final = "application/json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
"""Server-side apply; JSON is YAML."""

MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a server gets to see, without credentials: those are the transport's business."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str | None = None
    accept: str = JSON
    agent: str = ""
    """The User-Agent that a server saw; on the way there the transport has one of its own."""
    most: int | None = None
    """Bytes of an answer's body that the client is ready to take; None: as many as come."""
    timeout: float
    """Seconds: for `Transport.send` until the answer is complete, for `Transport.stream` until it begins."""


@dataclass(frozen=True, slots=True)
class Response:
    """A complete answer, whatever its status; `headers` has lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport(Protocol):
    """Carries requests to one API server."""

    async def send(self, request: Request, /) -> Response:
        """Return the answer, also an error answer; raise `Unreachable` when there is none within the timeout.

        `Unreachable.ambiguous` tells whether the server may have got the request: after that a write may or may
        not have happened, and may still happen. Raise `TooLong` when the body is longer than ``request.most``.
        """
        ...

    def stream(self, request: Request, /) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stream of newline-delimited frames.

        Each item is a block of one or more *whole* frames, each ended by a newline, as many as have arrived: the
        reader decodes and dispatches a block at a time, which is where the throughput of a watch comes from. A
        frame may have any length. What is left behind the last newline when the stream ends is dropped: a frame
        cut off is no frame.

        Entering raises what `errors.raise_for` makes of an answer other than 2xx, and `Unreachable`; so does
        iterating, when the connection breaks. How long a silence may last is for the reader to judge.
        """
        ...

    async def close(self) -> None:
        """Let go of all connections; streams still open end with `Unreachable`."""
        ...


class FrameSplitter:
    """Cuts chunks as the network brings them into blocks of whole frames.

    Looks at each byte once and joins once per block: a frame that arrives in thousands of chunks costs linear time.
    """

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> bytes:
        """Return all frames that are complete now; empty while the first of them is not."""
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._rest.append(chunk)
            return b""
        if not self._rest and end == len(chunk):  # the usual case: servers flush whole frames
            return chunk
        block = b"".join((*self._rest, chunk[:end]))
        self._rest = [chunk[end:]] if end < len(chunk) else []
        return block
