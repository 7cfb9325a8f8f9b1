"""Asks a Prometheus for the history of devices, by its HTTP API.

A Prometheus is another server than the API server: it gets no credentials of a kubeconfig or service account, only
those of its own URL or token file, and no redirect is followed.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec

from dra.engine.device_usage.groups import UsageGroup
from dra.engine.device_usage.history import GroupHistory, Query, Sample, parse_number, queries, read_history
from dra.engine.device_usage.over_time import UseOverTime, shown_groups, tabulate
from dra.engine.device_usage.promql import split_names
from dra.engine.device_usage.timelines import Series, Span, TimelineQuery, read_timelines, timeline_queries
from dra.kube.credentials import Credentials, FileCredentials
from dra.kube.errors import ApiError, ResponseTooLarge
from dra.kube.http import HttpTransport
from dra.kube.transport import Request, Response, Transport
from dra.model.meta import Struct
from dra.model.terminal_escapes import escape_line

TIMEOUT: Final = 30.0
"""Seconds for one query."""

ANSWER_BYTES_MAX: Final = 4 << 20
"""Maximum number of bytes of an answer: many times what the limited number of groups takes."""

QUERIES_AT_ONCE: Final = 4
"""Maximum number of queries that one question has under way; a Prometheus takes 20 at once by default."""

PARTS_MAX: Final = 8
"""Maximum number of parts into which namespaces are split; beyond it, a query asks for all namespaces, and other
namespaces are dropped from its answer."""

_TEXT_MAX: Final = 300
_OK: Final = 200
_REDIRECTS: Final = range(300, 400)

T = TypeVar("T")


class PrometheusError(Exception):
    """A Prometheus cannot be asked, or gives no answer; the text begins with its address."""


class _Data(Struct, frozen=True):
    result: msgspec.Raw = msgspec.Raw(b"null")


class _Answer(Struct, frozen=True):
    status: str = ""
    error: str = ""
    data: _Data | None = None


@dataclass(frozen=True, slots=True)
class PrometheusAddress:
    """The address of a Prometheus, with the credentials that it gets."""

    origin: str
    """Scheme, host and port."""

    path: str
    """The prefix of all paths; empty if there is none."""

    credentials: Credentials = field(repr=False)

    @classmethod
    def parse(cls, url: str, *, ca: Path | None = None, token_file: Path | None = None) -> "PrometheusAddress":
        """Return the address in a URL, whose user and password become a header; raise PrometheusError.

        ``ca`` and ``token_file``: see `FileCredentials`.
        """
        try:
            parts = urlsplit(url)
            port = "" if parts.port is None else f":{parts.port}"
        except ValueError as error:
            raise PrometheusError(f"Prometheus: the URL cannot be read: {error}") from error
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise PrometheusError(
                "Prometheus: the URL is not of the form http://HOST:PORT or https://HOST/PATH, without ? and #"
            )
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        origin, path = f"{parts.scheme}://{host}{port}", parts.path.rstrip("/")
        authorization = None
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
        try:
            return cls(origin, path, FileCredentials(origin, ca=ca, token_file=token_file, authorization=authorization))
        except ValueError as error:
            raise PrometheusError(f"Prometheus {origin}{path}: {error}") from error

    def __str__(self) -> str:
        return f"Prometheus {self.origin}{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceHistory:
    """The history of all groups, as of one moment."""

    now: float
    """Unix time of the Prometheus."""

    groups: dict[UsageGroup, GroupHistory]


@dataclass(frozen=True, slots=True)
class _Connection:
    """One question to a Prometheus: its queries, of which few are under way at once, are about the same moment."""

    address: PrometheusAddress
    transport: Transport
    slots: asyncio.Semaphore

    async def now(self) -> str:
        """Return the Unix time of the Prometheus, as it writes the number."""
        _, text = _decode(await self._ask("query", query="time()"), tuple[float, str], self.address)
        if parse_number(text) is None:
            raise PrometheusError(f"{self.address}: its answer has another form than the HTTP API documents")
        return text

    async def vector(self, expression: str, *, at: str) -> list[Sample]:
        """Return the series of an expression at a time."""
        return _decode(await self._ask("query", query=expression, time=at), list[Sample], self.address)

    async def matrix(self, expression: str, *, span: Span, at: str) -> list[Series]:
        """Return the series of an expression at the end of each period of a span until a time."""
        start = float(at) - span.seconds + span.period
        times = {"start": f"{start:.3f}", "end": at, "step": str(span.period)}
        return _decode(await self._ask("query_range", query=expression, **times), list[Series], self.address)

    async def _ask(self, path: str, **query: str) -> msgspec.Raw:
        """Return the result of a query."""
        request = Request(
            method="GET",
            path=f"{self.address.path}/api/v1/{path}",
            query=query,
            max_bytes=ANSWER_BYTES_MAX,
            timeout=TIMEOUT,
        )
        try:
            async with self.slots:
                response = await self.transport.send(request)
        except ResponseTooLarge as error:
            raise PrometheusError(
                f"{self.address}: the answer is longer than {ANSWER_BYTES_MAX >> 20} MiB; use a shorter time"
            ) from error
        except ApiError as error:
            text = str(error).removeprefix(f"{request.path}: ")
            raise PrometheusError(f"{self.address}: {_line(text)}") from error
        answer = _answer(response)
        if response.status == _OK and answer is not None and answer.status == "success" and answer.data is not None:
            return answer.data.result
        if answer is not None and answer.error:
            raise PrometheusError(f"{self.address}: {_line(answer.error)}")
        raise PrometheusError(f"{self.address}: HTTP {response.status}: {_advice(response)}")


@asynccontextmanager
async def _connect(address: PrometheusAddress) -> AsyncIterator[_Connection]:
    transport = HttpTransport(address.credentials)
    try:
        yield _Connection(address, transport, asyncio.Semaphore(QUERIES_AT_ONCE))
    finally:
        await transport.close()


async def ask_history(
    address: PrometheusAddress, *, since: float, namespaces: Collection[str] | None, labels: Mapping[str, str]
) -> DeviceHistory:
    """Return the history of the last ``since`` seconds, of some namespaces alone if they are given.

    Raises PrometheusError, and MalformedLabelError.
    """
    async with _connect(address) as connection:
        at = await connection.now()
        return await _history(connection, at, since=since, namespaces=namespaces, labels=labels)


async def ask_use(
    address: PrometheusAddress, *, by: str, span: Span, namespaces: Collection[str] | None, labels: Mapping[str, str]
) -> UseOverTime:
    """Return the history of a span with the time lines of the first groups; arguments and errors as `ask_history`."""
    async with _connect(address) as connection:
        at = await connection.now()
        history = await _history(connection, at, since=span.seconds, namespaces=namespaces, labels=labels)
        shown = shown_groups(by, history.groups)
        asked = tuple(timeline_queries(by, shown, span=span, namespaces=namespaces, labels=labels))
        answers = await asyncio.gather(*(_timelines(connection, query, span=span, at=at) for query in asked))
    lines = read_timelines(by, answers, span=span, end=history.now)
    return tabulate(by, history.groups, lines, span=span, now=history.now)


async def _history(
    connection: _Connection,
    at: str,
    *,
    since: float,
    namespaces: Collection[str] | None,
    labels: Mapping[str, str],
) -> DeviceHistory:
    parts = (None,) if namespaces is None else tuple(split_names(sorted(namespaces)))
    groups: dict[UsageGroup, GroupHistory] = {}
    for part in parts if len(parts) <= PARTS_MAX else (None,):
        asked = queries(since=since, namespaces=part, labels=labels)
        answers = await asyncio.gather(*(connection.vector(asked[query], at=at) for query in Query))
        groups |= read_history(dict(zip(Query, answers, strict=True)), namespaces=namespaces)
    return DeviceHistory(now=float(at), groups=groups)


async def _timelines(
    connection: _Connection, query: TimelineQuery, *, span: Span, at: str
) -> tuple[TimelineQuery, list[Series], list[Series]]:
    held, used = await asyncio.gather(
        connection.matrix(query.held, span=span, at=at), connection.matrix(query.used, span=span, at=at)
    )
    return query, held, used


def _answer(response: Response) -> _Answer | None:
    try:
        return msgspec.json.decode(response.body, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _advice(response: Response) -> str:
    if response.status in _REDIRECTS:
        return f"it redirects to {_line(response.headers.get('location', ''))}; name that address"
    if response.status in {401, 403}:
        return "it wants other credentials: name it as https://USER:PASSWORD@HOST, or a file with a token"
    return "this is no answer of Prometheus' HTTP API; is the path right?"


def _decode(result: msgspec.Raw, kind: type[T], address: PrometheusAddress) -> T:
    try:
        return msgspec.json.decode(result, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PrometheusError(f"{address}: its answer has another form than the HTTP API documents") from error


def _line(text: str) -> str:
    return escape_line(text[:_TEXT_MAX])
