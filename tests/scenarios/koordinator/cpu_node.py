"""A node with the real CPU driver, of a machine that is not there: it prepares, refuses and reports as the plugin does.

The scenario plays the kubelet, which would ask for the claims of its pods again and again; kwok plays the containers.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

import msgspec

from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl.connection import connect
from kubeletplugin.cdi import CdiSpecDirectory
from kubeletplugin.checkpoint import Checkpoint
from kubeletplugin.claim_preparer import ClaimPreparer
from kubeletplugin.claims import ClaimReader
from kubeletplugin.contract import ClaimIdentity, PreparedClaim, PrepareError
from kubeletplugin.device_status import DeviceStatusReporter
from kubeletplugin.directory_lock import DirectoryLock
from kubeletplugin.drivers.cpu.devices import CpuDeviceMode
from kubeletplugin.drivers.cpu.driver import DRIVER_NAME, CpuDriver
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.kubeletplugin.drivers.cpu.test_driver import Source
from tests.scenarios import objects
from tests.scenarios.api import ApiError
from tests.scenarios.resources import CLAIMS, PODS, RESOURCE_SLICES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.scenarios.namespaces import Namespace

RETRY: Final = 2.0
"""Seconds between two attempts of the played kubelet, which takes 10 to 15."""

HOLD: Final = "scenario.dra/hold"


class CpuNode:
    """A node of some cores with two threads; the first core is the system's."""

    def __init__(self, namespace: Namespace, name: str, *, cores: int, folder: Path) -> None:
        self.name = name
        self.refusals: list[str] = []
        """The texts that the kubelet would show on its pods."""
        self._namespace = namespace
        self._folder = folder
        self.driver = CpuDriver(
            Source(uniform_topology(cores=cores, threads=2)),
            node=name,
            folder=folder,
            kubelet=folder,
            mode=CpuDeviceMode.NODE,
            find_cgroups=None,
        )

    async def publish(self) -> None:
        """Publish what the driver has now."""
        devices = [msgspec.to_builtins(each) for pool in self.driver.pools() for each in pool.devices]
        found = await self._namespace.api.find(RESOURCE_SLICES, self.name)
        if found is None:
            body = objects.resource_slice(self.name, driver=DRIVER_NAME, devices=[], node=self.name)
            await self._namespace.create({**body, "spec": {**body["spec"], "devices": devices}})
        elif found["spec"]["devices"] != devices:
            await self._namespace.api.patch(RESOURCE_SLICES, self.name, {"spec": {"devices": devices}})

    @contextlib.asynccontextmanager
    async def running(self, account: Path) -> AsyncIterator[None]:
        """Prepare the claims of the node's pods, in the order of their names, and report as the plugin does."""
        async with connect(ClusterFlags(kubeconfig=str(account))) as connection:
            preparer = ClaimPreparer(
                self.driver,
                claims=ClaimReader(connection.client, driver=DRIVER_NAME, pools=lambda: [self.name]),
                checkpoint=Checkpoint(self._folder / "checkpoint.json", PreparedClaim, sync=False),
                cdi=CdiSpecDirectory(self._folder / "cdi", driver=DRIVER_NAME),
                lock=DirectoryLock(self._folder),
            )
            reporter = DeviceStatusReporter(connection.client, self.driver, preparer=preparer, manager=DRIVER_NAME)
            tasks = [asyncio.create_task(each) for each in (self._serve(preparer), reporter.run())]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                failures = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(each, asyncio.CancelledError) for each in failures), failures

    async def _serve(self, preparer: ClaimPreparer) -> None:
        attempts: dict[ClaimIdentity, asyncio.Task[None]] = {}
        while True:
            claims = await self._claims()
            for gone in [each.claim for each in preparer.prepared_claims if each.claim not in claims]:
                await preparer.unprepare([gone])
            for claim, pod in claims.items():
                if claim not in attempts or attempts[claim].done():
                    attempts[claim] = asyncio.create_task(self._prepare(preparer, claim, pod))
                    await asyncio.wait(
                        [attempts[claim]], timeout=1.0
                    )  # a refusal takes longer: it waits for a handover
            await self.publish()
            await asyncio.sleep(RETRY)

    async def _claims(self) -> dict[ClaimIdentity, str]:
        """Return the claims of the pods that are bound to the node, each with its pod."""
        pods = {
            each["metadata"]["uid"]: each["metadata"]["name"]
            for each in await self._namespace.all(PODS, fieldSelector=f"spec.nodeName={self.name}")
        }
        return {
            ClaimIdentity(key=(self._namespace.name, claim["metadata"]["name"]), uid=claim["metadata"]["uid"]): name
            for claim in await self._namespace.all(CLAIMS)
            for entry in claim.get("status", {}).get("reservedFor", [])
            if (name := pods.get(entry["uid"]))
        }

    async def _prepare(self, preparer: ClaimPreparer, claim: ClaimIdentity, pod: str) -> None:
        answer = (await preparer.prepare([claim]))[claim.uid]
        if isinstance(answer, PrepareError):
            self.refusals.append(str(answer))
            return
        with contextlib.suppress(ApiError):  # the pod may be gone
            await self._namespace.patch(PODS, pod, {"metadata": {"labels": {HOLD: None}}})
