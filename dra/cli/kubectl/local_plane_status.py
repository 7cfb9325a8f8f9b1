"""Reads the status that a local plane serves and no other API server does."""

from typing import Final

import msgspec

from dra.kube.client import Client
from dra.kube.errors import ApiError
from dra.model.meta import Struct

STATUS_PATH: Final = "/dra"


class _PlaneStatus(Struct, frozen=True):
    beside: dict[str, int] = msgspec.field(default_factory=dict)


async def companion_processes(client: Client) -> dict[str, int] | None:
    """Return the processes that run beside a local plane, name → pid; None if the server is no local plane."""
    try:
        return (await client.read(STATUS_PATH, _PlaneStatus)).beside
    except ApiError:
        return None


async def controller_pid(client: Client) -> int | None:
    """Return the pid of a local plane's controller, which takes no lease; None if there is none."""
    return (await companion_processes(client) or {}).get("controller")
