"""The interface between a client and an API server: one request in, one response or one stream out.

In production the transport is HTTP (dra.kube.http); the simulation answers in process. So this interface must show
nothing of an HTTP library, and must be able to express everything that a server can do to a client.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

import msgspec

JSON: Final = "application/json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
"""Media type of server-side apply; JSON is valid YAML."""

MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"


class Request(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request as the server sees it, without credentials: the transport adds them."""

    method: str
    path: str
    query: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes | None = None
    content_type: str | None = None
    accept: str = JSON
    agent: str = ""
    """User-Agent as seen by a server; for sending, the transport uses a User-Agent of its own."""
    max_bytes: int | None = None
    """Maximum number of bytes that the client accepts in the response's body; None: no limit."""
    timeout: float
    """Seconds until the response is complete (`Transport.send`) or begins (`Transport.stream`)."""


class Response(msgspec.Struct, frozen=True, gc=False):
    """A complete response of any status; `headers` has lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport(Protocol):
    """A connection that carries requests to one API server."""

    async def send(self, request: Request, /) -> Response:
        """Return the response, error responses included; raise `Unreachable` when there is none within the timeout.

        `Unreachable.is_outcome_unknown` tells whether the server may have received the request: a write may then have
        happened or not, and may still happen. Raise `ResponseTooLarge` when the body is longer than ``max_bytes``.
        """
        ...

    def stream(self, request: Request, /) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stream of newline-delimited frames.

        Each item is a block of one or more *whole* frames, each ended by a newline, as many as have arrived: the reader
        decodes and dispatches a block at a time, which gives a watch its throughput. Bytes
        after the last newline when the stream ends are dropped: a truncated frame is not a frame.

        Entering raises what `errors.raise_for_status` makes of a response other than 2xx, and `Unreachable`; so does
        iterating, when the connection breaks. Iterating raises `ResponseTooLarge` for a frame that is longer than
        `FRAME_BYTES_MAX`. The reader decides how long a silence may last.
        """
        ...

    async def close(self) -> None:
        """Close all connections; open streams end with `Unreachable`."""
        ...


FRAME_BYTES_MAX: Final = 12 << 20
"""Maximum number of bytes in a frame of a stream: more than any object has in JSON. etcd stores 1.5 MiB of a pod, and
Go writes each ``<`` of it in six bytes. A longer frame makes a reflector list all objects again."""


class FrameTooLargeError(Exception):
    """A frame is longer than `FRAME_BYTES_MAX`."""


class FrameSplitter:
    """Splits chunks from the network into blocks of whole frames.

    Scans each byte once and joins once per block: a frame that arrives in thousands of chunks costs linear time.
    """

    __slots__ = ("_rest", "_size")

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> bytes:
        """Return all frames that are complete now; empty while the first frame is incomplete.

        Raises `FrameTooLargeError`.
        """
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._rest.append(chunk)
            self._size += len(chunk)
            if self._size > FRAME_BYTES_MAX:
                raise FrameTooLargeError
            return b""
        if not self._rest and end == len(chunk):  # usual case: servers flush whole frames
            return chunk
        block = b"".join((*self._rest, chunk[:end]))
        self._rest = [chunk[end:]] if end < len(chunk) else []
        self._size = len(chunk) - end
        return block
