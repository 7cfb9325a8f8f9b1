"""Least privilege of rounds: each permission of deploy/descheduler-profiles is needed, and its lack is told.

The descheduler runs as a service account of its own here, with copies of the installed roles from which rights are
missing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest

from tests.cluster.ports import LOOPBACK
from tests.scenarios.descheduling.conftest import MIGRATION
from tests.scenarios.descheduling.test_hot_nodes import offer_metrics
from tests.scenarios.descheduling.test_rounds import SPOT, change_node, jobs, moved, start_on
from tests.scenarios.eventually import eventually
from tests.scenarios.reservations.conftest import DESCHEDULER, PROFILES, descheduler
from tests.scenarios.rights import Probe, Right, granted
from tests.scenarios.target import Capability

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.cluster.processes import Process
    from tests.scenarios.api import Api, Json
    from tests.scenarios.target import Target

pytestmark = [pytest.mark.needs(Capability.RIGHTS)]

LISTS: Final = sorted(right for right in granted(PROFILES) if right.verb == "list")
WATCHES: Final = sorted(right for right in granted(PROFILES) if right.verb == "watch")
CREATES: Final = sorted(right for right in granted(PROFILES) if right.verb == "create")

PLUGIN: Final = "RemovePodsViolatingNodeTaints"
SOON: Final = 60.0
"""Seconds until a request that was refused is repeated, on a machine with other things to do."""


def test_every_right_that_is_granted_is_taken_away_here() -> None:
    assert {*LISTS, *WATCHES, *CREATES} == granted(PROFILES)
    assert {right.resource for right in CREATES} == {"podmigrationjobs"}


@pytest.fixture
async def probe(moving: Api) -> AsyncIterator[Probe]:
    """An account for the descheduler, with all of its rights."""
    account = Probe(moving, DESCHEDULER, PROFILES)
    await account.create()
    await account.may_all_but()
    yield account
    await account.delete()


@pytest.fixture
async def running(
    request: pytest.FixtureRequest, moving: Api, target: Target, probe: Probe, reserving: Process
) -> AsyncIterator[Process]:
    """A descheduler with a profile, and with the rights of the probe; NodeMetrics are served."""
    assert reserving.alive
    await offer_metrics(moving, target)
    profile = {"name": "p", "plugins": {"deschedule": {"enabled": [{"name": PLUGIN}]}}}
    credentials = probe.kubeconfig(target.admin, target.folder.path)
    election = {"leaderElection": {"enabled": False}}
    more: Json = {"deschedulingInterval": "1s", "profiles": [profile], **election}
    with descheduler(request, target, MIGRATION, credentials=credentials, **more) as process:
        yield process


async def ready(target: Target) -> str:
    """Return what the descheduler still has to read; empty when it is ready."""
    probes = json.loads((target.folder.path / "descheduling.yaml").read_text(encoding="utf-8"))["probes"]
    url = f"http://{LOOPBACK}:{probes['port']}/readyz"
    try:
        async with aiohttp.ClientSession(trust_env=False) as session, session.get(url) as answer:
            return "" if answer.ok else await answer.text()
    except aiohttp.ClientConnectionError:
        return "it does not listen"


def label(right: Right) -> str:
    """Return the kind as the probe names it."""
    return f"{right.resource}.{right.group}".rstrip(".")


async def test_a_kind_that_may_not_be_listed_is_told_and_read_once_it_may(
    running: Process, probe: Probe, target: Target
) -> None:
    await probe.may_all_but(*LISTS)
    running.kill()
    running.spawn()
    await eventually(
        lambda: ready(target),
        until=lambda text: all(f"{label(right)}: not listed yet" in text for right in LISTS),
        within=SOON,
        saying="each kind is named",
    )
    await probe.may_all_but()
    await eventually(lambda: ready(target), until=lambda text: text == "", within=SOON, saying="it is ready")


@pytest.mark.long
async def test_a_kind_that_may_not_be_watched_is_told(running: Process, probe: Probe) -> None:
    await probe.may_all_but(*WATCHES)
    running.kill()
    running.spawn()

    def untold() -> list[Right]:
        log = running.log.read_text(encoding="utf-8", errors="replace")
        return [right for right in WATCHES if f'cannot watch resource "{right.resource}"' not in log]

    await eventually(untold, until=lambda rights: not rights, within=SOON, saying="each refused watch is told")


@pytest.mark.long
async def test_without_the_right_to_create_jobs_pods_stay_until_it_is_granted(
    running: Process, probe: Probe, moving: Api
) -> None:
    await probe.may_all_but(*CREATES)
    await start_on(moving, "node-0", "web", replicas=1)
    await change_node(moving, "node-0", spec={"taints": [SPOT]})
    await eventually(
        lambda: "not created, and the pod stays" in running.tail(), within=SOON, saying="the refusal is told"
    )
    assert await jobs(moving) == []
    await probe.may_all_but()
    await moved(moving, trigger=PLUGIN, count=1)
