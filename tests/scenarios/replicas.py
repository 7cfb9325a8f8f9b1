"""Two controllers of which one leads, each with its own way to the API server."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import aiohttp

from tests.scenarios.eventually import eventually
from tests.scenarios.faults import WRITES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.scenarios.controller import Controller
    from tests.scenarios.proxy import Exchange, Proxy

TAKEOVER: Final = 20.0
"""Seconds from the end of a leader to the next one's first act, as promised: the lease's 15, and some to see it."""

JUMPING: Final = (sys.executable, "-P", str(Path(__file__).with_name("jumping_clock.py")))
"""The program to start a controller whose time of day jumps."""

_OBJECTS: Final = frozenset({"resourceclaims", "resourceclaims/status", "pods"})


@dataclass(frozen=True, kw_only=True)
class Replica:
    """A controller and the proxy that it goes through."""

    controller: Controller
    proxy: Proxy

    async def leads(self) -> bool:
        """Tell whether it says that it acts."""
        try:
            return (await self.controller.metrics())["dra_reserve_leading"] == 1.0
        except aiohttp.ClientError:
            return False

    def writes(self, *, since: float) -> list[Exchange]:
        """Return its writes on claims and pods that the server has accepted after a moment (`time.monotonic()`)."""
        return [
            each
            for each in self.proxy.exchanges
            if each.call.verb in WRITES and each.call.resource in _OBJECTS
            if each.answer == 200 and (each.answered or 0.0) > since
        ]


async def roles(replicas: Iterable[Replica]) -> tuple[Replica, Replica]:
    """Return the leader and the standby, as soon as there is a leader."""

    async def found() -> tuple[list[Replica], list[Replica]]:
        leading = {id(each): await each.leads() for each in replicas}
        return [each for each in replicas if leading[id(each)]], [each for each in replicas if not leading[id(each)]]

    (leader,), (standby,) = await eventually(
        found, until=lambda both: len(both[0]) == len(both[1]) == 1, saying="one leads, the other does not"
    )
    return leader, standby


async def taken_over(by: Replica, *, since: float) -> float:
    """Wait until a replica leads; return the seconds from a moment to then."""
    await eventually(by.leads, within=since + TAKEOVER - time.monotonic(), saying="the other one has taken over")
    return time.monotonic() - since
