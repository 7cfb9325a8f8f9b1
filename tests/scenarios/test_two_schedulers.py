"""Two kube-schedulers whose pods share claims: each claim is allocated once, and the pods of both get in.

A scheduler knows the allocations of another one as soon as they are in the API, and allocates a claim by a
compare-and-swap on that claim. So nothing but the claim itself keeps two schedulers apart: each claim here has a device
of its own, which no other claim can get.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.cluster import binaries
from tests.cluster.versions import minor
from tests.scenarios import objects, steps
from tests.scenarios.audit import assert_no_device_was_doubled, assert_no_device_was_taken, deallocations
from tests.scenarios.claims import allocated, bound, condition, listed
from tests.scenarios.conftest import ALONE, StartController
from tests.scenarios.eventually import eventually
from tests.scenarios.history import WatchHistory
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, EVENTS, JOBS, PODS
from tests.scenarios.target import Capability, Target

pytestmark = [pytest.mark.needs(Capability.COMPONENTS)]

Json = dict[str, Any]

DEFAULT: Final = "default-scheduler"
OTHER: Final = "other-scheduler"

OF_EACH_SORT: Final = 2
PODS_OF_EACH: Final = 10
"""Pods of each scheduler on each claim."""


@dataclass(frozen=True, kw_only=True)
class Shared:
    """One claim, and the two Jobs whose pods share it."""

    name: str
    gated: bool
    reserved: bool

    @property
    def jobs(self) -> dict[str, str]:
        """The Jobs by the schedulers of their pods."""
        return {DEFAULT: self.name, OTHER: f"{self.name}-other"}

    async def create(self, namespace: Namespace) -> None:
        """Create the claim, for which there is no device yet, and the Jobs."""
        driver = self._driver(namespace)
        await namespace.create(objects.device_class(driver, driver=driver))
        reserved_for = f"jobs.batch/{self.name}" if self.reserved else None
        await namespace.create(objects.claim(self.name, device_class=driver, reserved_for=reserved_for))
        for scheduler, job in self.jobs.items():
            shape = PodShape(claim=self.name, gated=self.gated, spec={"schedulerName": scheduler})
            await namespace.create(objects.job(job, shape, parallelism=PODS_OF_EACH))

    async def offer(self, namespace: Namespace) -> None:
        """Offer the device, at which both schedulers try the waiting pods again."""
        driver = self._driver(namespace)
        await namespace.create(objects.resource_slice(driver, driver=driver, devices=["device-0"]))

    def _driver(self, namespace: Namespace) -> str:
        return f"{self.name}.{namespace.name}.scenario.dra"


def version_before(kubernetes: str) -> str:
    """Return the minor version that a scheduler may be of, beside an API server of this one."""
    return f"1.{minor(kubernetes) - 1}"


@pytest.fixture(params=["of the same version", pytest.param("of the version before", marks=pytest.mark.long)])
async def second(request: pytest.FixtureRequest, target: Target) -> AsyncIterator[str]:
    """A second kube-scheduler, for pods that name it; yields its version."""
    kubernetes = target.cluster.kubernetes
    if request.param == "of the version before":
        kubernetes = version_before(kubernetes)
    try:
        program = binaries.controlplane(kubernetes)
    except binaries.UnknownVersionError as error:
        pytest.skip(str(error))
    scheduler = target.cluster.another_scheduler(OTHER, kubernetes=kubernetes)
    scheduler.start()
    try:
        yield program.version
    finally:
        scheduler.stop()


async def test_pods_of_two_schedulers_share_claims_that_are_allocated_once(
    target: Target,
    namespace: Namespace,
    start_controller: StartController,
    second: str,
    remark: Callable[[str], None],
) -> None:
    await start_controller(configuration=ALONE)
    sorts = itertools.product((False, True), (False, True), range(OF_EACH_SORT))
    many = [
        Shared(name=f"shared-{number}", gated=gated, reserved=reserved)
        for number, (gated, reserved, _) in enumerate(sorts)
    ]
    async with namespace.history("") as claims, namespace.history("", resource=PODS) as pods:
        for each in many:
            await each.create(namespace)
        await both_schedulers_have_tried(namespace, many)
        for each in many:
            await each.offer(namespace)
        await jobs_are(
            namespace, many, lambda job: job["status"].get("ready") == PODS_OF_EACH, saying="the pods of both run"
        )
        await claims.catch_up()
        for each in many:
            assert deallocations(claims.only(each.name)) == [], f"{each}: allocated more than once"
        at_work = Counter(pod["spec"]["schedulerName"] for pod in await namespace.all(PODS) if bound(pod))
        assert at_work == dict.fromkeys((DEFAULT, OTHER), len(many) * PODS_OF_EACH)
        conflicts = await lost_races(namespace)

        await steps.end_pods(namespace)
        await jobs_are(
            namespace, many, lambda job: condition(job, "Complete") == "True", saying="the pods of both have ended"
        )
        await eventually(
            lambda: namespace.all(CLAIMS),
            until=lambda found: not any(map(allocated, found)),
            within=60,
            saying="all devices are free",
        )

    served = sum(
        [await assert_no_device_was_taken(namespace, claims.only(each.name), pods, each.name) for each in many]
    )
    assert served == 2 * PODS_OF_EACH * len(many)
    assert_no_device_was_doubled(claims)
    remark(
        f"{target.mode}, schedulers {target.cluster.kubernetes} and {second}: {served} pods, "
        f"allocated by {dict(allocators(claims, pods, many))}, {conflicts} claims allocated elsewhere meanwhile"
    )


async def both_schedulers_have_tried(namespace: Namespace, many: list[Shared]) -> None:
    """Wait until pods of both schedulers wait for a device of every claim."""

    async def tried() -> bool:
        waiting = [pod for pod in await namespace.all(PODS) if steps.unschedulable(pod)]
        found = {
            (pod["spec"]["schedulerName"], pod["spec"]["resourceClaims"][0]["resourceClaimName"]) for pod in waiting
        }
        ungated = [each.name for each in many if not each.gated]
        return found >= set(itertools.product((DEFAULT, OTHER), ungated))

    await eventually(tried, within=60, saying="both schedulers have found no device")


async def jobs_are(namespace: Namespace, many: list[Shared], until: Callable[[Json], bool], *, saying: str) -> None:
    async def jobs() -> list[Json]:
        wanted = {job for each in many for job in each.jobs.values()}
        return [job for job in await namespace.all(JOBS) if job["metadata"]["name"] in wanted]

    await eventually(jobs, until=lambda found: all(map(until, found)), within=120, saying=saying)


async def lost_races(namespace: Namespace) -> int:
    """Return how many times a scheduler found that the other one had allocated the claim of its pod."""
    found = [event for event in await namespace.all(EVENTS) if event["reason"] == "FailedScheduling"]
    return sum("elsewhere" in event["message"] or "conflict" in event["message"] for event in found)


def allocators(claims: WatchHistory, pods: WatchHistory, many: list[Shared]) -> Counter[str]:
    """Return how many claims each scheduler has allocated: it lists its pod in the same write."""
    schedulers = {v.object["metadata"]["name"]: v.object["spec"]["schedulerName"] for v in pods.versions}
    found: Counter[str] = Counter()
    for each in many:
        first = next(v.object for v in claims.only(each.name).versions if allocated(v.object))
        found.update({schedulers[name] for name in listed(first)})
    return found
