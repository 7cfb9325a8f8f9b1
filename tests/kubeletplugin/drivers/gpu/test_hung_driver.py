"""NVIDIA's kernel driver was loaded again and does not answer: claims wait for it once, and pods can end meanwhile."""

import asyncio
import threading

from kubeletplugin.contract import PreparedClaim
from kubeletplugin.drivers.gpu import driver as module
from kubeletplugin.drivers.gpu.container_edits import SimulatedContainerEdits
from kubeletplugin.drivers.gpu.driver import GpuDriver
from kubeletplugin.drivers.gpu.time_slices import SimulatedTimeSlicingManager
from tests.kubeletplugin.drivers.gpu.test_driver import Shelf, gpu
from tests.kubeletplugin.fakes import FakeNode


class Hanging(Shelf):
    """An inventory that is blocked after the kernel driver was loaded again."""

    def __init__(self, *gpus):
        super().__init__(*gpus)
        self.loads = 0
        self.answers = threading.Event()
        self.answers.set()

    def mark(self):
        return self.loads

    def read(self):
        self.answers.wait(60)
        return super().read()

    def reload(self):
        self.answers.clear()
        self.loads += 1


async def test_later_calls_do_not_wait_for_a_driver_that_has_not_answered_before(tmp_path, monkeypatch):
    inventory = Hanging(gpu(0), gpu(1))
    node = FakeNode(tmp_path)
    driver = GpuDriver(
        inventory, node="n1", edits=SimulatedContainerEdits(), time_slicing=SimulatedTimeSlicingManager()
    )
    plugin = node.instance(driver=driver)
    held, next_one = (node.claims.allocate(name, f"gpu-{minor}") for minor, name in enumerate(("held", "next")))
    await plugin.prepare([held])
    inventory.reload()
    try:
        monkeypatch.setattr(module, "REFRESH_TIMEOUT", 0.01)
        await plugin.reconcile()
        assert node.cdi.uids() == set()
        monkeypatch.setattr(module, "REFRESH_TIMEOUT", 3600)
        async with asyncio.timeout(30):
            await plugin.reconcile()
            for claim in (held, next_one):
                assert "the GPUs cannot be read: no answer for" in str((await plugin.prepare([claim]))[claim.uid])
            assert await plugin.unprepare([held]) == {held.uid: None}
    finally:
        inventory.answers.set()
    async with asyncio.timeout(30):
        while not isinstance(answer := (await plugin.prepare([next_one]))[next_one.uid], PreparedClaim):
            assert "no answer" in str(answer)
            await asyncio.sleep(0)
