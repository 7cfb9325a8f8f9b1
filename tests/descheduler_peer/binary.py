"""Asks the community's descheduler itself: puts clusters into a throw-away API server, and lets it evict for real.

Its dry run is no answer: it finds nothing for topology spread (descheduler#1917). Nothing schedules, controls or runs
the pods, so that those that are being deleted, or are gone, are those that it evicted. The API server sets the times,
so that plugins and arguments that read ages are left out.
"""

import asyncio
import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.cluster.cluster import Cluster
from tests.cluster.options import Component, Options
from tests.descheduler_peer import clusters, judge, policies
from tests.scenarios import api as kubernetes
from tests.scenarios.api import Api
from tests.scenarios.resources import NODES, PODS

NAMESPACES: Final = ("data", "kube-system", "shop")
PLUGINS: Final = tuple(name for name in policies.PLUGINS if name not in {"PodLifeTime", "RemoveFailedPods"})
WITHIN: Final = 60
"""Seconds that a round of the descheduler may take."""


def cluster() -> Cluster:
    """Return an API server that takes pods as they are, not started yet."""
    plugins = "ServiceAccount,Priority,DefaultTolerationSeconds,TaintNodesByCondition"
    return Cluster(
        Options(
            controllers="clusterrole-aggregation-controller",
            apiserver_flags=(f"--disable-admission-plugins={plugins}",),
            without=frozenset({Component.NODES, Component.SCHEDULER}),
        )
    )


def question(seed: int) -> clusters.Json:
    """Return what is asked for a seed: a cluster, and the policy for one of the plugins."""
    policy = policies.policy(seed, PLUGINS[seed % len(PLUGINS)])
    for config in policy["profiles"][0]["pluginConfig"]:
        config["args"].pop("minPodAge", None)
    objects = [content for content in clusters.cluster(seed) if "deletionTimestamp" not in content["metadata"]]
    return {"now": clusters.moment(0), "objects": objects, "policies": [policy], "times": 8}


async def answers(
    server: Cluster, descheduler: Path, seeds: Iterable[int], *, folder: Path
) -> list[tuple[clusters.Json, judge.Answer]]:
    """Return each question with what a round of the descheduler evicted. Raises CalledProcessError."""
    answered = []
    async with kubernetes.connect(server.admin_kubeconfig) as api:
        for name in NAMESPACES:
            if name != "kube-system":
                await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for seed in seeds:
            asked = question(seed)
            await _create(api, asked["objects"])
            policy = folder / "policy.json"
            policy.write_text(json.dumps(asked["policies"][0]), encoding="utf-8")
            flags = ("--descheduling-interval=0", "--bind-address=127.0.0.1", "--secure-port=0", "--disable-metrics")
            await asyncio.to_thread(
                subprocess.run,
                [descheduler, f"--kubeconfig={server.admin_kubeconfig}", f"--policy-config-file={policy}", *flags],
                check=True,
                capture_output=True,
                timeout=WITHIN,
            )
            answered.append((asked, await _evicted(api, asked["objects"])))
            await _clear(api)
    return answered


async def _create(api: Api, objects: Iterable[clusters.Json]) -> None:
    """Create nodes and pods, and set their statuses."""
    for content in objects:
        if content["kind"] == "Namespace":
            continue
        meta, status = content["metadata"], dict(content["status"])
        status.pop("qosClass", None)  # which the API server sets
        namespace = meta.get("namespace")
        bare = {name: value for name, value in meta.items() if name not in {"uid", "creationTimestamp"}}
        await api.create(content | {"metadata": bare, "status": {}}, namespace=namespace)
        resource = NODES if content["kind"] == "Node" else PODS
        await api.patch(resource, meta["name"], {"status": status}, namespace=namespace, subresource="status")


async def _evicted(api: Api, objects: Iterable[clusters.Json]) -> judge.Answer:
    staying = {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for namespace in NAMESPACES
        for pod in await api.all(PODS, namespace=namespace)
        if "deletionTimestamp" not in pod["metadata"]
    }
    group_of = judge.groups(objects)
    return judge.counted(group for pod, group in group_of.items() if pod not in staying)


async def _clear(api: Api) -> None:
    for namespace in NAMESPACES:
        await api.delete_collection(PODS, namespace=namespace, grace_seconds=0)
    await api.request("DELETE", NODES.path(), limit=kubernetes.UNLIMITED)
