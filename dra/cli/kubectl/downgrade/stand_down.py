"""Stops the controllers from acting: an annotation on their lease, and the lease itself during a downgrade.

The annotation outlives the command that wrote it: after a killed command, the controllers still do nothing. The lease
is for controllers that do not know the annotation: while the command holds the lease, no controller acts.
"""

import asyncio
import secrets
import socket
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.failures import FailedError
from dra.kube.client import Client
from dra.kube.errors import AlreadyExists, Forbidden, NotFound
from dra.kube.leader_election import LeaderElector, LeadershipLostError
from dra.kube.lease_rules import STAND_DOWN, Lease
from dra.kube.resources import LEASES
from dra.model.meta import Key

STAND_DOWN_TIMEOUT: Final = 60.0
"""Seconds until the leader has released its lease, or the lease (15 s by default) has expired."""

NAMESPACE_TERMINATING: Final = "NamespaceTerminating"
"""Cause of a refusal to create an object in a namespace that is being deleted."""

T = TypeVar("T")


async def get_lease(client: Client, key: Key) -> Lease | None:
    """Return the lease of the controllers; None if there is none."""
    try:
        return await client.get(LEASES, key, Lease)
    except NotFound:
        return None


async def set_stand_down(client: Client, key: Key, why: str | None) -> bool:
    """Set the stand-down annotation, or remove it with None; return whether the lease can hold it.

    The lease cannot where its namespace does not exist or is being terminated: then no controller can take a lease.
    """
    annotations = {"metadata": {"annotations": {STAND_DOWN: why}}}
    try:
        await client.merge_patch(LEASES, key, annotations, model=Lease)
    except NotFound:
        if why is None:
            return False
        body = {"metadata": {"name": key[1], "annotations": {STAND_DOWN: why}}, "spec": {}}
        try:
            await client.create(LEASES, body, model=Lease, namespace=key[0])
        except AlreadyExists:
            return await set_stand_down(client, key, why)
        except NotFound:
            return False
        except Forbidden as error:
            if not error.has_cause(NAMESPACE_TERMINATING):
                raise
            return False
    return True


async def run_while_stood_down(
    connection: Connection, key: Key, work: Callable[[LeaderElector | None], Awaitable[T]]
) -> T:
    """Run ``work`` while no controller acts; the annotation must have been written before.

    Raises FailedError if the lease is not available, or is lost; what was done until then stays.
    """
    identity = f"kubectl-dra_{socket.gethostname()}_{secrets.token_hex(4)}"
    election = LeaderElector(
        connection.client, key=key, identity=identity, clock=connection.clock, ignore_stand_down=True
    )
    try:
        async with asyncio.timeout(STAND_DOWN_TIMEOUT):
            await election.acquire()
    except TimeoutError:
        namespace, name = key
        raise FailedError(
            f"lease {namespace}/{name}: {election.holder or 'its holder'} renews it and does not stand down; nothing "
            "was changed. Stop that controller and run this command again"
        ) from None
    hold_task = asyncio.ensure_future(election.renew())
    work_task = asyncio.ensure_future(work(election))
    try:
        await asyncio.wait({hold_task, work_task}, return_when=asyncio.FIRST_COMPLETED)
        if not work_task.done():
            hold_task.result()
        return work_task.result()
    except LeadershipLostError as error:
        raise FailedError(f"{error}; the changes so far are safe, run the command again") from error
    finally:
        for task in (work_task, hold_task):
            task.cancel()
        await asyncio.gather(work_task, hold_task, return_exceptions=True)
        await election.release()
