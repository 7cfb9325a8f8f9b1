"""Where the real kube-scheduler places Reservations on nodes that are all empty."""

from __future__ import annotations

from tests.scenarios.api import Api
from tests.scenarios.reservations.conftest import NODES
from tests.scenarios.reservations.test_manual import reaches, reservation


async def test_reservations_are_spread_over_empty_nodes(emptied: Api) -> None:
    """One a node, as Koordinator 1.6 does with 100 on 100 nodes."""
    placed = []
    for number in range(2 * len(NODES)):
        await emptied.create(reservation(f"r{number}", cpu="1"))
        placed.append((await reaches(emptied, f"r{number}", "Available"))["status"]["nodeName"])
    assert sorted(placed) == sorted([*NODES, *NODES])
