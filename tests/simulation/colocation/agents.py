"""The agents of the nodes: each writes the status of its NodeMetric, and most tell the truth."""

import asyncio
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from dra.kube.client import Client
from dra.kube.errors import ApiError
from dra.kube.resources import NODE_METRICS
from dra.model.meta import PartialObjectMetadata
from tests.simulation.colocation import nodes
from tests.simulation.colocation.initial_state import SimulatedNode

if TYPE_CHECKING:
    from tests.simulation.colocation.cluster import ColocatedCluster

REPORT_SECONDS: Final = 20.0
LAG_SECONDS: Final = 50.0


class Way(StrEnum):
    """How an agent reports."""

    TRUTH = "truth"
    STOPPED = "stopped"
    """Nothing."""
    LATE = "late"
    """What was so `LAG_SECONDS` ago, under the time of then."""
    NEGATIVE = "negative"
    """The system, or a pod, uses less than nothing."""
    HUGE = "huge"
    """Amounts beyond all machines."""
    FOREIGN = "foreign"
    """What another node measures."""
    EMPTY = "empty"
    """A new time without usage of the system, as a sampler that has just started."""
    AHEAD = "ahead"
    """One report from tomorrow, and then none."""
    MALFORMED = "malformed"
    """Texts that are no quantities."""
    CROWDED = "crowded"
    """Measurements of very many pods that do not exist."""


HONEST: Final = frozenset({Way.TRUTH, Way.LATE})
SILENT: Final = frozenset({Way.STOPPED})


class Agents:
    """All agents in one component; what they do is kept by the cluster, so that a restart changes nothing of it."""

    def __init__(self, cluster: "ColocatedCluster", client: Client) -> None:
        self._cluster = cluster
        self._client = client

    async def run(self) -> None:
        """Report until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number, node in enumerate(self._cluster.initial_state.nodes):
                group.create_task(self._run(node, number))

    async def _run(self, node: SimulatedNode, number: int) -> None:
        await asyncio.sleep(1.0 + 0.7 * number)
        while True:
            way = self._cluster.ways[node.name]
            report = self._report(node, way)
            if report is not None:
                try:
                    await self._client.merge_patch(
                        NODE_METRICS,
                        ("", node.name),
                        {"status": report},
                        model=PartialObjectMetadata,
                        subresource="status",
                        timeout_seconds=5.0,
                    )
                except ApiError:
                    pass  # the next report says it all again
                else:
                    if way is Way.AHEAD:
                        self._cluster.ways[node.name] = Way.STOPPED
            await asyncio.sleep(REPORT_SECONDS)

    def _report(self, node: SimulatedNode, way: Way) -> dict[str, Any] | None:
        now = self._cluster.clock.now()
        truth = _measure(self._cluster, node)
        past = self._cluster.measured.setdefault(node.name, [])
        past.append((now, truth))
        del past[:-8]
        match way:
            case Way.STOPPED:
                return None
            case Way.LATE:
                old = [each for each in past if each[0] <= now - LAG_SECONDS]
                return _dated(self._cluster, *old[-1]) if old else None
            case Way.AHEAD:
                return _dated(self._cluster, now + 86_400.0, truth)
            case Way.FOREIGN:
                others = [each for each in self._cluster.initial_state.nodes if each.name != node.name]
                return _dated(self._cluster, now, _measure(self._cluster, others[0]) if others else truth)
            case _:
                return _dated(self._cluster, now, _LIES[way](truth) if way in _LIES else truth)


def _dated(cluster: "ColocatedCluster", at: float, report: dict[str, Any]) -> dict[str, Any]:
    wall = cluster.clock.wall() + timedelta(seconds=at - cluster.clock.now())
    return {"updateTime": wall.strftime("%Y-%m-%dT%H:%M:%SZ"), **report}


def _measure(cluster: "ColocatedCluster", node: SimulatedNode) -> dict[str, Any]:
    """Return the truth about a node."""
    pods = []
    total = [node.system_cpu, node.system_memory]
    for pod in nodes.pods_on(cluster, node.name):
        used = nodes.usage(pod)
        if used is None:
            continue
        total = [total[0] + used[0], total[1] + used[1]]
        metadata = pod["metadata"]
        pods.append({"namespace": metadata["namespace"], "name": metadata["name"], "podUsage": _resources(*used)})
    system = _resources(node.system_cpu, node.system_memory)
    return {"nodeMetric": {"nodeUsage": _resources(*total), "systemUsage": system}, "podsMetric": pods}


def _resources(cpu: int, memory: int) -> dict[str, Any]:
    return {"resources": {"cpu": f"{cpu}m", "memory": str(memory)}}


def _negative(truth: dict[str, Any]) -> dict[str, Any]:
    lie = {"resources": {"cpu": "-64", "memory": "-256Gi"}}
    pods = [{**each, "podUsage": lie} for each in truth["podsMetric"]]
    return {"nodeMetric": {**truth["nodeMetric"], "systemUsage": lie}, "podsMetric": pods}


def _huge(truth: dict[str, Any]) -> dict[str, Any]:
    lie = {"resources": {"cpu": "1e30", "memory": "9223372036854775807"}}
    return {"nodeMetric": {**truth["nodeMetric"], "systemUsage": lie}, "podsMetric": truth["podsMetric"]}


def _empty(truth: dict[str, Any]) -> dict[str, Any]:
    return {"nodeMetric": {"nodeUsage": truth["nodeMetric"]["nodeUsage"], "systemUsage": None}, "podsMetric": []}


def _malformed(truth: dict[str, Any]) -> dict[str, Any]:
    lie = {"resources": {"cpu": "NaN", "memory": "much"}}
    return {"nodeMetric": {**truth["nodeMetric"], "systemUsage": lie}, "podsMetric": truth["podsMetric"]}


def _crowded(truth: dict[str, Any]) -> dict[str, Any]:
    nobody = {"namespace": "nowhere", "podUsage": _resources(1, 1)}
    return {**truth, "podsMetric": [*truth["podsMetric"], *({**nobody, "name": f"p{nth}"} for nth in range(500))]}


_LIES: Final = {
    Way.NEGATIVE: _negative,
    Way.HUGE: _huge,
    Way.EMPTY: _empty,
    Way.MALFORMED: _malformed,
    Way.CROWDED: _crowded,
}
