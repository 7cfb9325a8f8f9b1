"""Whether a pod fits on a node, as `Snapshot` says, against what kube-scheduler does with such a pod.

Each case labels and taints the nodes anew and runs some pods there. Then one pod for each node, which may run on that
node alone, is left to kube-scheduler: it is bound, or its condition says why not.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any, Final

import msgspec
import pytest

from dra.engine.descheduling.cluster_objects import ClusterObjects
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.snapshot import Snapshot
from dra.model.scheduling import SchedulerNode
from tests.scenarios.api import Api, Json
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.reservations.conftest import NODES
from tests.scenarios.resources import NAMESPACES, PODS
from tests.scenarios.resources import NODES as NODE_RESOURCE

CASES: Final = 24
KEYS: Final = ("kubernetes.io/hostname", "zone", "rack")
APPS: Final = ("a", "b")
TAINTS: Final = ("NoSchedule", "PreferNoSchedule")
NOT_SELECTED: Final = "node(s) didn't match Pod's node affinity/selector"
NOW: Final = 1_800_000_000.0


SELECTORS: Final[tuple[Json, ...]] = (
    {"matchLabels": {"app": "a"}},
    {"matchLabels": {"app": "b"}},
    {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]},
    {},
)


def term(random: Random) -> Json:
    given: Json = {"topologyKey": random.choice(KEYS), "labelSelector": random.choice(SELECTORS)}
    if not random.randrange(3):
        given["namespaceSelector"] = {}
    elif not random.randrange(3):
        given["matchLabelKeys"] = ["version"]
    return given


def constraint(random: Random) -> Json:
    return {
        "topologyKey": random.choice(KEYS),
        "maxSkew": random.choice((1, 1, 2)),
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": random.choice(SELECTORS),
        "nodeAffinityPolicy": random.choice(("Honor", "Ignore")),
        "nodeTaintsPolicy": random.choice(("Honor", "Ignore")),
        **({"minDomains": random.randint(1, 4)} if random.randrange(2) else {}),
        **({"matchLabelKeys": ["version"]} if not random.randrange(3) else {}),
    }


def pod(random: Random, name: str, *, node: str = "", cpus: int) -> Json:
    """Return a pod on a node; without one, a pod that may have any constraint."""
    affinity: Json = {}
    if not random.randrange(3):
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term(random)]}
    if not node and not random.randrange(3):
        affinity["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term(random)]}
    spec: Json = {"terminationGracePeriodSeconds": 0, **({"nodeName": node} if node else {})}
    requests = {"requests": {"cpu": str(random.choice((1, cpus // 2)))}}
    container: Json = {"name": "c", "image": "i", "resources": requests}
    if not random.randrange(3):
        container["ports"] = [{"containerPort": 80, "hostPort": 80, "protocol": random.choice(("TCP", "UDP"))}]
    if not node and random.randrange(2):
        spec["topologySpreadConstraints"] = [constraint(random)]
    if not node and random.randrange(2):
        spec["tolerations"] = [{"key": "t", "operator": "Exists"}]
    if not node and not random.randrange(4):
        spec["nodeSelector"] = {"zone": "x"}
    labels = {"app": random.choice(APPS), "version": random.choice(("1", "2"))}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [container], "affinity": affinity, **spec},
    }


def only_on(given: Json, node: str, name: str) -> Json:
    """Return a pod of that kind which may run on one node alone."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": fields}]}}
    spec = {**given["spec"], "affinity": {**given["spec"]["affinity"], "nodeAffinity": required}}
    return {**given, "metadata": {**given["metadata"], "name": name}, "spec": spec}


async def arrange(api: Api, random: Random) -> None:
    """Label and taint the nodes anew."""
    for node in NODES:
        labels = {key: random.choice(("x", "y", None)) for key in ("zone", "rack")}
        taints = [{"key": "t", "effect": random.choice(TAINTS)}] if not random.randrange(3) else None
        cordon = True if not random.randrange(6) else None
        change: Json = {"metadata": {"labels": labels}, "spec": {"taints": taints, "unschedulable": cordon}}
        await api.patch(NODE_RESOURCE, node, change, kind="merge-patch")


async def snapshot(api: Api) -> Snapshot:
    pods = tuple(msgspec.convert(each, DeschedulingPod) for each in await api.all(PODS))
    nodes = tuple(msgspec.convert(each, SchedulerNode) for each in await api.all(NODE_RESOURCE))
    found = await api.all(NAMESPACES)
    namespaces = {each["metadata"]["name"]: each["metadata"].get("labels", {}) for each in found}
    return Snapshot(ClusterObjects(nodes=nodes, pods=pods, namespaces=namespaces), now=NOW)


async def verdict(namespace: Namespace, name: str) -> tuple[bool, str]:
    """Return whether a pod was bound, or the scheduler's words."""

    async def look() -> Json:
        return await namespace.get(PODS, name)

    def is_decided(given: Json) -> bool:
        return bool(given["spec"].get("nodeName")) or bool(_words(given))

    given = await eventually(look, until=is_decided, saying=f"the scheduler has looked at pod {name}")
    return bool(given["spec"].get("nodeName")), _words(given)


def _words(given: Json) -> str:
    conditions = given.get("status", {}).get("conditions", [])
    return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")


async def _no_pods(namespace: Namespace) -> bool:
    return not await namespace.all(PODS)


@pytest.mark.long
async def test_a_pod_fits_where_kube_scheduler_puts_it(moving: Api, namespace: Namespace) -> None:
    cpus = int((await moving.get(NODE_RESOURCE, NODES[0]))["status"]["allocatable"]["cpu"])
    wrong: list[Any] = []
    fitting = 0
    try:
        for case in range(CASES):
            random = Random(case)  # noqa: S311 - the same cases each time
            await arrange(moving, random)
            for number in range(random.randrange(6)):
                await namespace.create(pod(random, f"p{number}", node=random.choice(NODES), cpus=cpus))
            asking = pod(random, "q", cpus=cpus)
            for number, node in enumerate(NODES):
                name = f"q{number}"
                before = await snapshot(moving)
                await namespace.create(only_on(asking, node, name))
                bound, words = await verdict(namespace, name)
                made = msgspec.convert(await namespace.get(PODS, name), DeschedulingPod)
                waiting = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, node_name=""))
                said = before.unfit_reason(waiting, node)
                fitting += bound
                if bound is bool(said) or (said != NOT_SELECTED and said.partition(" {")[0] not in words):
                    wrong.append((case, node, said, words))
                await namespace.delete(PODS, name)
                await eventually(partial(_is_gone, namespace, name), saying=f"pod {name} is gone")
            await moving.delete_collection(PODS, namespace=namespace.name, grace_seconds=0)
            await eventually(lambda: _no_pods(namespace), saying="the pods are gone")
    finally:
        clean: Json = {"metadata": {"labels": {"zone": None, "rack": None}}, "spec": {"unschedulable": None}}
        for node in NODES:
            await moving.patch(NODE_RESOURCE, node, clean, kind="merge-patch")
    assert wrong == []
    assert CASES // 2 < fitting < len(NODES) * CASES - CASES, fitting


async def _is_gone(namespace: Namespace, name: str) -> bool:
    return name not in [each["metadata"]["name"] for each in await namespace.all(PODS)]
