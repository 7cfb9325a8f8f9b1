"""Connects a command to the API server; API errors end the command."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

from dra.cli.kubectl.options import ClusterFlags
from dra.kube import credentials
from dra.kube.client import Client
from dra.kube.clock import SYSTEM, Clock
from dra.kube.codec import raise_recursion_limit
from dra.kube.errors import ApiError, Forbidden, NotFound, Unauthorized, Unreachable
from dra.kube.rate_limiter import RateLimiter
from dra.kube.resources import CLAIMS
from dra.kube.transport import Transport

QPS: Final = 50.0
BURST: Final = 300
"""Client-side rate limits, the same as kubectl's own."""

RESOURCE_API_GROUP: Final = CLAIMS.group

T = TypeVar("T")


class FailedError(click.ClickException):
    """The command could not complete; the text says what remains of its work."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A client, and the transport below it."""

    client: Client
    transport: Transport
    clock: Clock = SYSTEM


@asynccontextmanager
async def connect(place: ClusterFlags) -> AsyncIterator[Connection]:
    """Yield a connection to the cluster; raise ApiError."""
    from dra.kube.http import HttpTransport, user_agent  # noqa: PLC0415 - who reads a bundle needs no aiohttp

    raise_recursion_limit()
    agent = user_agent().replace("dra-reserve", "kubectl-dra", 1)
    transport = HttpTransport(credentials.find(place.kubeconfig, context=place.context), agent=agent)
    try:
        yield Connection(client=Client(transport, RateLimiter(QPS, BURST)), transport=transport)
    finally:
        await transport.close()


ERROR_ADVICE: Final[Mapping[type[ApiError], str]] = {
    Unauthorized: "the server does not accept these credentials: log in again, or see kubectl config current-context",
    Forbidden: "See what you may do: kubectl auth can-i --list",
    Unreachable: "Is it the right cluster, and is it up? See: kubectl config current-context",
}


def error_text(error: ApiError) -> str:
    """Return the text of an API error, with the next command."""
    if isinstance(error, NotFound) and error.what.endswith(f".{RESOURCE_API_GROUP}") and not error.details.name:
        group = RESOURCE_API_GROUP
        return f"{error.what}: this server has no DRA ({group}/v1), which takes Kubernetes 1.34. See: kubectl version"
    advice = next((text for kind, text in ERROR_ADVICE.items() if isinstance(error, kind)), "")
    text = str(error).rstrip(".")
    return f"{text}. {advice}" if advice and "See:" not in text and "there are" not in text else str(error)


def run(place: ClusterFlags, work: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine with a connection and return its result; an API error ends the command with its text."""
    found: list[T] = []

    async def connected() -> None:
        # Not returned: asyncio.run makes the repr of its task and discards it, which takes 0.3 s for a snapshot.
        async with connect(place) as connection:
            found.append(await work(connection))

    try:
        asyncio.run(connected())
    except ApiError as error:
        raise FailedError(error_text(error)) from error
    except KeyboardInterrupt:
        raise FailedError("interrupted; nothing is under way any more") from None
    return found[0]
