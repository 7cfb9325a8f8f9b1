"""Asks a Prometheus for the history of devices, by its HTTP API.

A Prometheus is another server than the API server: it gets no credentials of a kubeconfig or service account, only
those of its own URL, and no redirect is followed.
"""

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec

from dra.engine.device_usage.groups import UsageGroup
from dra.engine.device_usage.history import GroupHistory, Query, Sample, queries, read_history
from dra.kube.credentials import RestConfig, StaticCredentials
from dra.kube.errors import ApiError
from dra.kube.http import HttpTransport
from dra.kube.transport import Request, Response, Transport
from dra.model.meta import Struct
from dra.model.terminal_escapes import escape_line

TIMEOUT: Final = 30.0
"""Seconds for one query."""

ANSWER_BYTES_MAX: Final = 4 << 20
"""Maximum number of bytes of an answer: many times what the limited number of groups takes."""

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
    """The address of a Prometheus."""

    origin: str
    """Scheme, host and port."""

    path: str
    """The prefix of all paths; empty if there is none."""

    authorization: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, url: str) -> "PrometheusAddress":
        """Return the address in a URL, whose user and password become a header; raise PrometheusError."""
        try:
            parts = urlsplit(url)
            port = "" if parts.port is None else f":{parts.port}"
        except ValueError as error:
            raise PrometheusError(f"Prometheus: the URL cannot be read: {error}") from error
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise PrometheusError(
                "Prometheus: the URL is not of the form http://HOST:PORT or https://HOST/PATH, without ? and #"
            )
        authorization = None
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return cls(f"{parts.scheme}://{host}{port}", parts.path.rstrip("/"), authorization)

    def __str__(self) -> str:
        return f"Prometheus {self.origin}{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceHistory:
    """The history of all groups, as of one moment."""

    now: float
    """Unix time of the Prometheus."""

    groups: dict[UsageGroup, GroupHistory]


async def ask_history(
    address: PrometheusAddress, *, since: float, namespace: str | None, labels: Mapping[str, str]
) -> DeviceHistory:
    """Return the history of the last ``since`` seconds; raise PrometheusError, and MalformedLabelError."""
    asked = queries(since=since, namespace=namespace, labels=labels)
    transport = HttpTransport(StaticCredentials(RestConfig(address.origin, address.authorization)))
    try:
        _, text = _decode(await _ask(transport, address, "time()", None), tuple[float, str], address)
        answers = await asyncio.gather(*(_ask(transport, address, asked[query], text) for query in Query))
    finally:
        await transport.close()
    samples = {query: _decode(answer, list[Sample], address) for query, answer in zip(Query, answers, strict=True)}
    return DeviceHistory(now=float(text), groups=read_history(samples, namespace=namespace))


async def _ask(transport: Transport, address: PrometheusAddress, expression: str, time: str | None) -> msgspec.Raw:
    """Return the result of an expression at a time, by default now."""
    request = Request(
        method="GET",
        path=f"{address.path}/api/v1/query",
        query={"query": expression, **({} if time is None else {"time": time})},
        max_bytes=ANSWER_BYTES_MAX,
        timeout=TIMEOUT,
    )
    try:
        response = await transport.send(request)
    except ApiError as error:
        text = str(error).removeprefix(f"{request.path}: ")
        raise PrometheusError(f"{address}: {_line(text)}") from error
    answer = _answer(response)
    if response.status == _OK and answer is not None and answer.status == "success" and answer.data is not None:
        return answer.data.result
    if answer is not None and answer.error:
        raise PrometheusError(f"{address}: {_line(answer.error)}")
    raise PrometheusError(f"{address}: HTTP {response.status}: {_advice(response)}")


def _answer(response: Response) -> _Answer | None:
    try:
        return msgspec.json.decode(response.body, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _advice(response: Response) -> str:
    if response.status in _REDIRECTS:
        return f"it redirects to {_line(response.headers.get('location', ''))}; name that address"
    if response.status in {401, 403}:
        return "it wants credentials: name it as https://USER:PASSWORD@HOST"
    return "this is no answer of Prometheus' HTTP API; is the path right?"


def _decode(result: msgspec.Raw, kind: type[T], address: PrometheusAddress) -> T:
    try:
        return msgspec.json.decode(result, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PrometheusError(f"{address}: its answer has another form than the HTTP API documents") from error


def _line(text: str) -> str:
    return escape_line(text[:_TEXT_MAX])
