"""A tenant with `edit` in one namespace gets at nobody else's claim, and keeps nobody from theirs.

The table is `tenants`. All rows are played at once, beside a victim that goes on using its claim; each row is a test of
its own, so that a wrong one is named. The policies of deploy/policies/guards.yaml are on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import pytest
import pytest_asyncio

from tests.scenarios import accounts, namespaces, objects, steps
from tests.scenarios import api as kubernetes
from tests.scenarios.api import Api, ApiError, Json
from tests.scenarios.audit import assert_no_device_was_taken
from tests.scenarios.claims import listed
from tests.scenarios.conftest import ALONE
from tests.scenarios.controller import Controller, Settings
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, EVENTS, PODS
from tests.scenarios.target import Capability, Mode, Target
from tests.scenarios.tenants import CLAIMS_AT_ONCE, ROWS, Row, Stage

pytestmark = [
    pytest.mark.modes(Mode.REPLACE),
    pytest.mark.needs(Capability.RIGHTS),
    pytest.mark.asyncio(loop_scope="module"),
]

WORKERS: Final = 6
STARTS_WITHIN: Final = 20.0
"""Seconds for a new pod of the victim, while the tenant does all of it at once."""


@dataclass(frozen=True)
class Outcome:
    """What has come of all rows."""

    answers: dict[str, BaseException | None]
    started_within: float
    """Seconds that a pod of the victim took meanwhile."""
    served: int
    """Pods of the victim, of which none lost a device."""
    allocations: int
    events: int
    """Those about the tenant's claims."""
    log: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def outcome(target: Target) -> AsyncIterator[Outcome]:
    """All rows are played once for all tests."""
    settings = Settings(kubeconfig=target.controller, mode=target.mode, configuration=ALONE)
    controller = Controller(target.folder, settings, name="tenants")
    async with (
        kubernetes.connect(target.admin) as api,
        namespaces.temporary(api, purpose="victim") as other,
        namespaces.temporary(api, purpose="tenant") as own,
    ):
        await controller.start()
        try:
            path = await accounts.create(target, own, "tenant", in_namespace=[accounts.EDIT])
            async with accounts.acting(path, own) as tenant:
                yield await _play(tenant, own, other, controller)
        finally:
            await controller.stop()


async def _play(tenant: Api, own: Namespace, other: Namespace, controller: Controller) -> Outcome:
    devices = await other.offer_devices(3)
    await other.create(objects.claim("shared", device_class=devices, reserved_for="jobs.batch/train"))
    async with other.history("shared") as claim, other.history("", resource=PODS) as pods:
        job = await other.create(objects.job("train", PodShape(claim="shared", gated=True), parallelism=WORKERS))
        await steps.pods_run(other, count=WORKERS)
        worker, *_ = await other.all(PODS)
        await steps.claim_is(other, "shared", lambda found: listed(found, "jobs"), saying="it is reserved")
        stage = Stage(tenant=tenant, own=own, other=other, devices=devices, job=job, worker=worker)
        await stage.claim("mine", reserved_for="jobs.batch/none")
        await tenant.create(objects.pod("user", PodShape(claim="mine")), namespace=own.name)
        await steps.pods_run(own, "user")
        answers, began = {}, time.monotonic()

        async def play(row: Row) -> None:
            try:
                await row.play(stage)
            except (ApiError, AssertionError) as error:
                answers[row.name] = error
            else:
                answers[row.name] = None

        async def new_pod() -> float:
            await asyncio.sleep(0)  # behind the first requests of the others
            began = time.monotonic()
            await other.create(objects.pod("later", PodShape(claim="shared", gated=True)))
            await steps.pods_run(other, "later", within=60)
            return time.monotonic() - began

        playing = [asyncio.create_task(play(row)) for row in ROWS]
        started_within = await new_pod()
        await asyncio.gather(*playing)
        print(
            f"\n{len(ROWS)} rows in {time.monotonic() - began:.1f} s; the victim's pod ran after {started_within:.1f} s"
        )
        await claim.catch_up()
        await pods.catch_up()
        served = await assert_no_device_was_taken(other, claim, pods, "shared")
        devices_of = {str(v.object.get("status", {}).get("allocation")) for v in claim.versions} - {"None"}

    async def about_claims() -> list[Json]:
        return [each for each in await own.all(EVENTS) if each["involvedObject"]["kind"] == CLAIMS.kind]

    events = await eventually(  # they are written one after the other, behind everything else
        about_claims, until=lambda found: len(found) >= CLAIMS_AT_ONCE, within=60, saying="all claims have an Event"
    )
    return Outcome(answers, started_within, served, len(devices_of), len(events), controller.log)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_a_tenants_attempt_is_refused_or_harmless(outcome: Outcome, row: Row) -> None:
    answer = outcome.answers[row.name]
    if row.refused is None:
        assert answer is None, answer
    else:
        assert isinstance(answer, ApiError), answer
        assert answer.status == row.refused, answer


async def test_the_victim_keeps_its_devices_and_its_pods_start(outcome: Outcome) -> None:
    assert outcome.allocations == 1
    assert outcome.served == WORKERS + 1
    assert outcome.started_within < STARTS_WITHIN


async def test_nothing_of_it_breaks_the_controller_or_floods_the_events(outcome: Outcome) -> None:
    assert "Traceback" not in outcome.log
    assert CLAIMS_AT_ONCE <= outcome.events < 2 * CLAIMS_AT_ONCE
