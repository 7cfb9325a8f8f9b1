"""Killed at each step, before and after ``nvidia-smi``: after the next start a GPU has the time slice of its claim."""

import asyncio
from pathlib import Path

import pytest

from kubeletplugin.contract import PrepareError
from kubeletplugin.drivers.gpu.container_edits import SimulatedContainerEdits
from kubeletplugin.drivers.gpu.driver import GpuDriver
from kubeletplugin.drivers.gpu.driver_root import DriverRoot
from kubeletplugin.drivers.gpu.nvidia_time_slices import NvidiaSmiTimeSlicingManager
from kubeletplugin.drivers.gpu.time_slice_record import TimeSliceRecord
from tests.kubeletplugin.crash_injection import KillAtStep, Killed, raise_killed
from tests.kubeletplugin.drivers.gpu.test_driver import Shelf, gpu, interval
from tests.kubeletplugin.fakes import FakeNode, ignore_step

BEFORE_SMI, AFTER_SMI = "before nvidia-smi", "after nvidia-smi"


class Smi(NvidiaSmiTimeSlicingManager):
    """With a program that sets a file, and two steps more at which it can be killed."""

    def __init__(self, folder, behind_step):
        super().__init__(DriverRoot(here=folder), TimeSliceRecord(folder / "time-slices.json"))
        self._behind_step = behind_step

    async def _run(self, uuid, interval):
        self._behind_step(BEFORE_SMI)
        reason = await super()._run(uuid, interval)
        self._behind_step(AFTER_SMI)
        return reason


class Scene:
    def __init__(self, folder: Path):
        folder.mkdir()
        self.folder = folder
        self.node = FakeNode(folder)
        program = folder / "usr" / "bin" / "nvidia-smi"
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\necho "$5" > {folder}/$3\n')
        program.chmod(0o755)
        self.claim = self.node.claims.allocate("a", "gpu-0", configuration=(interval("Long"),))

    def instance(self, behind_step=ignore_step):
        shelf = Shelf(gpu(0), gpu(1))
        slicing = Smi(self.folder, behind_step)
        driver = GpuDriver(shelf, node="n1", edits=SimulatedContainerEdits(), time_slicing=slicing)
        return self.node.instance(driver=driver, behind_step=behind_step)

    def slices(self):
        """What the GPUs have: 0 is what they were made with."""
        files = {f"GPU-{n}": self.folder / f"GPU-{n}" for n in (0, 1)}
        return {uuid: file.read_text().strip() if file.exists() else "0" for uuid, file in files.items()}


async def call(scene, name, at):
    """Make a call, killed at a step; return the step, None if there are no more."""
    bomb = KillAtStep(at, raise_killed)
    plugin = scene.instance(bomb)
    try:
        answers = await getattr(plugin, name)([scene.claim])
    except Killed:
        await plugin.wait_idle()
        return bomb.seen[-1]
    assert not isinstance(answers[scene.claim.uid], PrepareError)
    return None


@pytest.mark.parametrize("name", ["prepare", "unprepare"])
async def test_killed_at_any_step_the_next_start_sets_what_the_checkpoint_says(tmp_path, name):
    steps = []
    while not steps or steps[-1] is not None:
        scene = Scene(tmp_path / str(len(steps)))
        if name == "unprepare":
            await scene.instance().prepare([scene.claim])
            assert scene.slices() == {"GPU-0": "3", "GPU-1": "0"}
        steps.append(await call(scene, name, len(steps)))
        plugin = scene.instance()
        await plugin.recover()  # before anybody is served
        remembered = scene.claim.uid in scene.node.remembered
        assert scene.slices() == {"GPU-0": "3" if remembered else "0", "GPU-1": "0"}, steps[-1]
        await plugin.prepare([scene.claim])
        assert scene.slices()["GPU-0"] == "3"
        await plugin.unprepare([scene.claim])
        assert scene.slices()["GPU-0"] == "0"
    assert {BEFORE_SMI, AFTER_SMI, "checkpoint replaced"} <= {str(step) for step in steps}


async def test_what_was_set_is_set_again_after_a_reboot(tmp_path):
    scene = Scene(tmp_path / "node")
    await scene.instance().prepare([scene.claim])
    (scene.folder / "GPU-0").unlink()
    await asyncio.wait_for(scene.instance().recover(), 10)
    assert scene.slices() == {"GPU-0": "3", "GPU-1": "0"}
