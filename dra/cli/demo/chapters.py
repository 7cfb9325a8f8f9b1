"""The story of the demo: three chapters on two planes, and an audit of every version that was written to them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from dra.cli.demo import demo_manifests
from dra.cli.demo.demo_manifests import NAMESPACE
from dra.cli.demo.demo_plane import DemoPlane
from dra.cli.demo.object_printers import ObjectPrinter
from dra.cli.demo.safety_check import SafetyVerdict, check_safety
from dra.cli.demo.screen import Screen
from dra.cli.demo.write_history import WriteHistory
from dra.engine.claims.view import VanishedPod
from dra.engine.instants import BIND_HORIZON
from dra.model.pods import TERMINAL_PHASES
from dra.model.workload_reservations import NO_UID

JOBS_PATH: Final = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
CLAIMS_PATH: Final = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"
PODS_PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"

STEP_TIMEOUT: Final = 120.0
"""Seconds until a step counts as failed, generous enough for a busy machine."""

FRAME_INTERVAL: Final = 0.1
"""Seconds between two polls of the history, and so between two updates of the progress line."""

FAULT_RULES: Final[list[dict[str, Any]]] = [
    {"fault": "conflict", "component": "dra-reserve", "resource": "resourceclaims*", "probability": 0.6, "times": 8},
    {"fault": "lost", "component": "dra-reserve", "resource": "resourceclaims*", "after": True, "nth": 4, "times": 2},
    {"fault": "expired", "component": "dra-reserve", "resource": "pods", "nth": 5, "times": 1},
]
"""Faults that the API server injects into the controller's requests in the third chapter."""


class DemoStepError(RuntimeError):
    """An expected state of a demo step was not reached in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoScene:
    """A plane, with its history and the output that shows it."""

    plane: DemoPlane
    history: WriteHistory
    screen: Screen
    show: ObjectPrinter
    pods: int
    seconds: float
    """Seconds that each pod runs."""

    async def create(self, path: str, obj: dict[str, Any]) -> dict[str, Any]:
        """Create an object on the plane."""
        return await self.plane.request("POST", path, obj)

    async def create_device(self) -> None:
        """Create the device that all claims of the demo share."""
        for path, obj in demo_manifests.shared_device():
            await self.create(path, obj)

    async def show_progress(self, job: str, claim: str, until: Callable[[], bool], *, pods: int) -> None:
        """Show progress of a Job's pods and of its claim's list until a condition holds; raise DemoStepError."""
        key = (NAMESPACE, claim)
        clock = asyncio.get_running_loop()
        deadline = clock.time() + STEP_TIMEOUT
        while True:
            phases = self.history.phases(NAMESPACE, job)
            ended = sum(phases[phase] for phase in TERMINAL_PHASES)
            running = phases["Running"]
            text = f"running {running:,} · ended {ended:,} of {pods:,} · list: {self.history.list_summary(key)}"
            self.screen.progress(running + ended, pods, text)
            if until():
                return
            if clock.time() > deadline:
                raise DemoStepError(f"Job {job} on api {self.plane.api}: not done within {STEP_TIMEOUT:.0f} s: {text}")
            await asyncio.sleep(FRAME_INTERVAL)

    def started(self, job: str) -> int:
        """Return how many pods of a Job run or have run."""
        phases = self.history.phases(NAMESPACE, job)
        return phases["Running"] + sum(phases[phase] for phase in TERMINAL_PHASES)

    def ended(self, job: str) -> int:
        """Return how many pods of a Job have finished."""
        phases = self.history.phases(NAMESPACE, job)
        return sum(phases[phase] for phase in TERMINAL_PHASES)

    def reserved(self, claim: str) -> bool:
        """Report whether the list of a claim has an entry of a Job."""
        claim_object = self.history.claim((NAMESPACE, claim))
        return claim_object is not None and any(entry.resource == "jobs" for entry in claim_object.entries)

    def allocated(self, claim: str) -> bool:
        """Report whether a claim is allocated."""
        claim_object = self.history.claim((NAMESPACE, claim))
        return claim_object is not None and claim_object.status.allocation is not None

    def has_been_allocated(self, claim: str) -> bool:
        """Report whether a claim is allocated or was: while another plane is shown, the pod of a claim may end."""
        return any(version.devices for version in self.history.claim_versions(claim))


async def show_kep_field(scene: DemoScene) -> None:
    """Show the first chapter: the field of KEP-5194, on a server that has the field."""
    screen, pods = scene.screen, scene.pods
    screen.title(f"1  A Job of {pods:,} pods shares one claim (KEP-5194: spec.reservedFor)")
    await scene.create_device()
    job = await scene.create(
        JOBS_PATH, demo_manifests.job("train", pods=pods, claim_name="train", seconds=scene.seconds, gated=False)
    )
    reserved_for = {"apiGroup": "batch", "resource": "jobs", "name": "train", "uid": job["metadata"]["uid"]}
    await scene.create(CLAIMS_PATH, demo_manifests.claim("train", reserved_for=reserved_for))
    screen.code(
        ("kind: ResourceClaim", "spec:", "  reservedFor: {apiGroup: batch, resource: jobs, name: train, uid: …}")
    )
    began = asyncio.get_running_loop().time()
    await scene.show_progress("train", "train", lambda: scene.started("train") >= pods, pods=pods)
    took = asyncio.get_running_loop().time() - began
    if most := max(version.pods_listed for version in scene.history.claim_versions("train")):
        raise DemoStepError(
            f"claim train on api {scene.plane.api}: {most} pods were in its list, which must contain only the Job"
        )
    screen.good(f"{pods:,} pods on one device, the last one started after {took:.1f} s; the list has never held a pod:")
    await scene.show.print_field(
        scene.plane, "resourceclaims", "train", namespace=NAMESPACE, field="status.reservedFor"
    )
    await create_waiting_claim(scene, "next")
    await scene.show_progress("train", "train", lambda: not scene.reserved("train"), pods=pods)
    screen.good(
        "The Job has finished, and its entry is removed. A scheduler that read the claim before may still bind a pod "
        "to it,"
    )
    screen.say(
        f"  without a write: claim next gets the device {BIND_HORIZON:.0f} s later. Meanwhile, on the other plane:"
    )


async def create_waiting_claim(scene: DemoScene, claim_name: str) -> None:
    """Create a claim that needs the shared device, and a pod that uses the claim."""
    await scene.create(CLAIMS_PATH, demo_manifests.claim(claim_name))
    await scene.create(PODS_PATH, demo_manifests.pod(claim_name, claim_name=claim_name, seconds=1))
    scene.screen.say(f"Claim {claim_name} waits for the same device.")


async def show_next_claim(scene: DemoScene) -> None:
    """Show that claim next gets the device once the device is free, even if its pod has ended by now."""
    await scene.show_progress("train", "train", lambda: scene.has_been_allocated("next"), pods=scene.pods)
    got = "has the device" if scene.allocated("next") else "got the device, which is free again since its pod ended"
    scene.screen.good(f"The Job has finished, and claim next {got}:")
    await scene.show.print_table(scene.plane, "resourceclaims", namespace=NAMESPACE)


async def show_annotation(scene: DemoScene) -> None:
    """Show the second chapter: the same with an annotation, on the API of Kubernetes 1.36."""
    screen, pods = scene.screen, scene.pods
    screen.title("2  The same on the API of Kubernetes 1.36: an annotation, and a window that moves through the list")
    await scene.create_device()
    await scene.create(CLAIMS_PATH, demo_manifests.claim("train", annotation="jobs.batch/train"))
    screen.code(("kind: ResourceClaim", "metadata:", "  annotations: {reserve.dra/reserved-for: jobs.batch/train}"))
    await scene.create(
        JOBS_PATH, demo_manifests.job("train", pods=pods, claim_name="train", seconds=scene.seconds, gated=True)
    )
    began = asyncio.get_running_loop().time()
    await scene.show_progress("train", "train", lambda: scene.started("train") >= pods, pods=pods)
    took = asyncio.get_running_loop().time() - began
    versions = scene.history.claim_versions("train")
    most = max(version.pods_listed for version in versions)
    screen.good(f"{pods:,} pods on one device, the last one started after {took:.1f} s. The list takes 256 entries;")
    screen.say(f"  it held {most} pods at most, others moved up as they started: {len(versions)} writes of the claim.")
    await create_waiting_claim(scene, "next")
    await show_next_claim(scene)


async def show_failures(scene: DemoScene) -> None:
    """Show the third chapter: the same again, while the controller is killed and requests fail."""
    screen, plane = scene.screen, scene.plane
    pods = max(scene.pods * 2 // 5, 1)
    screen.title(f"3  Another {pods:,} pods, while the controller is killed and its connections fail")
    await scene.create(CLAIMS_PATH, demo_manifests.claim("again", annotation="jobs.batch/again"))
    await plane.request("PUT", "/dra/faults", {"rules": FAULT_RULES})
    await scene.create(
        JOBS_PATH, demo_manifests.job("again", pods=pods, claim_name="again", seconds=scene.seconds, gated=True)
    )
    await scene.show_progress("again", "again", lambda: scene.started("again") >= pods // 4, pods=pods)
    pid = plane.kill_controller()
    screen.bad(f"kill -9 {pid}: the controller was killed, with {scene.started('again'):,} pods started")
    async with asyncio.TaskGroup() as group:
        coming = group.create_task(plane.wait_new_controller(pid))
        await scene.show_progress("again", "again", coming.done, pods=pods)
    screen.good(f"A new controller (pid {coming.result()}) has read the cluster and continues.")
    await scene.show_progress("again", "again", lambda: scene.ended("again") >= pods, pods=pods)
    counts = (await plane.request("GET", "/dra/faults"))["counts"]
    await plane.request("DELETE", "/dra/faults")
    faults = ", ".join(f"{counts.get(name, 0)} × {what}" for name, what in _FAULT_TEXTS.items())
    screen.good(f"All pods have finished, despite a crash, {faults}.")
    screen.say(
        "  The new process found a guard in the list. Pods that were deleted by force before may still run: claim"
    )
    screen.say(
        f"  again keeps its device for {VanishedPod(NO_UID).seconds_to_end:.0f} s from the start of the process "
        "(GuardFound)."
    )


_FAULT_TEXTS: Final = {"conflict": "409 Conflict", "lost": "a write without an answer", "expired": "a watch lost (410)"}


async def show_safety_check(scenes: list[DemoScene], screen: Screen) -> bool:
    """Show the result of the audit; return whether no plane has a violation or a gap."""
    screen.title("Audit of every version that claims and pods ever had")
    passed = True
    for scene in scenes:
        await _wait_for_last_write(scene)
        passed = (
            _print_verdict(scene, check_safety(scene.history.versions, guarded={(NAMESPACE, "again")}), screen)
            and passed
        )
    return passed


async def _wait_for_last_write(scene: DemoScene) -> None:
    """Wait until the last pod has finished and the watches have shown the last write."""

    def over() -> bool:
        return scene.history.pod_ended((NAMESPACE, "next")) and not scene.allocated("next")

    await _wait_until(over, saying="claim next is released")
    present = [
        content for path in (CLAIMS_PATH, PODS_PATH) for content in (await scene.plane.request("GET", path))["items"]
    ]
    await _wait_until(lambda: scene.history.has_seen(present), saying="the watches have shown the last write")


def _print_verdict(scene: DemoScene, verdict: SafetyVerdict, screen: Screen) -> bool:
    api = f"api {scene.plane.api}".ljust(9)
    for violation in verdict.violations[:5]:
        screen.bad(f"{api} {violation}")
    if len(verdict.violations) > 5:  # noqa: PLR2004 - as many as were shown
        screen.bad(f"{api} … and {len(verdict.violations) - 5} more")
    if scene.history.gaps:
        screen.bad(f"{api} a watch has missed events: the result is not certain")
    passed = not verdict.violations and not scene.history.gaps
    if passed:
        figures = f"{verdict.writes:,} writes, {verdict.pods:,} pods"
        screen.good(f"{api} {figures}: no device was allocated twice, taken from a pod that used it, or leaked")
    figures = f"{verdict.allocations} allocations, the longest list had {verdict.max_list_length} entries"
    screen.say(f"  {' ' * len(api)} {figures}")
    return passed


async def _wait_until(holds: Callable[[], bool], *, saying: str) -> None:
    deadline = asyncio.get_running_loop().time() + STEP_TIMEOUT
    while not holds():
        if asyncio.get_running_loop().time() > deadline:
            raise DemoStepError(f"timed out after {STEP_TIMEOUT:.0f} s: {saying}")
        await asyncio.sleep(FRAME_INTERVAL)
