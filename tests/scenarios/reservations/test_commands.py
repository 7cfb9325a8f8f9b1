"""`kubectl dra` makes reservations, lists them, and says what they mean to pods."""

from __future__ import annotations

import asyncio
import json

from click.testing import CliRunner, Result

from dra.cli.kubectl.main import main
from tests.scenarios.api import Api
from tests.scenarios.reservations.test_manual import reaches, running, stranger, waits
from tests.scenarios.resources import RESERVATIONS
from tests.scenarios.target import Target


async def dra(target: Target, *arguments: str) -> Result:
    """Run `kubectl dra` as a person does."""
    return await asyncio.to_thread(CliRunner().invoke, main, [*arguments, f"--kubeconfig={target.admin}"])


async def test_what_is_reserved_by_hand_is_held_listed_and_explained(emptied: Api, target: Target) -> None:
    line = ("reserve", "web", "--cpu=60", "-l", "app=web", "--node=node-1", "--reusable", "--ttl=1h", "-n", "default")
    tried = await dra(target, *line, "--dry-run=server", "-o", "json")
    assert json.loads(tried.stdout)["metadata"]["uid"]
    assert await emptied.find(RESERVATIONS, "web") is None
    done = await dra(target, *line)
    assert done.output == "reservation.scheduling.koordinator.sh/web created\n"
    assert (await dra(target, *line)).exit_code == 2
    await reaches(emptied, "web", "Available")

    rows = (await dra(target, "reservations", "--no-headers")).stdout.splitlines()
    assert [row.split()[:6] for row in rows] == [["web", "Available", "node-1", "<none>", "cpu=60", "0"]]

    await emptied.create(stranger("too-big", cpu="12", node="node-1"), namespace="default")
    await waits(emptied, "too-big", because="Insufficient cpu by node")
    why = await dra(target, "why", "pod/too-big", "-n", "default")
    assert why.exit_code == 1
    numbers = "insufficient cpu of the node: 12 requested, 4 of 64 free, 60 held by reservation web"
    assert f"  extender  1 node (node-1): {numbers}" in why.stdout

    await emptied.create(stranger("inside", cpu="12", app="web"), namespace="default")
    await running(emptied, 1, labelSelector="app=web")
    assert "  inside    reservation web" in (await dra(target, "why", "pod/inside", "-n", "default")).stdout
    told = await dra(target, "why", "reservation/web")
    assert (told.exit_code, told.stdout.splitlines()[0]) == (0, "reservation web: Available on node node-1")
    assert "  used      cpu=12 by 1 pod; cpu=48 free" in told.stdout


async def test_a_reservation_without_a_place_says_which_nodes_lack_what(emptied: Api, target: Target) -> None:
    await dra(target, "reserve", "huge", "--cpu=1k", "--owner=jobs.batch/train")

    async def told() -> str:
        return (await dra(target, "why", "rsv/huge")).stdout

    await reaches(emptied, "huge", "Pending")
    found = await told()
    assert (
        "  nodes     3 nodes (node-0, node-1, node-2): insufficient cpu of the node: 1k requested, 64 of 64 free"
        in found
    )
