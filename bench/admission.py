"""Latency of the creation of one pod, with and without the policies of deploy/koordinator.

Pods are created one after the other by one client, in small blocks that take turns: without anything of dra-reserve,
in a namespace without the label, and in a namespace with the label. Every other creation is a server-side dry run. The
API server itself tells how much of a block its two kinds of policies took.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from bench.translated_pods import Asking, in_force, install, namespace_for, pod, remove
from tests.cluster.options import ALL_CONTROLLERS, WITHOUT_CLAIM_CONTROLLER
from tests.scenarios import metrics
from tests.scenarios.api import TIMEOUT
from tests.scenarios.eventually import eventually
from tests.scenarios.resources import PODS
from tests.scenarios.target import Mode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.cluster.cluster import Cluster
    from tests.scenarios.api import Api
    from tests.scenarios.namespaces import Namespace

BLOCK: Final = 20
"""Creations of each form that follow each other: few, so that other load hits all blocks alike."""

WARM_UP: Final = 5
"""Creations before each block that are not measured: the API server compiles new policies, and was just asked."""

PLUGINS: Final = ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")
SPENT: Final = 'apiserver_admission_controller_admission_duration_seconds_sum{name="%s",operation="CREATE"'


class Place(StrEnum):
    """Where pods are created."""

    NOT_INSTALLED = "not installed"
    WITHOUT_LABEL = "no label"
    WITH_LABEL = "label"


@dataclass
class Latencies:
    """Milliseconds of creations, by place and request."""

    real: dict[tuple[Asking, Place], list[float]] = field(default_factory=lambda: defaultdict(list))
    dry: dict[tuple[Asking, Place], list[float]] = field(default_factory=lambda: defaultdict(list))
    spent: dict[tuple[Asking, Place, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    """Milliseconds of the API server in all policies of one kind, a creation; the mean of each block."""

    @property
    def count(self) -> int:
        """The number of creations of each kind in each place."""
        return min(map(len, self.real.values()), default=0)

    def table(self) -> str:
        """Return the medians."""
        header = ("pod asks for", "request", *Place, "label - no label", *(f"of it {name}" for name in PLUGINS))
        lines = ["| " + " | ".join(header) + " |", "|---|---|" + "---:|" * (len(header) - 2)]
        for asking in Asking:
            for name, taken in (("create", self.real), ("dry run", self.dry)):
                cells = [_median(taken[asking, place]) for place in Place]
                without, labelled = taken[asking, Place.WITHOUT_LABEL], taken[asking, Place.WITH_LABEL]
                more = statistics.median(labelled) - statistics.median(without) if without and labelled else None
                own = [_median(self.spent[asking, Place.WITH_LABEL, plugin]) for plugin in PLUGINS]
                cells += [f"{more:+.2f}" if more is not None else "–", *(own if name == "create" else ("", ""))]
                lines.append(f"| {asking} | {name} | {' | '.join(cells)} |")
        return "\n".join(lines)


async def measure(cluster: Cluster, api: Api, latencies: Latencies, *, rounds: int, seed: int = 20) -> None:
    """Measure creations; nothing but the API server works meanwhile."""
    chance = random.Random(seed)  # noqa: S311 - the order of blocks
    admin = cluster.admin_kubeconfig
    await asyncio.to_thread(install, admin, Mode.ALONGSIDE)
    cluster.scheduler.stop()
    cluster.run_controllers(WITHOUT_CLAIM_CONTROLLER)
    async with (
        namespace_for(api, purpose="left-alone", enabled=False) as alone,
        namespace_for(api, purpose="translated", enabled=True) as translated,
    ):
        places = {Place.WITHOUT_LABEL: alone, Place.WITH_LABEL: translated}
        for number in range(rounds):
            await asyncio.to_thread(remove, admin)
            await in_force(translated, until=False)
            await _blocks(latencies, [(asking, Place.NOT_INSTALLED, translated) for asking in Asking], number=number)
            await asyncio.to_thread(install, admin, Mode.ALONGSIDE)
            await in_force(translated)
            blocks = [(asking, place, where) for asking in Asking for place, where in places.items()]
            chance.shuffle(blocks)
            await _blocks(latencies, blocks, number=number)
            for where in places.values():
                await _clear(where)
    await asyncio.to_thread(cluster.scheduler.start)
    cluster.run_controllers(ALL_CONTROLLERS)


async def _blocks(latencies: Latencies, blocks: Iterable[tuple[Asking, Place, Namespace]], *, number: int) -> None:
    for asking, place, namespace in blocks:
        for index in range(WARM_UP):
            await _create(namespace, pod(f"warm-{index}", asking), dry=True)
        before = await _spent(namespace.api)
        for index in range(BLOCK):
            one = pod(f"{asking.name.lower()}-{place.name.lower().replace('_', '-')}-{number}-{index}", asking)
            latencies.dry[asking, place].append(await _create(namespace, one, dry=True))
            latencies.real[asking, place].append(await _create(namespace, one, dry=False))
        after = await _spent(namespace.api)
        for plugin in PLUGINS:
            spent = (after[plugin] - before[plugin]) / (2 * BLOCK) * 1000
            latencies.spent[asking, place, plugin].append(spent)


async def _create(namespace: Namespace, one: object, *, dry: bool) -> float:
    """Return the milliseconds that a creation took."""
    query = {"dryRun": "All"} if dry else {}
    began = time.perf_counter()
    await namespace.api.request("POST", PODS.path(namespace=namespace.name), one, query=query, limit=TIMEOUT)
    return (time.perf_counter() - began) * 1000


async def _spent(api: Api) -> dict[str, float]:
    """Return the seconds that the API server has spent in policies at creations, by their kind."""
    samples = metrics.parse((await api.read("/metrics", accept="text/plain")).decode())
    return {
        plugin: sum(value for series, value in samples.items() if series.startswith(SPENT % plugin))
        for plugin in PLUGINS
    }


async def _clear(namespace: Namespace) -> None:
    await namespace.api.delete_collection(PODS, namespace=namespace.name, grace_seconds=0)
    await eventually(lambda: namespace.all(PODS), until=lambda pods: not pods, saying="all pods are gone")


def _median(values: list[float]) -> str:
    return f"{statistics.median(values):.2f}" if values else "–"
