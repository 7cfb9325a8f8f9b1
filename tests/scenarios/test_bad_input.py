"""Whatever is written on a claim or into its list: one Event for each thing that is wrong, no crash, and then silence.

The table is `bad_input`. All rows are played at once, in one namespace, on one controller; then nobody may write
anything for ten seconds. Each row is a test of its own, so that a wrong one is named.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from dra.kube.codec import allow_nesting
from tests.scenarios import api as kubernetes
from tests.scenarios import bad_input, namespaces, objects, steps
from tests.scenarios.api import ApiError
from tests.scenarios.bad_input import ROWS, Row, Stage
from tests.scenarios.changes import Changes
from tests.scenarios.claims import listed
from tests.scenarios.conftest import ALONE, StartController
from tests.scenarios.controller import Controller, Settings
from tests.scenarios.eventually import steadily
from tests.scenarios.metrics import Metrics, total
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, DEPLOYMENTS, EVENTS
from tests.scenarios.target import Capability, Mode, Target

CONTROLLER = "reserve.dra/controller"

QUIET = 7.0
"""Seconds without a write after which all rows have been answered: what is not urgent is written every five."""

SILENCE = 10.0

AT_ONCE = 8
"""Rows that are played in parallel."""


@dataclass(frozen=True)
class Outcome:
    """What has come of all rows."""

    failures: dict[str, BaseException]
    told: dict[str, Counter[str]]
    """Our Events about each claim, by reason."""
    writes: Counter[str]
    """Changes of each claim while there should have been silence."""
    before: Metrics
    after: Metrics
    log: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def outcome(target: Target) -> AsyncIterator[Outcome]:
    """Play everything."""
    settings = Settings(kubeconfig=target.controller, mode=target.mode, configuration=ALONE)
    controller = Controller(target.folder, settings, name=f"bad-input-{target.mode}")
    async with kubernetes.connect(target.admin) as api, namespaces.temporary(api, purpose="bad-input") as namespace:
        await controller.start()
        try:
            async with Changes(api, CLAIMS, namespace=namespace.name) as claims:
                yield await _played(namespace, controller, claims, target.mode)
        finally:
            await controller.stop()


async def _played(namespace: Namespace, controller: Controller, claims: Changes, mode: Mode) -> Outcome:
    devices = await namespace.offer_devices(64)
    job = objects.job(bad_input.TRAIN, PodShape())
    job["spec"]["suspend"] = True
    stage = Stage(namespace, devices, f"{namespace.name}-shared", await namespace.create(job))
    failures: dict[str, BaseException] = {}
    turn = asyncio.Semaphore(AT_ONCE)

    async def play(row: Row) -> None:
        async with turn:
            try:
                await row.play(stage, row.name)
            except Exception as error:  # noqa: BLE001 - of this row, not of all
                failures[row.name] = error

    await asyncio.gather(*(play(row) for row in ROWS if mode in row.modes))
    async with Changes(namespace.api, EVENTS, namespace=namespace.name) as events:
        await claims.quiet(lasting=QUIET, within=120)
        await events.quiet(lasting=2, within=60)
    silence, before = time.monotonic(), await controller.metrics()
    await steadily(lambda: controller.process.alive, lasting=SILENCE, saying="the controller is still there")
    return Outcome(
        failures=failures,
        told=await _told(namespace),
        writes=claims.since(silence),
        before=before,
        after=await controller.metrics(),
        log=controller.log,
    )


async def _told(namespace: Namespace) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for event in await namespace.all(EVENTS):
        about = event["involvedObject"]
        if event.get("reportingComponent") == CONTROLLER and about["kind"] == "ResourceClaim":
            found.setdefault(about["name"], Counter())[event["reason"]] += 1
    return found


def _marks(row: Row) -> list[pytest.MarkDecorator]:
    return [pytest.mark.needs(Capability.RIGHTS)] if "WorkloadUnreadable" in row.told else []


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name, marks=_marks(row)) for row in ROWS])
def test_a_mistake_is_told_once_and_then_left_alone(row: Row, mode: Mode, outcome: Outcome) -> None:
    if mode not in row.modes:
        pytest.skip(f"the stock controller, or nobody, answers in mode {mode}")
    if row.name in outcome.failures:
        raise outcome.failures[row.name]
    assert outcome.told.get(row.name, Counter()) == Counter(row.told)
    assert outcome.writes[row.name] == 0


def test_the_controller_wrote_nothing_more_and_nothing_went_wrong_in_it(outcome: Outcome) -> None:
    for name in ("dra_reserve_claim_writes_total", "dra_reserve_pods_ungated_total", "dra_reserve_pods_kicked_total"):
        assert total(outcome.after, name) == total(outcome.before, name)
    assert total(outcome.after, "dra_reserve_decision_failures_total") == 0
    refused = {series for series in outcome.after if 'code="422"' in series or 'code="5' in series}
    assert not refused
    assert "Traceback" not in outcome.log


def test_no_line_of_the_log_is_as_long_as_what_people_write(outcome: Outcome) -> None:
    assert max(map(len, outcome.log.splitlines())) < 4_000


def test_the_table_is_long_and_each_row_has_a_name_of_its_own() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS) >= 30


DEPTH = 4_900
"""Arrays in arrays: with their brackets they take the ten kilobytes that the parameters of a driver may have."""


@pytest.mark.needs(Capability.EXACT_BYTES)
async def test_a_claim_that_is_nested_deeper_than_python_likes_is_a_claim_like_others(
    namespace: Namespace, start_controller: StartController
) -> None:
    allow_nesting()  # this process reads it, too
    controller = await start_controller(configuration=ALONE)
    claim = objects.claim("deep", device_class=await namespace.offer_devices())
    parameters = {"nested": json.loads("[" * DEPTH + "]" * DEPTH)}
    claim["spec"]["devices"]["config"] = [{"opaque": {"driver": "example.com", "parameters": parameters}}]
    await namespace.create(claim)
    await namespace.create(objects.pod("first", PodShape(claim="deep", gated=True)))
    await steps.pods_run(namespace, "first")

    await controller.stop()
    await start_controller(configuration=ALONE)
    await namespace.create(objects.pod("second", PodShape(claim="deep", gated=True)))
    await steps.pods_run(namespace, "second")


@pytest.mark.needs(Capability.EXACT_BYTES)
async def test_a_claim_that_nobody_can_patch_is_a_claim_like_others(
    namespace: Namespace, start_controller: StartController
) -> None:
    """Somebody wrote spaces into what a driver is told: the API server then takes any patch for a change of that."""
    await start_controller(configuration=ALONE)
    await namespace.create(objects.deployment("crew", PodShape(), replicas=0))
    claim = objects.claim("spaced", device_class=await namespace.offer_devices(), reserved_for="deployments.apps/crew")
    await steps.create_with_spaces(namespace, claim)
    with pytest.raises(ApiError) as refused:
        await namespace.patch(CLAIMS, "spaced", {"metadata": {"annotations": {"a": "b"}}})
    assert refused.value.status == 422

    pods = objects.pods("worker", 3, PodShape(claim="spaced", gated=True))
    await namespace.create_all(pods)
    names = [pod["metadata"]["name"] for pod in pods]
    await steps.pods_run(namespace, *names)
    await steps.claim_is(namespace, "spaced", lambda claim: listed(claim, "deployments"), saying="it is reserved")
    await steps.end_pods(namespace, *names)
    await namespace.delete(DEPLOYMENTS, "crew")
    await steps.freed(namespace, "spaced")
