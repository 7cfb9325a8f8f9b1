"""Liveness, once nothing fails any more: the formula, degradation, and the end.

First all agents tell the truth: each node offers what the formula says, within the threshold under which nothing is
written. Then the agents are gone: each node offers what is held there, and nothing else. At last colocation is
off, which changes nothing of that, until the pods are deleted: then nothing is offered at all.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from dra.kube.resources import PODS
from tests.dra.engine.simulation.violation import Violation
from tests.simulation.colocation import nodes
from tests.simulation.colocation.agents import REPORT_SECONDS, Way
from tests.simulation.colocation.cluster import USERS, config_map
from tests.simulation.colocation.operations import put_config

if TYPE_CHECKING:
    from tests.simulation.colocation.cluster import ColocatedCluster

POLL_SECONDS: Final = 5.0
SETTLE_SECONDS: Final = 120.0

FINAL: Final[dict[str, Any]] = {
    "enable": True,
    "cpuReclaimThresholdPercent": 70,
    "memoryReclaimThresholdPercent": 80,
    "degradeTimeMinutes": 2,
    "updateTimeThresholdSeconds": 60,
    "resourceDiffThreshold": 0.1,
}


async def check_liveness(cluster: "ColocatedCluster") -> None:
    """Let the cluster come to rest, twice; raise Violation if it does not."""
    cluster.faults.set(())
    await asyncio.sleep(max(0.0, cluster.busy_until + 2.0 - cluster.clock.now()))
    cluster.older = False
    cluster.processes["controller-2"].kill()
    cluster.kill("controller", down=0.5)
    for name, process in cluster.processes.items():
        if name not in {"controller", "controller-2"}:
            process.start()
    cluster.safety.faults_until = cluster.clock.now() + 1.0
    cluster.safety.note_strategy(FINAL)
    await put_config(cluster, config_map(FINAL, {"enable": True}))
    cluster.note("nothing fails from now on")
    for name in cluster.ways:
        cluster.ways[name] = Way.TRUTH
    await _wait(cluster, _off_formula, within=SETTLE_SECONDS + REPORT_SECONDS)
    cluster.note("the agents are gone")
    for name in cluster.ways:
        cluster.ways[name] = Way.STOPPED
    await _wait(cluster, _off_held, within=FINAL["degradeTimeMinutes"] * 60 + SETTLE_SECONDS)
    cluster.note("colocation is off")
    await put_config(cluster, config_map(FINAL | {"enable": False}, {"enable": False}))
    for pod in cluster.all(PODS):
        await cluster.delete(PODS, USERS, pod["metadata"]["name"], grace=0)
    await _wait(cluster, _off_held, within=SETTLE_SECONDS)


async def _wait(
    cluster: "ColocatedCluster", problem: Callable[["ColocatedCluster", str], str], *, within: float
) -> None:
    until = cluster.clock.now() + within
    while True:
        problems = [text for node in cluster.initial_state.nodes if (text := problem(cluster, node.name))]
        if not problems:
            return
        if cluster.clock.now() > until:
            raise Violation(problems[0])
        await asyncio.sleep(POLL_SECONDS)


def _off_formula(cluster: "ColocatedCluster", name: str) -> str:
    """Return how a node's batch resources differ from the formula; empty if they do not."""
    offered, held = nodes.published(nodes.all_nodes(cluster)[name]), cluster.safety.held(name)
    wanted = nodes.formula(cluster, name, FINAL)
    for number, resource in enumerate(nodes.BATCH):
        right = max(wanted[number], held[number])
        if abs(offered[number] - right) > FINAL["resourceDiffThreshold"] * max(offered[number], right) + 1:
            return f"node {name}: offers {offered[number]} of {resource}, and {right} is right"
    return ""


def _off_held(cluster: "ColocatedCluster", name: str) -> str:
    """Return how a node's batch resources differ from what is held; empty if they do not."""
    offered, held = nodes.published(nodes.all_nodes(cluster)[name]), cluster.safety.held(name)
    return "" if offered == held else f"node {name}: offers {offered}, and {held} is held"
