"""Leader election of controller, extender and descheduler, and the time limits that leadership sets for writes."""

import asyncio
import secrets
import socket
from collections.abc import Awaitable, Callable

from dra.api.configuration import LeaderElection, MalformedConfigurationError
from dra.engine.instants import NEVER, Instant
from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.leader_election import LeaderElector
from dra.kube.lease_rules import SAFETY_MARGIN, ElectionTimings


def process_identity() -> str:
    """Return an identity that is unique to this process: the host plus a random part."""
    return f"{socket.gethostname()}_{secrets.token_hex(4)}"


def leader_elector(settings: LeaderElection, client: Client, *, identity: str, clock: Clock) -> LeaderElector | None:
    """Return the candidate of this process, or None without leader election; raise MalformedConfigurationError."""
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
    return LeaderElector(client, key=(settings.namespace, settings.name), identity=identity, terms=timings, clock=clock)


async def run_as_leader(election: LeaderElector, work: Callable[[], Awaitable[None]]) -> None:
    """Acquire the lease, do the work for as long as this process holds the lease, and release the lease.

    Raises LeadershipLostError when another replica took over.
    """
    await election.acquire()
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(election.renew(), name="lease")
            await work()
    finally:
        await asyncio.shield(election.release())


async def run_after_previous_writes(
    election: LeaderElector | None,
    work: Callable[[], Awaitable[None]],
    *,
    previous_writes_seconds: float,
    clock: Clock,
) -> None:
    """Do the work as the only replica, once no write of the process that acted before can arrive any longer.

    Without leader election, late writes may arrive for `previous_writes_seconds`. Raises LeadershipLostError.
    """
    if election is None:
        await asyncio.sleep(previous_writes_seconds)
        await work()
        return

    async def wait_and_work() -> None:
        await asyncio.sleep(max(0.0, election.previous_writes_until - clock.now()))
        await work()

    await run_as_leader(election, wait_and_work)


class Leadership:
    """The time limits of writes. Without leader election, writing is always allowed."""

    def __init__(self, election: LeaderElector | None = None) -> None:
        self._election = election

    def write_until(self) -> Instant:
        """Return the deadline of all writes begun now."""
        return NEVER if self._election is None else self._election.write_deadline

    def write_timeout(self, longest: float, *, now: Instant) -> float:
        """Return how long a write that begins now may take: it must end before the lease can expire."""
        return min(longest, self.write_until() - now)

    def previous_writes_until(self) -> Instant:
        """Return until when late writes of another leader may arrive: nothing is deallocated before."""
        return -NEVER if self._election is None else self._election.previous_writes_until
