"""The main job as a building block: one claim, a Job whose gated pods share it, and ungated pods that use it, too."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from tests.scenarios import objects, steps
from tests.scenarios.api import ApiError
from tests.scenarios.audit import assert_no_device_was_taken
from tests.scenarios.claims import condition
from tests.scenarios.eventually import eventually
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, JOBS, PODS

if TYPE_CHECKING:
    from tests.scenarios.history import WatchHistory
    from tests.scenarios.namespaces import Namespace

Json = dict[str, Any]

AT_ONCE: Final = 16


@dataclass(frozen=True, kw_only=True)
class Size:
    """How many pods of each sort, and how many of those run at the same time; without, all of them."""

    gated: int
    ungated: int
    side_by_side: int | None = None
    run_seconds: int | None = None
    """How long each runs; without, until `SharedClaim.end`."""

    @property
    def pods(self) -> int:
        """All of them."""
        return self.gated + self.ungated


@dataclass(frozen=True, kw_only=True)
class SharedClaim:
    """One claim of that name, reserved for the Job of that name; a second Job makes the ungated pods."""

    namespace: Namespace
    name: str
    size: Size

    @property
    def jobs(self) -> tuple[str, ...]:
        """The Jobs whose pods use the claim."""
        return (self.name, f"{self.name}-ungated") if self.size.ungated else (self.name,)

    async def create(self, *, devices: str) -> None:
        """Create the claim and the Jobs."""
        reserved_for = f"jobs.batch/{self.name}"
        await self.namespace.create(objects.claim(self.name, device_class=devices, reserved_for=reserved_for))
        for job, count in zip(self.jobs, (self.size.gated, self.size.ungated), strict=False):
            shape = PodShape(claim=self.name, gated=job == self.name, run_seconds=self.size.run_seconds)
            at_once = min(count, self.size.side_by_side or count)
            await self.namespace.create(objects.job(job, shape, parallelism=at_once, completions=count))

    async def all_run(self, *, within: float) -> None:
        """Wait until all pods run."""
        count = self.size.pods
        await self._jobs_are(
            lambda jobs: sum(job["status"].get("ready", 0) for job in jobs) == count, within=within, saying="all run"
        )

    async def done(self, count: int, *, within: float) -> None:
        """Wait until so many pods have ended."""
        await self._jobs_are(
            lambda jobs: sum(job["status"].get("succeeded", 0) for job in jobs) >= count,
            within=within,
            saying=f"{count} pods have come and gone",
        )

    async def end(self) -> None:
        """Let all pods that there are run to their end."""
        turn = asyncio.Semaphore(AT_ONCE)

        async def one(name: str) -> None:
            async with turn:
                await steps.end_pods(self.namespace, name)

        pods = [pod for job in self.jobs for pod in await self.namespace.all(PODS, labelSelector=f"job-name={job}")]
        await asyncio.gather(*(one(pod["metadata"]["name"]) for pod in pods))

    async def complete(self, *, within: float) -> None:
        """Wait until the Jobs are complete: every pod ran, and ended well."""
        await self._jobs_are(
            lambda jobs: all(condition(job, "Complete") == "True" for job in jobs),
            within=within,
            saying="the jobs are complete",
        )

    async def freed(self, *, within: float) -> None:
        """Wait until the claim has given back its devices."""
        await self._look_until(
            lambda: self.namespace.get(CLAIMS, self.name), steps.free, within=within, saying="its devices are free"
        )

    async def served(self, claim: WatchHistory, pods: WatchHistory) -> int:
        """Assert that every pod that was bound had the claim for as long as it ran; return how many were."""
        await claim.catch_up()
        await pods.catch_up()
        return await assert_no_device_was_taken(self.namespace, claim, pods, self.name)

    async def _jobs_are(self, until: Any, *, within: float, saying: str) -> None:
        async def jobs() -> list[Json]:
            return [await self.namespace.get(JOBS, job) for job in self.jobs]

        await self._look_until(jobs, until, within=within, saying=saying)

    async def _look_until(self, look: Any, until: Any, *, within: float, saying: str) -> None:
        """Wait, also while the API server is away."""

        async def tolerant() -> Any:
            try:
                return await look()
            except (aiohttp.ClientError, TimeoutError, ApiError) as away:
                raise AssertionError(str(away)) from away

        await eventually(tolerant, until=until, within=within, saying=f"claim {self.name}: {saying}")
