"""Leader election of controller, extender and descheduler."""

import asyncio
import contextlib
import logging
import secrets
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from controller.lease_thread import Heartbeat, LeaseThread
from dra.api.configuration import LeaderElection, MalformedConfigurationError
from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.leader_election import LeaderElector
from dra.kube.lease_rules import SAFETY_MARGIN, ElectionTimings
from dra.kube.rate_limiter import RateLimiter
from dra.kube.sender import RequestObserver
from dra.kube.transport import Transport
from dra.requests.leadership import Election

_log: Final = logging.getLogger(__name__)


def process_identity() -> str:
    """Return an identity that is unique to this process: the host plus a random part."""
    return f"{socket.gethostname()}_{secrets.token_hex(4)}"


LEASE_QPS: Final = 5.0
LEASE_BURST: Final = 10
"""Limits of the requests for the lease, which have a client of their own: a second between two is usual."""


def leader_elector(
    settings: LeaderElection,
    client: Client,
    *,
    identity: str,
    clock: Clock,
    lease_transport: Transport | None = None,
    observer: RequestObserver | None = None,
) -> Election | None:
    """Return the candidate of this process, or None without leader election; raise MalformedConfigurationError.

    With a transport of its own, the election runs in a thread (`controller.lease_thread`). Without one it runs in the
    event loop, as simulations need it. ``observer`` counts the requests of the thread.
    """
    if not settings.enabled:
        return None
    try:
        timings = ElectionTimings(
            lease_duration=settings.lease_seconds,
            renew_deadline=settings.renew_seconds,
            retry_period=settings.retry_seconds,
        )
    except ValueError as error:
        raise MalformedConfigurationError(
            f"leaderElection: retrySeconds ({settings.retry_seconds:g}) must be less than renewSeconds "
            f"({settings.renew_seconds:g}), and renewSeconds less than leaseSeconds - {SAFETY_MARGIN:g} "
            f"({settings.lease_seconds - SAFETY_MARGIN:g})"
        ) from error
    key = (settings.namespace, settings.name)
    if lease_transport is None:
        return LeaderElector(client, key=key, identity=identity, terms=timings, clock=clock)
    limiter = RateLimiter(LEASE_QPS, LEASE_BURST, clock=clock)
    heartbeat = Heartbeat(clock)
    election = LeaderElector(
        Client(lease_transport, limiter, clock=clock, observer=observer),
        key=key,
        identity=identity,
        terms=timings,
        clock=clock,
        is_stalled=heartbeat.is_stalled,
        late_writes_until=lambda: client.late_writes_until,
    )
    return LeaseThread(election, lease_transport, heartbeat=heartbeat)


async def run_as_leader(election: Election, work: Callable[[], Awaitable[None]]) -> None:
    """Acquire the lease, do the work for as long as this process holds the lease, and release the lease.

    Raises LeadershipLostError when another replica took over.
    """
    async with election.running() if isinstance(election, LeaseThread) else contextlib.nullcontext():
        await election.acquire()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(election.renew(), name="lease")
                await work()
        finally:
            await asyncio.shield(election.release())


async def run_after_previous_writes(
    election: Election | None, work: Callable[[], Awaitable[None]], *, previous_writes_seconds: float, clock: Clock
) -> None:
    """Do the work as the only replica, once no write of the process that acted before can arrive any longer.

    Without leader election, late writes may arrive for `previous_writes_seconds`. Raises LeadershipLostError.
    """
    if election is None:
        _log.info(
            "not ready for %g s: without leader election, writes of the process before may still arrive; with it, a "
            "lease that is new or was released shows that there are none",
            previous_writes_seconds,
        )
        await asyncio.sleep(previous_writes_seconds)
        await work()
        return

    async def wait_and_work() -> None:
        seconds = election.previous_writes_until - clock.now()
        if seconds > 0.0:
            _log.info(
                "not ready for %.1f s: writes of the leader before, which did not release the lease with all of its "
                "writes answered, may still arrive",
                seconds,
            )
            await asyncio.sleep(seconds)
        await work()

    await run_as_leader(election, wait_and_work)
