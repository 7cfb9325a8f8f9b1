"""Reads which controller and which descheduler lead, from their Leases; those of a local plane need none."""

from datetime import datetime
from typing import Final

from dra.cli.kubectl import connection
from dra.engine.diagnosis.snapshot import ControllerLease, ControllerPresence
from dra.kube.client import Client
from dra.kube.clock import SYSTEM
from dra.kube.errors import ApiError, NotFound
from dra.kube.lease_rules import Lease
from dra.kube.resources import LEASES
from dra.model.meta import Key

DESCHEDULER_LEASE_NAME: Final = "dra-reserve-descheduler"


async def read_controller_lease(client: Client, key: Key) -> ControllerLease:
    """Return the state of the controller, whose Lease has that key; that of a local plane needs none."""
    lease = await _read_lease(client, key)
    if lease.presence is ControllerPresence.ABSENT:
        return await _controller_of_local_plane(client, lease.name)
    return lease


async def read_descheduler_lease(client: Client, namespace: str) -> ControllerLease:
    """Return the state of the descheduler, whose Lease is in the namespace; that of a local plane needs none."""
    lease = await _read_lease(client, (namespace, DESCHEDULER_LEASE_NAME))
    if lease.presence is ControllerPresence.ABSENT and await connection.has_plane_component(client, "descheduler"):
        return ControllerLease(
            presence=ControllerPresence.RUNNING, name=lease.name, holder="the descheduler of the local plane"
        )
    return lease


async def _read_lease(client: Client, key: Key) -> ControllerLease:
    """Return what a Lease shows about its holder."""
    name, now = "/".join(key), SYSTEM.wall().timestamp()
    try:
        lease = await client.get(LEASES, key, Lease)
    except NotFound:
        return ControllerLease(presence=ControllerPresence.ABSENT, name=name)
    except ApiError:
        return ControllerLease(presence=ControllerPresence.UNKNOWN, name=name)
    spec = lease.spec
    seconds = int(now - _to_timestamp(spec.renew_time)) if spec.renew_time else 0
    running = bool(spec.holder_identity) and seconds <= max(spec.lease_duration_seconds, 1)
    presence = ControllerPresence.RUNNING if running else ControllerPresence.STALE
    return ControllerLease(presence=presence, name=name, holder=spec.holder_identity, seconds=max(seconds, 0))


async def _controller_of_local_plane(client: Client, name: str) -> ControllerLease:
    """Return the controller of a local plane, which needs no lease; absent if the server is no local plane."""
    if pid := await connection.controller_pid(client):
        return ControllerLease(
            presence=ControllerPresence.RUNNING, name=name, holder=f"the controller of the local plane (pid {pid})"
        )
    return ControllerLease(presence=ControllerPresence.ABSENT, name=name)


def _to_timestamp(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
