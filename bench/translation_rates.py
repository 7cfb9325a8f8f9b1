"""How fast LSR pods are bound on a real Kubernetes: without claims, with claims of their own, and translated.

All ways take turns on one cluster, with the same pods: without a claim; with a template that each pod names itself,
which is what Kubernetes alone takes for a claim of each pod; and translated in an enabled namespace. For the first two
nothing of dra-reserve is installed.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from bench.component_requests import requests_sent
from bench.join import counting, gone
from bench.translated_pods import PRIORITY, Asking, install, namespace_for, pod, remove
from dra.engine.translation import template_names
from dra.engine.translation.templates import template_manifest
from dra.engine.translation.translated_pods import translate
from tests.cluster.options import ALL_CONTROLLERS, WITHOUT_CLAIM_CONTROLLER
from tests.scenarios import installation
from tests.scenarios.claims import bound
from tests.scenarios.controller import Controller, Settings
from tests.scenarios.target import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.cluster.cluster import Cluster
    from tests.cluster.processes import Process
    from tests.scenarios.api import Api, Json
    from tests.scenarios.namespaces import Namespace

WITHIN: Final = 300.0
COMPONENTS: Final = ("scheduler", "controller manager")
"""Components that count their requests."""


class Way(StrEnum):
    """How pods get their CPUs."""

    PLAIN = "no claim"
    NAMED = "template named by the pod"
    ALONGSIDE = "translated, alongside"
    REPLACE = "translated, replace"
    SHARES = "half a card, translated, alongside"


MODES: Final = {Way.ALONGSIDE: Mode.ALONGSIDE, Way.REPLACE: Mode.REPLACE, Way.SHARES: Mode.ALONGSIDE}


@dataclass(frozen=True)
class Outcome:
    """One run of one way, with what a pod costs."""

    way: Way
    pods: int
    seconds: float
    requests: dict[str, float]
    """Requests of a component for each pod."""
    milliseconds: dict[str, float]
    """Time of a processor in a component for each pod."""

    @property
    def rate(self) -> float:
        """Pods per second."""
        return self.pods / self.seconds


@dataclass
class Rates:
    """The outcomes on one cluster, by rounds."""

    limits: str
    rounds: list[list[Outcome]] = field(default_factory=list)

    def table(self) -> str:
        """Return medians, and ratios to two other ways in the same round."""
        outcomes = [outcome for one in self.rounds for outcome in one]
        components = list(dict.fromkeys(name for outcome in outcomes for name in outcome.milliseconds))
        header = [self.limits, "pods/s", f"of *{Way.PLAIN}*", f"of *{Way.NAMED}*"]
        header += [f"requests/pod: {COMPONENTS[0]}", COMPONENTS[1]]
        header += [f"CPU, ms/pod: {name}" if name == components[0] else name for name in components]
        lines = ["| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
        for way in Way:
            of_way = [outcome for outcome in outcomes if outcome.way is way]
            if of_way:
                cells = [str(way), f"{statistics.median(outcome.rate for outcome in of_way):.1f}"]
                cells += [self._ratios(way, to=other) for other in (Way.PLAIN, Way.NAMED)]
                cells += [_median(outcome.requests.get(name) for outcome in of_way) for name in COMPONENTS]
                cells += [_median(outcome.milliseconds.get(name) for outcome in of_way) for name in components]
                lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines)

    def _ratios(self, way: Way, *, to: Way) -> str:
        rates = [{outcome.way: outcome.rate for outcome in one} for one in self.rounds]
        ratios = [one[way] / one[to] for one in rates if way in one and to in one]
        if way is to or not ratios:
            return ""
        return f"{statistics.median(ratios):.2f} ({', '.join(f'{ratio:.2f}' for ratio in ratios)})"


async def measure(cluster: Cluster, api: Api, rates: Rates, *, pods: int, rounds: int) -> None:
    """Run every way once in each round; record each outcome before cleaning up."""
    for number in range(rounds):
        rates.rounds.append([])
        for way in Way if number % 2 == 0 else reversed(Way):
            await _run(cluster, api, way, pods=pods, record=rates.rounds[-1].append)


async def _run(cluster: Cluster, api: Api, way: Way, *, pods: int, record: Callable[[Outcome], None]) -> None:
    cluster.run_controllers(WITHOUT_CLAIM_CONTROLLER if way is Way.REPLACE else ALL_CONTROLLERS)
    await asyncio.to_thread(remove, cluster.admin_kubeconfig)
    if way in MODES:
        await asyncio.to_thread(install, cluster.admin_kubeconfig, MODES[way])
    controller = await _controller(cluster, way)
    components = {
        "API server": cluster.apiserver,
        "etcd": cluster.etcd,
        "scheduler": cluster.scheduler,
        "controller manager": cluster.controller_manager,
        "kwok": cluster.kwok,
        **({"dra-reserve": controller.process} if controller is not None else {}),
    }
    async with namespace_for(api, purpose=way.name, enabled=way in MODES) as namespace:
        many = await _pods(namespace, way, pods)
        async with counting(namespace, bound) as count:
            before = await _used(cluster, components)
            began = time.monotonic()
            creating = asyncio.create_task(namespace.create_all(many))
            seconds = await count.reaches(pods, within=WITHIN) - began
            after = await _used(cluster, components)
            await creating
        requests, milliseconds = (
            {name: (used[name] - earlier[name]) / pods for name in used}
            for used, earlier in zip(after, before, strict=True)
        )
        outcome = Outcome(way, pods, seconds, requests, milliseconds)
        print(f"{outcome.rate:8.1f} pods/s  {way}, {pods} pods", flush=True)
        record(outcome)
        if controller is not None:
            await controller.stop()
    await gone(api, namespace.name)


async def _controller(cluster: Cluster, way: Way) -> Controller | None:
    if way not in MODES:
        return None
    account = installation.controller_kubeconfig(cluster.admin_kubeconfig, cluster.folder.path)
    configuration = {"koordinator": True, "leaderElection": {"enabled": False}, "logging": {"level": "warning"}}
    settings = Settings(kubeconfig=account, mode=MODES[way], configuration=configuration)
    controller = Controller(cluster.folder, settings, name=f"controller-{way.name.lower()}")
    await controller.start()
    return controller


async def _pods(namespace: Namespace, way: Way, count: int) -> list[Json]:
    """Return the pods of a way; create the template that they name themselves."""
    asking = Asking.SHARE if way is Way.SHARES else Asking.CPUS
    name = None
    if way is Way.NAMED:
        asked = pod("p", asking)
        asked["spec"]["priority"] = PRIORITY
        (entry,) = translate(asked).entries
        name = template_names.name_of(entry.request)
        await namespace.create(template_manifest(name, namespace.name, entry.request) or {})
    return [pod(f"p-{number}", asking, claim_template=name) for number in range(count)]


async def _used(cluster: Cluster, components: dict[str, Process]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the requests of the components that tell, and the milliseconds of a processor of all."""
    ports = (cluster.ports.scheduler, cluster.ports.controller_manager)
    requests = {name: await requests_sent(port) for name, port in zip(COMPONENTS, ports, strict=True)}
    return requests, {name: process.processor_seconds * 1000 for name, process in components.items()}


def _median(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None and not math.isnan(value)]
    return f"{statistics.median(known):.1f}" if known else ""
