"""Pods leave a device that gets a NoExecute taint, listed or not.

The stock eviction finds a claim's pods in its list. Those that have left the list because something else keeps the
reservation are ours to evict, and only those: by the same taints, tolerations and deadlines, in the same way.
"""

from __future__ import annotations

import time
from typing import Any, Final

import pytest

from tests.cluster.versions import minor, numbers
from tests.scenarios import metrics, objects, steps, taints
from tests.scenarios.claims import bound, listed
from tests.scenarios.conftest import ALONE, StartController
from tests.scenarios.controller import Controller
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.features import Feature, kubernetes_version
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import PODS
from tests.scenarios.taints import BROKEN, FOR_EVER, for_a_while
from tests.scenarios.target import Capability, Mode

pytestmark = pytest.mark.needs(Feature.DEVICE_TAINTS)

Json = dict[str, Any]

FIFTY: Final = 50

DEVICES: Final = 12

SOON: Final = 30.0
"""Seconds within which the pods of a device are gone once they are due; fifty take 0.7 on two cores that are free."""

QUIET: Final = 3.0
"""Seconds in which nothing happens."""

EVICTED: Final = "dra_reserve_pods_evicted_total"


@pytest.fixture
async def devices(namespace: Namespace) -> str:
    return await taints.offer(namespace, DEVICES)


@pytest.mark.modes(Mode.REPLACE)
async def test_fifty_unlisted_pods_leave_a_tainted_device_as_listed_ones_do(
    namespace: Namespace, controller: Controller, devices: str
) -> None:
    for claim in ("broken", "sound"):
        await taints.reserve(namespace, claim, devices=devices)
    doomed = await taints.run_unlisted(namespace, "broken", FIFTY)
    safe = set(await taints.run_unlisted(namespace, "sound", 3))
    async with namespace.history(doomed[0], resource=PODS) as history:
        await taints.put(namespace, await taints.device_of(namespace, "broken"), taints=[BROKEN])
        await eventually(lambda: _pods(namespace), until=lambda left: left == safe, within=SOON, saying="they are gone")
    await _are_counted(controller, FIFTY)
    assert ("True", "DeletionByDeviceTaintManager") in [_disruption(version.object) for version in history.versions]
    await steps.told(namespace, doomed[0], "DeviceTaintManagerEviction")
    await steadily(lambda: _stay(namespace, safe), lasting=1.0, saying="pods of a sound device stay")


@pytest.mark.modes(Mode.REPLACE)
@pytest.mark.needs(Capability.STOCK_EVICTION)
async def test_without_us_nobody_evicts_unlisted_pods(
    namespace: Namespace, start_controller: StartController, devices: str
) -> None:
    """What the others are worth: the stock eviction runs, and does not see them."""
    await start_controller(configuration={**ALONE, "deviceTaintEviction": False})
    await taints.reserve(namespace, "shared", devices=devices)
    unlisted = set(await taints.run_unlisted(namespace, "shared", 3))
    await _run_listed(namespace, "shared", "listed")
    await taints.put(namespace, await taints.device_of(namespace, "shared"), taints=[BROKEN])
    await eventually(lambda: _pods(namespace), until=lambda left: left == unlisted, saying="stock evicts the listed")
    await steadily(lambda: _stay(namespace, unlisted), lasting=QUIET, saying="and does not see the others")


TOLERATIONS: Final[dict[str, tuple[list[Json], float | None]]] = {
    "none": ([], 0),
    "all": ([FOR_EVER], None),
    "value": ([{**BROKEN, "operator": "Equal"}], None),
    "other-value": ([{**BROKEN, "operator": "Equal", "value": "heat"}], 0),
    "key": ([{**FOR_EVER, "key": BROKEN["key"]}], None),
    "other-key": ([{**FOR_EVER, "key": "example.com/dusty"}], 0),
    "no-effect": ([{"operator": "Exists"}], None),
    "other-effect": ([{"operator": "Exists", "effect": "NoSchedule"}], 0),
    "a-while": ([for_a_while(4)], 4),
    "shortest-while": ([for_a_while(3600), for_a_while(4)], 4),
    "ever-and-a-while": ([FOR_EVER, for_a_while(4)], None),
    "less-than-no-time": ([for_a_while(-3600)], 0),
}
"""What a claim tolerates, and for how many seconds its pods stay; None for ever."""

EVICTED_BY_STOCK: Final = {"no-effect"} if minor(kubernetes_version()) < 38 else set()
"""What kube-controller-manager up to 1.37 takes for no toleration, against the API's words."""


@pytest.mark.modes(Mode.REPLACE)
@pytest.mark.needs(Capability.STOCK_EVICTION)
@pytest.mark.usefixtures("controller")
async def test_each_toleration_is_understood_as_the_stock_eviction_does(namespace: Namespace, devices: str) -> None:
    """Each claim has a pod that is listed, so that upstream decides about it, and one that is not."""
    for case, (tolerations, _) in TOLERATIONS.items():
        await taints.reserve(namespace, case, devices=devices, tolerations=tolerations)
    ours = {case: (await taints.run_unlisted(namespace, case))[0] for case in TOLERATIONS}
    stock = {case: await _run_listed(namespace, case, f"{case}-listed") for case in TOLERATIONS}
    due = {case for case, (_, seconds) in TOLERATIONS.items() if seconds is not None}
    doomed = {*(pods[case] for pods in (ours, stock) for case in due), *(stock[case] for case in EVICTED_BY_STOCK)}

    began = time.monotonic()
    await taints.put(namespace, *(f"device-{number}" for number in range(DEVICES)), taints=[BROKEN])
    ends: dict[str, float] = {}

    async def are_over() -> bool:
        left = await _pods(namespace)
        for name in {*ours.values(), *stock.values()} - left:
            ends.setdefault(name, time.monotonic() - began)
        return doomed <= ends.keys()

    await eventually(are_over, within=4 + SOON, saying="those that are due have gone")
    await steadily(are_over, lasting=2.0, saying="time passes")
    for case, (_, seconds) in TOLERATIONS.items():
        after, by_stock = ends.get(ours[case]), ends.get(stock[case])
        stays = seconds is None
        assert (after is None, by_stock is None) == (stays, stays and case not in EVICTED_BY_STOCK), f"{case}: {ends}"
        if after is not None and by_stock is not None and seconds is not None:
            assert seconds - 1.0 <= after <= seconds + SOON, f"{case}: timeAdded has whole seconds"
            assert abs(after - by_stock) <= SOON, f"{case}: stock after {by_stock:.2f} s, we after {after:.2f} s"


@pytest.mark.modes(Mode.REPLACE)
@pytest.mark.usefixtures("controller")
async def test_a_taint_that_goes_in_time_ends_nobody(namespace: Namespace, devices: str) -> None:
    await taints.reserve(namespace, "shared", devices=devices, tolerations=[for_a_while(4)])
    pods = set(await taints.run_unlisted(namespace, "shared"))
    device = await taints.device_of(namespace, "shared")
    await taints.put(namespace, device, taints=[BROKEN])
    await steadily(lambda: _stay(namespace, pods), lasting=2.0, saying="the taint is tolerated")
    await taints.put(namespace, device, taints=[])
    await steadily(lambda: _stay(namespace, pods), lasting=4.0, saying="the taint is gone")


@pytest.mark.modes(Mode.REPLACE)
@pytest.mark.needs(Capability.STOCK_EVICTION)
async def test_a_pod_keeps_its_deadline_when_it_is_listed_or_unlisted_meanwhile(
    namespace: Namespace, controller: Controller, devices: str
) -> None:
    await taints.reserve(namespace, "shared", devices=devices, tolerations=[for_a_while(10)])
    (joins,) = await taints.run_unlisted(namespace, "shared")
    leaves = await _run_listed(namespace, "shared", "leaves")
    began = time.monotonic()
    await taints.put(namespace, await taints.device_of(namespace, "shared"), taints=[BROKEN])

    lost = [{"type": "PodReadyToStartContainers", "status": "False", "lastTransitionTime": "2030-01-01T00:00:00Z"}]
    await namespace.patch_status(PODS, joins, {"conditions": lost}, kind="strategic-merge-patch")
    await namespace.patch(PODS, leaves, {"metadata": {"labels": {objects.HOLD: None}}})
    await steps.claim_is(namespace, "shared", lambda claim: listed(claim) == {joins}, saying="they change places")
    await steadily(lambda: _stay(namespace, {joins, leaves}), lasting=1.0, saying="the taint is tolerated yet")
    await eventually(lambda: _pods(namespace), until=lambda left: not left, within=10 + SOON, saying="both are gone")
    assert time.monotonic() - began >= 9.0
    await _are_counted(controller, 1)


@pytest.mark.modes(Mode.REPLACE)
async def test_a_taint_that_came_while_we_were_away_counts_from_its_own_time(
    namespace: Namespace, controller: Controller, devices: str
) -> None:
    await taints.reserve(namespace, "shared", devices=devices, tolerations=[for_a_while(3600)])
    pods = set(await taints.run_unlisted(namespace, "shared"))
    await controller.stop()
    device = await taints.device_of(namespace, "shared")
    await taints.put(namespace, device, taints=[{**BROKEN, "timeAdded": "2026-01-01T00:00:00Z"}])
    await steadily(lambda: _stay(namespace, pods), lasting=1.0, saying="nobody is there to evict them")
    await controller.start()
    await eventually(lambda: _pods(namespace), until=lambda left: not left, within=SOON, saying="they are gone")


@pytest.mark.modes(Mode.ALONGSIDE)
async def test_listed_pods_are_left_to_the_stock_eviction(
    namespace: Namespace, controller: Controller, devices: str
) -> None:
    await taints.reserve(namespace, "shared", devices=devices)
    await namespace.create_all(objects.pods("pod", 5, PodShape(claim="shared", gated=True)))
    await steps.pods_run(namespace, count=5)
    await taints.put(namespace, await taints.device_of(namespace, "shared"), taints=[BROKEN])
    await eventually(lambda: _pods(namespace), until=lambda left: not left, saying="all are evicted")
    assert metrics.total(await controller.metrics(), EVICTED) == 0


async def _are_counted(controller: Controller, count: int) -> None:
    """Wait for the metric: a pod is gone before the controller has the answer that says so."""

    async def counted() -> float:
        return metrics.total(await controller.metrics(), EVICTED)

    await eventually(counted, until=lambda found: found >= count, saying=f"{count} evictions are counted")
    assert await counted() == count


async def _run_listed(namespace: Namespace, claim: str, name: str) -> str:
    """Let a pod be bound that never starts, so it stays in the list; return its name."""
    await namespace.create(objects.pod(name, PodShape(claim=claim, hold=True)))
    await steps.pod_is(namespace, name, bound, saying="is bound")
    await steps.claim_is(namespace, claim, lambda found: listed(found) == {name}, saying="lists it")
    return name


def _disruption(pod: Json) -> tuple[str, str] | None:
    """Return status and reason of the condition that says why a pod is being ended."""
    conditions = pod["status"].get("conditions", [])
    return next(((each["status"], each["reason"]) for each in conditions if each["type"] == "DisruptionTarget"), None)


async def _pods(namespace: Namespace) -> set[str]:
    return {pod["metadata"]["name"] for pod in await namespace.all(PODS)}


async def _stay(namespace: Namespace, names: set[str]) -> bool:
    return await _pods(namespace) >= names


@pytest.mark.needs(Feature.EXTENDED_RESOURCES)
@pytest.mark.usefixtures("controller")
async def test_a_pod_leaves_the_device_that_serves_its_extended_resource(namespace: Namespace, devices: str) -> None:
    """The stock eviction of Kubernetes up to 1.37.1 looks for claims in the spec of pods only."""
    device = await _run_extended(namespace, devices)
    await taints.put(namespace, device, taints=[BROKEN])
    await eventually(lambda: _pods(namespace), until=lambda left: not left, within=10.0, saying="the pod is gone")


@pytest.mark.modes(Mode.REPLACE)
@pytest.mark.needs(Feature.EXTENDED_RESOURCES, Capability.STOCK_EVICTION)
async def test_without_us_pods_with_extended_resources_are_evicted_since_1_37_2(
    namespace: Namespace, start_controller: StartController, devices: str
) -> None:
    await start_controller(configuration={**ALONE, "deviceTaintEviction": False})
    device = await _run_extended(namespace, devices)
    await taints.put(namespace, device, taints=[BROKEN])
    if numbers(kubernetes_version()) >= (1, 37, 2):
        await eventually(lambda: _pods(namespace), until=lambda left: not left, within=10.0, saying="stock evicts it")
    else:
        await steadily(lambda: _stay(namespace, {"extended"}), lasting=SOON, saying="stock does not see it")


async def _run_extended(namespace: Namespace, devices: str) -> str:
    """Run a pod named extended, and return the device that serves its extended resource."""
    pod = objects.pod("extended", PodShape())
    pod["spec"]["containers"][0]["resources"] = {"limits": {f"deviceclass.resource.kubernetes.io/{devices}": "1"}}
    await namespace.create(pod)
    await steps.pods_run(namespace, "extended")
    status = (await namespace.get(PODS, "extended"))["status"]["extendedResourceClaimStatus"]
    return await taints.device_of(namespace, status["resourceClaimName"])
