"""What a local plane tells of itself, which no other API server does."""

from typing import Final

import msgspec

from dra.kube.client import Client
from dra.kube.errors import ApiError
from dra.model.meta import Struct

PATH: Final = "/dra"


class _Plane(Struct, frozen=True):
    beside: dict[str, int] = msgspec.field(default_factory=dict)


async def beside(client: Client) -> dict[str, int] | None:
    """Return the processes that work beside a local plane, name → pid; None if the server is no local plane."""
    try:
        return (await client.read(PATH, _Plane)).beside
    except ApiError:
        return None


async def controller(client: Client) -> int | None:
    """Return the pid of the controller of a local plane, which takes no lease; None if there is none."""
    return (await beside(client) or {}).get("controller")
