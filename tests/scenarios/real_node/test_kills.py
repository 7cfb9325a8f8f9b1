"""The plugin is killed in the middle of preparing and unpreparing, again and again, while pods come and go."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.cluster.node import RealNode
from tests.scenarios.namespaces import Namespace
from tests.scenarios.real_node import churn
from tests.scenarios.real_node.conftest import StartPlugin
from tests.scenarios.real_node.plugin import Plugin
from tests.scenarios.resources import JOBS
from tests.scenarios.target import Capability, Mode

pytestmark = [pytest.mark.needs(Capability.KUBELET, Capability.COMPONENTS), pytest.mark.modes(Mode.REPLACE)]

GPUS = 3
SEED = 6

COMPLETE_WITHIN = 120.0
"""Seconds from the last kill to the end of the last pod; each call that failed is tried again within fifteen."""

WITHIN_A_CALL = 0.006
"""Seconds from the first trace of a call on the disk to its answer, roughly: the kill comes at some moment of them."""


@pytest.mark.usefixtures("controller")
@pytest.mark.parametrize(
    ("in_all", "kills"),
    [pytest.param(4, 2, id="2-kills"), pytest.param(40, 25, id="25-kills", marks=pytest.mark.long)],
)
async def test_pods_get_their_gpus_all_the_same(
    start_plugin: StartPlugin,
    namespace: Namespace,
    real_node: RealNode,
    remark: Callable[[str], None],
    in_all: int,
    kills: int,
) -> None:
    plugin = await start_plugin(gpus=GPUS)
    chance = Random(SEED)  # noqa: S311 - chance that repeats itself is the point
    await churn.start(namespace, at_once=GPUS, in_all=in_all)
    killed = 0
    while killed < kills and not churn.is_complete(await namespace.get(JOBS, churn.JOB)):
        if await asyncio.to_thread(kill_within_a_call, plugin, chance.uniform(0, WITHIN_A_CALL)):
            killed += 1
            await plugin.start()
    await churn.complete(namespace, within=COMPLETE_WITHIN)
    assert killed, "no call was met"
    used = await churn.uses(namespace, real_node)
    assert len(used) == in_all
    churn.assert_one_holder(used)
    remark(f"the plugin was killed {killed} times within a call: {in_all} pods had their GPUs, each alone")


def kill_within_a_call(plugin: Plugin, delay: float) -> bool:
    """Kill the plugin a moment after its files have begun to change; False if they do not for a while."""
    folders = (plugin.folder, plugin.node.cdi)
    before = sight(folders)
    until = time.monotonic() + 5
    while sight(folders) == before:
        if time.monotonic() > until:
            return False
    begun = time.monotonic()
    while time.monotonic() - begun < delay:
        pass  # a sleep is longer than a call
    plugin.crash()
    return True


def sight(folders: tuple[Path, ...]) -> set[tuple[str, int]]:
    """Return all files by name and inode."""
    return {(entry.name, entry.inode()) for folder in folders for entry in os.scandir(folder)}
