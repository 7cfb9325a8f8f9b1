"""Plays cases against two kube-schedulers on one cluster: one that asks our extender, and one that asks nobody.

Each case has its own nodes, by label, twice. No kubelet and no controller runs: pods are created on their nodes, and
their status, the budgets' and the Reservations' is written as it stands in the case. A pod that is preempted stays,
with a deletion timestamp.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from controller.extender.application import Extender
from dra.api.extender_configuration import ExtenderConfiguration
from dra.cli.cluster_flags import ClusterFlags
from dra.kube.http import HttpTransport
from tests.cluster import kubeconfig
from tests.cluster.cluster import Cluster
from tests.cluster.options import ClientLimits, Component, Options
from tests.cluster.ports import LOOPBACK, free
from tests.scenarios import installation, steps
from tests.scenarios.api import Api, connect
from tests.scenarios.eventually import eventually
from tests.scenarios.reservations.conftest import DEPLOY, over_http
from tests.scenarios.reservations.victims.cases import CASE, PRIORITIES, Side
from tests.scenarios.reservations.victims.outcomes import NOBODY, Outcome
from tests.scenarios.resources import DISRUPTION_BUDGETS, NODES, PODS, RESERVATIONS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence
    from pathlib import Path

    from tests.scenarios.reservations.victims.cases import VictimCase

Json = dict[str, Any]

BATCH: Final = 25
"""Cases at a time."""
WITHIN: Final = 120.0
PREEMPTING: Final = re.compile(r"found a potential placement for pod on node (\S+), preempting (\d+) victims")


async def play(cases: Sequence[VictimCase]) -> dict[int, dict[Side, Outcome]]:
    """Return the outcome of each case on each side, by number, on a cluster of its own."""
    (port,) = free(1)
    options = Options(
        nodes=0,
        controllers="serviceaccount-controller",
        without=frozenset({Component.NODES}),
        scheduler_configuration={**over_http(port), "profiles": [{"schedulerName": Side.OURS.value}]},
        scheduler_limits=ClientLimits(qps=200, burst=400),
    )
    with Cluster(options) as cluster:
        installation.install(cluster.admin_kubeconfig)
        installation.install(cluster.admin_kubeconfig, kustomization=DEPLOY)
        cluster.another_scheduler(Side.STOCK.value).start()
        async with extending(cluster, port) as extender:
            return await Play(admin=cluster.admin_kubeconfig, extender=extender).all(cases)


@asynccontextmanager
async def extending(cluster: Cluster, port: int) -> AsyncIterator[Extender]:
    """Run our extender in this process, with the permissions of its service account."""
    admin, folder = cluster.admin_kubeconfig, cluster.folder.path
    account = {"namespace": installation.NAMESPACE, "name": "dra-reserve-extender"}
    own = kubeconfig.for_service_account(folder / "extender.kubeconfig", admin=admin, **account)
    given = {
        "serve": {"address": LOOPBACK, "port": port},
        "probes": None,
        "metrics": None,
        "leaderElection": {"enabled": False, "namespace": installation.NAMESPACE},
    }
    configuration = ExtenderConfiguration.model_validate(given)
    transport = HttpTransport(ClusterFlags(kubeconfig=str(own)).find_credentials())
    extender = Extender(configuration, transport, previous_writes_seconds=0.0)
    running = asyncio.create_task(extender.run())
    try:
        await eventually(lambda: not extender.not_ready_reasons(), within=WITHIN, saying="the extender is ready")
        yield extender
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def prepare(api: Api) -> None:
    """Create the namespaces and the priority classes."""
    for side in Side:
        await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": side.value}})
    for name, value in PRIORITIES.items():
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        await api.create({**kind, "metadata": {"name": name}, "value": value})
    for side in Side:
        path = f"/api/v1/namespaces/{side}/serviceaccounts/default"
        await eventually(partial(_exists, api, path), saying="pods can be created")


async def _exists(api: Api, path: str) -> bool:
    found = await api.request("GET", f"{path.rpartition('/')[0]}")
    return any(each["metadata"]["name"] == "default" for each in found["items"])


@dataclass(frozen=True, kw_only=True)
class Play:
    """Plays cases with both schedulers."""

    admin: Path
    extender: Extender

    async def all(self, cases: Sequence[VictimCase]) -> dict[int, dict[Side, Outcome]]:
        """Return the outcome of each case on each side, by number."""
        outcomes: dict[int, dict[Side, Outcome]] = {}
        async with connect(self.admin) as api:
            await prepare(api)
            for first in range(0, len(cases), BATCH):
                batch = cases[first : first + BATCH]
                await self._set_up(api, batch)
                urgent = [each.urgent(side) for each in batch for side in Side]
                for side in Side:
                    await api.create_all((each for each in urgent if _is_of(each, side)), namespace=side.value)
                for each in batch:
                    outcomes[each.number] = {side: await _outcome(api, each, side) for side in Side}
                await _clear(api)
        return outcomes

    async def _set_up(self, api: Api, cases: Sequence[VictimCase]) -> None:
        for side in Side:
            others = [each for case in cases for each in case.objects(side)]
            created = await api.create_all(others, namespace=side.value)
            uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in created}
            await _each(_write_status(api, each, side) for each in others if each["kind"] != "Node")
            pods = [each for case in cases for each in case.pods(side)]
            for given in (each["metadata"].get("annotations", {}) for each in pods):
                for name, text in given.items():
                    inside = json.loads(text)["name"]
                    given[name] = json.dumps({"name": inside, "uid": uids[inside]})
            await api.create_all(pods, namespace=side.value)
            await _each(_write_status(api, each, side) for each in pods)
        await self._caught_up(api)

    async def _caught_up(self, api: Api) -> None:
        """Wait until the extender knows each pod and each budget as it is, and each scheduler a pod that came last."""
        started = {
            each["metadata"]["uid"]: each["status"]["startTime"] for each in await api.all(PODS, namespace=Side.OURS)
        }
        budgets = len(await api.all(DISRUPTION_BUDGETS))
        cache = self.extender.cache

        def knows() -> bool:
            known = {uid: cache.accounting.assignment(uid) for uid in started}
            return len(cache.budgets) == budgets and all(
                assignment is not None and assignment.pod.start_time == started[uid]
                for uid, assignment in known.items()
            )

        await eventually(knows, within=WITHIN, saying="the extender knows all pods and budgets")
        for side in Side:
            last = _probe(side)
            await api.create(last, namespace=side.value)
            get = partial(api.get, PODS, "last", namespace=side.value)
            await eventually(get, until=steps.unschedulable, within=WITHIN, saying="the scheduler has judged the last")
            await api.delete(PODS, "last", namespace=side.value, grace_seconds=0)


def _probe(side: Side) -> Json:
    spec = {"nodeSelector": {CASE: "none"}, "schedulerName": side.value, "containers": [{"name": "c", "image": "x"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "last"}, "spec": spec}


def _is_of(pod: Json, side: Side) -> bool:
    return bool(pod["metadata"]["namespace"] == side.value)


async def _each(coroutines: Iterable[Any]) -> None:
    turn = asyncio.Semaphore(8)

    async def one(coroutine: Any) -> None:
        async with turn:
            await coroutine

    await asyncio.gather(*map(one, coroutines))


async def _write_status(api: Api, obj: Json, side: Side) -> None:
    resource = {"Pod": PODS, "PodDisruptionBudget": DISRUPTION_BUDGETS, "Reservation": RESERVATIONS}[obj["kind"]]
    status = obj["status"]
    if obj["kind"] == "PodDisruptionBudget":
        status = dict.fromkeys(("currentHealthy", "desiredHealthy", "expectedPods"), 1) | status
    namespace = side.value if resource.namespaced else None
    name = obj["metadata"]["name"]
    await api.patch(resource, name, {"status": status}, namespace=namespace, subresource="status")


async def _outcome(api: Api, case: VictimCase, side: Side) -> Outcome:
    """Return what the scheduler did, once it has done all of it."""
    get = partial(api.get, PODS, case.preemptor, namespace=side.value)
    pod = await eventually(get, until=_is_judged, within=WITHIN, saying=f"{side} has judged case {case.number}")
    message = next(each["message"] for each in pod["status"]["conditions"] if each["type"] == "PodScheduled")
    if (told := PREEMPTING.search(message)) is None:
        assert not pod["status"].get("nominatedNodeName"), message
        return NOBODY

    async def leaving() -> list[str]:
        selector = f"{CASE}={side}-{case.number}"
        found = await api.all(PODS, namespace=side.value, labelSelector=selector)
        return sorted(each["metadata"]["name"] for each in found if "deletionTimestamp" in each["metadata"])

    node, count = told[1], int(told[2])
    gone = await eventually(
        leaving, until=lambda names: len(names) >= count, within=WITHIN, saying=f"{count} pods leave for {message}"
    )
    index = [case.node(side, number) for number in range(len(case.machines))].index(node)
    return Outcome(node=index, victims=gone)


def _is_judged(pod: Json) -> bool:
    return bool(steps.unschedulable(pod))


async def _clear(api: Api) -> None:
    for side in Side:
        await api.delete_collection(PODS, namespace=side.value, grace_seconds=0)
        await api.delete_collection(DISRUPTION_BUDGETS, namespace=side.value)
    await api.request("DELETE", RESERVATIONS.path())
    await api.request("DELETE", NODES.path())

    async def gone() -> bool:
        left = [await api.all(PODS, namespace=side.value) for side in Side]
        return not any(left) and not await api.all(RESERVATIONS) and not await api.all(NODES)

    await eventually(gone, within=WITHIN, saying="nothing is left of the batch")
