"""Everything that a controller serves, kept going while controllers of two builds lead in turn.

Some pods stay from the beginning to the end: they must keep their devices. After each change of the leader, pods join,
claims are made from templates, owners enter Reservations, and a workload begins and another one ends.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import yaml

from tests.older_build.builds import ROOT
from tests.scenarios import objects, steps
from tests.scenarios.audit import (
    assert_no_device_was_doubled,
    assert_pods_kept_their_devices,
)
from tests.scenarios.claims import allocated, entries
from tests.scenarios.eventually import eventually
from tests.scenarios.objects import PodShape
from tests.scenarios.reservations import test_devices as held
from tests.scenarios.reservations.migrations import SCHEDULER
from tests.scenarios.reservations.test_manual import reaches, reservation
from tests.scenarios.resources import CLAIMS, JOBS, NAMESPACES, PODS, RESERVATIONS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.scenarios.namespaces import Namespace

Json = dict[str, Any]

GATED, UNGATED, GENERATED = 6, 3, 3
CARDS: Final = ROOT / "examples" / "koordinator"
DEVICES: Final = 12
HOLDER: Final = "node-1"
RUNS_WITHIN: Final = 40.0
FREED_WITHIN: Final = 150.0
"""Seconds until devices are free: a minute after the last pod was listed, and ten seconds of a new leader."""


class Load:
    """Pods, claims and Reservations of one namespace."""

    def __init__(self, namespace: Namespace, *, translates: bool) -> None:
        """`translates`: whether the API server translates requests in Koordinator's form."""
        self._namespace: Final = namespace
        self._translates: Final = translates
        self._staying: dict[str, str] = {}
        self.ending: Final[list[str]] = []
        """Claims whose workloads were deleted: sooner or later they are written."""
        self._devices = ""
        self._round = 0
        self._room = f"{namespace.name}-room"

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Run the pods as long as the context lasts; then see that all of them have kept what they had."""
        namespace = self._namespace
        async with AsyncExitStack() as stack:
            claims = await stack.enter_async_context(namespace.history(""))
            pods = await stack.enter_async_context(namespace.history("", resource=PODS))
            await self._begin()
            yield
            await self._end()
            await claims.catch_up()
            await pods.catch_up()
        whole = [name for name in claims.names() if not name.startswith("half-")]
        assert_no_device_was_doubled(*map(claims.only, whole))
        for name in sorted(claims.names()):
            assert_pods_kept_their_devices(claims.only(name), pods, name)
        shared = [version.object for version in claims.only("train").versions if version.change != "DELETED"]
        first = next(number for number, each in enumerate(shared) if _has_workload(each))
        last = len(shared) - 1 - next(n for n, each in enumerate(reversed(shared)) if _has_workload(each))
        lost = [each["metadata"]["resourceVersion"] for each in shared[first:last] if not _has_workload(each)]
        assert not lost, f"claim train was released under its pods, at {lost}"

    async def _begin(self) -> None:
        namespace = self._namespace
        self._devices = await namespace.offer_devices(DEVICES)
        of_holder = await namespace.offer_devices(4, node=HOLDER)
        assert of_holder == self._devices
        await namespace.create(objects.claim("train", device_class=self._devices, reserved_for="jobs.batch/train"))
        await namespace.create(objects.job("train", PodShape(claim="train", gated=True), parallelism=GATED))
        await namespace.create_all(objects.pods("ungated", UNGATED, PodShape(claim="train")))
        await namespace.create(objects.claim_template("single", device_class=self._devices))
        await namespace.create(objects.claim_template("pair", device_class=self._devices, devices=2))
        await namespace.create_all(objects.pods("generated", GENERATED, PodShape(claim_template="single")))
        await held.reserve(namespace, "held", where=objects.ON_SOUND_NODES)
        await namespace.api.create(self._room_for_owners())
        await reaches(namespace.api, self._room, "Available")
        await namespace.create(self._owner("owner-stays"))
        if self._translates:
            for name in ("classes.yaml", "slices-for-trying.yaml"):
                for each in yaml.safe_load_all((CARDS / name).read_text()):
                    await namespace.create(each)
            enabled = {"metadata": {"labels": {"reserve.dra/koordinator": "enabled"}}}
            await namespace.api.patch(NAMESPACES, namespace.name, enabled)
            await namespace.create(_half_a_card("half-stays"))
        await steps.pods_run(namespace, count=GATED + UNGATED + GENERATED + 1 + self._translates, within=RUNS_WITHIN)
        self._staying = await self._running()

    async def is_well(self, after: str) -> None:
        """Assert that nobody has lost anything, and that all that comes is served; leave a workload to end."""
        await self.is_untouched(after)
        namespace, self._round = self._namespace, self._round + 1
        number = self._round
        visitors = (
            objects.pod(f"joins-{number}", PodShape(claim="train")),
            objects.pod(f"joins-gated-{number}", PodShape(claim="train", gated=True)),
            objects.pod(f"visits-{number}", PodShape(claim_template="single")),
            self._owner(f"owner-{number}"),
            held.pod(f"holder-{number}", app="held"),
            *([_half_a_card(f"half-{number}")] if self._translates else []),
        )
        await namespace.create_all(visitors)
        name = f"short-{number}"
        await namespace.create(objects.claim(name, device_class=self._devices, reserved_for=f"jobs.batch/{name}"))
        await namespace.create(objects.job(name, PodShape(claim=name)))
        names = [each["metadata"]["name"] for each in visitors]
        await steps.pods_run(namespace, *names, within=RUNS_WITHIN)
        await steps.claim_is(namespace, name, _has_workload, saying=f"its workload is listed, {after}")
        given = await self._claim_of(f"holder-{number}")
        assert held.owners(given)[0][:2] == ("Pod", f"holder-{number}"), f"{after}: the held claim was not handed over"
        await self._has_owners("owner-stays", f"owner-{number}")
        if self._translates:
            await steps.pod_is(namespace, f"half-{number}", _is_told_its_card, saying=f"knows its card, {after}")
        for each in names[2:]:
            await namespace.delete(PODS, each, grace_seconds=1)
        await held.kept_by(namespace, "held")
        await self._has_owners("owner-stays")
        left = tuple(f"{each}-" for each in names)
        await eventually(
            lambda: namespace.all(CLAIMS),
            until=lambda claims: not any(each["metadata"]["name"].startswith(left) for each in claims),
            saying=f"{after}: claims that were made for deleted pods are deleted",
        )

    async def is_untouched(self, after: str) -> None:
        """Assert that the pods that stay are the same ones and run, and that the Reservations are Available."""
        assert await self._running() == self._staying, f"{after}: other pods run"
        assert allocated(await self._namespace.get(CLAIMS, "train")), f"{after}: claim train has no devices"
        for name in (self._room, held.rsv(self._namespace, "held")):
            found = await self._namespace.api.get(RESERVATIONS, name)
            assert found["status"]["phase"] == "Available", f"{after}: Reservation {name}: {found['status']}"

    async def end_a_workload(self) -> None:
        """Delete a workload right before the leader changes: the next one gives its devices back."""
        if self._round:
            name = f"short-{self._round}"
            await self._namespace.delete(JOBS, name)
            self.ending.append(name)

    async def _end(self) -> None:
        namespace = self._namespace
        await self.end_a_workload()
        for name in self.ending:
            await steps.freed(namespace, name, within=FREED_WITHIN)
        await self.is_untouched("at the end")

    def _room_for_owners(self) -> Json:
        found = reservation(self._room, cpu="4", allocateOnce=False)
        found["spec"]["template"]["spec"] |= {"schedulerName": SCHEDULER, **objects.ON_SOUND_NODES}
        found["spec"]["owners"] = [{"labelSelector": {"matchLabels": {"app": self._room}}}]
        return found

    def _owner(self, name: str) -> Json:
        made = objects.pod(name, PodShape(labels={"app": self._room}, spec={"schedulerName": SCHEDULER}))
        made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
        return made

    async def _has_owners(self, *names: str) -> None:
        await eventually(
            lambda: self._namespace.api.get(RESERVATIONS, self._room),
            until=lambda found: {each["name"] for each in found["status"].get("currentOwners", ())} == set(names),
            saying=f"the Reservation names its owners {', '.join(names)}",
        )

    async def _claim_of(self, pod: str) -> Json:
        found = await self._namespace.get(PODS, pod)
        (status,) = found["status"]["resourceClaimStatuses"]
        return await self._namespace.get(CLAIMS, status["resourceClaimName"])

    async def _running(self) -> dict[str, str]:
        """Return the uids of the pods that stay and run, by name."""
        return {
            pod["metadata"]["name"]: pod["metadata"]["uid"]
            for pod in await self._namespace.all(PODS)
            if pod["status"].get("phase") == "Running"
            if pod["metadata"]["name"].startswith(("train-", "ungated-", "generated-", "owner-stays", "half-stays"))
        }


def _half_a_card(name: str) -> Json:
    made = objects.pod(name, PodShape())
    made["spec"]["containers"][0]["resources"] = {"limits": {"koordinator.sh/gpu": "50"}}
    return made


def _is_told_its_card(pod: Json) -> bool:
    return "scheduling.koordinator.sh/device-allocated" in pod["metadata"].get("annotations", {})


def _has_workload(claim: Json) -> bool:
    return any(each["resource"] == "jobs" for each in entries(claim))
