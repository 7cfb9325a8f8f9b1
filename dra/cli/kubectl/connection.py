"""Connects a command to the API server; API errors end the command."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeVar

import msgspec

from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl.failures import FailedError
from dra.kube.client import Client
from dra.kube.clock import SYSTEM, Clock
from dra.kube.codec import raise_recursion_limit
from dra.kube.errors import ApiError, Forbidden, NotFound, Unauthorized, Unreachable
from dra.kube.rate_limiter import RateLimiter
from dra.kube.resources import CLAIMS
from dra.kube.transport import Request, Transport
from dra.model.meta import Struct

QPS: Final = 50.0
BURST: Final = 300
"""Client-side rate limits, the same as kubectl's own."""

RESOURCE_API_GROUP: Final = CLAIMS.group

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A client, and the transport below it."""

    client: Client
    transport: Transport
    clock: Clock = SYSTEM


@asynccontextmanager
async def connect(cluster_flags: ClusterFlags) -> AsyncIterator[Connection]:
    """Yield a connection to the cluster; raise ApiError, and FailedError for a wrong kubeconfig."""
    from dra.kube.http import HttpTransport, user_agent  # noqa: PLC0415 - who reads a bundle needs no aiohttp

    raise_recursion_limit()
    agent = user_agent().replace("dra-reserve", "kubectl-dra", 1)
    try:
        cluster_credentials = cluster_flags.find_credentials()
    except ApiError as error:  # of the kubeconfig: advice about the cluster would mislead
        raise FailedError(str(error)) from error
    transport = HttpTransport(cluster_credentials, agent=agent, timeout_max=cluster_flags.request_timeout)
    try:
        yield Connection(client=Client(transport, RateLimiter(QPS, BURST)), transport=transport)
    finally:
        await transport.close()


ERROR_ADVICE: Final[Mapping[type[ApiError], str]] = {
    Unauthorized: "The server does not accept these credentials. Log in again, or see: kubectl config current-context",
    Forbidden: "List your permissions: kubectl auth can-i --list",
    Unreachable: "Check that the cluster is running and that the context is right. See: kubectl config current-context",
}


def error_text(error: ApiError) -> str:
    """Return the text of an API error, with the next command."""
    if isinstance(error, NotFound) and error.subject.endswith(f".{RESOURCE_API_GROUP}") and not error.details.name:
        served = f"the server does not serve {RESOURCE_API_GROUP}/v1, which requires Kubernetes 1.34"
        return f"{error.subject}: {served}. See: kubectl version"
    advice = next((text for kind, text in ERROR_ADVICE.items() if isinstance(error, kind)), "")
    text = str(error).rstrip(".")
    return f"{text}. {advice}" if advice and "See:" not in text and "there are" not in text else str(error)


def run(cluster_flags: ClusterFlags, work: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine with a connection and return its result; an API error ends the command with its text."""
    results: list[T] = []

    async def connected() -> None:
        # Not returned: asyncio.run makes the repr of its task and discards it, which takes 0.3 s for a snapshot.
        async with connect(cluster_flags) as connection:
            results.append(await work(connection))

    try:
        asyncio.run(connected())
    except ApiError as error:
        raise FailedError(error_text(error)) from error
    except KeyboardInterrupt:
        raise FailedError("interrupted; no request is in progress") from None
    return results[0]


STATUS_PATH: Final = "/dra"


class _PlaneStatus(Struct, frozen=True):
    beside: dict[str, int] = msgspec.field(default_factory=dict)
    components: dict[str, Any] = msgspec.field(default_factory=dict)


async def companion_processes(client: Client) -> dict[str, int] | None:
    """Return the processes that run beside a local plane, name → pid; None if the server is no local plane."""
    try:
        return (await client.read(STATUS_PATH, _PlaneStatus)).beside
    except ApiError:
        return None


async def has_plane_component(client: Client, name: str) -> bool:
    """Report whether the server is a local plane with a component of the name; such components take no lease."""
    try:
        return name in (await client.read(STATUS_PATH, _PlaneStatus)).components
    except ApiError:
        return False


async def controller_pid(client: Client) -> int | None:
    """Return the pid of a local plane's controller, which takes no lease; None if there is none."""
    return (await companion_processes(client) or {}).get("controller")


async def server_time(transport: Transport) -> datetime | None:
    """Return the API server's time of day from the Date of an answer; None without an answer or a Date."""
    try:
        answer = await transport.send(Request(method="GET", path="/version", timeout=10.0))
    except ApiError:
        return None
    try:
        return parsedate_to_datetime(answer.headers.get("date", ""))
    except ValueError:
        return None
