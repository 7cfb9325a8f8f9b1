"""A round of the descheduler over 5,000 nodes and 100,000 pods, with all plugins.

Nodes, pods and NodeMetrics are decoded from JSON, trimmed as the descheduler's informers do, and kept; then a snapshot
is made and two rounds are run: one decides on what is wrong, and one on the cluster as the first left it, where all of
its migrations are in flight. The cluster has zones, taints, hard topology spread, anti-affinity, node affinity,
budgets, hot nodes, failed and restarting pods, and workloads of 1 to 1,000 pods. Times are those of the processor. No
API server takes part.

    python -m bench.descheduling [--nodes N] [--pods N] [--profile] [--write]
"""

import argparse
import cProfile
import gc
import json
import os
import pstats
import random
import resource
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import thread_time
from typing import Any, Final

import msgspec

from bench import readme
from controller.migration.informers import trim_pod_annotations
from dra.api.descheduler.configuration import DeschedulerProcessConfiguration
from dra.engine.colocation.watched import WatchedNodeMetric, trim_metric
from dra.engine.descheduling.cluster_objects import ClusterObjects
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.profiles import Descheduling, compile_descheduling
from dra.engine.descheduling.round import RoundResult, run_round
from dra.engine.descheduling.snapshot import Snapshot
from dra.engine.migration.pod_index import workload_of
from dra.engine.migration.pod_memory import SharedParts
from dra.model.preemption import PodDisruptionBudget
from dra.model.scheduling import SchedulerNode
from tests.dra.engine.migration.examples import NOW, at, job

MARK: Final = "descheduling"
SECONDS_LIMIT: Final = 10.0
MIB_LIMIT: Final = 600.0

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_ZONES: Final = 3
_SIZES: Final = (1, 2, 3, 5, 10, 20, 50, 100, 1000)
"""Replicas of workloads."""

_READY: Final = [{"type": "Ready", "status": "True"}]


def configuration(*, without: frozenset[str] = frozenset()) -> Descheduling:
    """Return the rounds of a configuration with all plugins but some."""
    deschedule: dict[str, dict[str, Any]] = {
        "PodLifeTime": {"maxPodLifeTimeSeconds": 30 * 86400},
        "RemoveFailedPods": {},
        "RemovePodsHavingTooManyRestarts": {"podRestartThreshold": 100},
        "RemovePodsViolatingInterPodAntiAffinity": {},
        "RemovePodsViolatingNodeAffinity": {"nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]},
        "RemovePodsViolatingNodeTaints": {},
        "RemovePodsViolatingNodeReservation": {},
    }
    balance: dict[str, dict[str, Any]] = {
        "RemoveDuplicates": {},
        "RemovePodsViolatingTopologySpreadConstraint": {},
        "LowNodeUtilization": {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 80}},
        "LowNodeLoad": {
            "lowThresholds": {"cpu": 30},
            "highThresholds": {"cpu": 70},
            "anomalyCondition": {"consecutiveAbnormalities": 1},
        },
    }
    emptying = {"HighNodeUtilization": {"thresholds": {"cpu": 10}}}
    wanted = [(deschedule, balance), ({}, emptying)]
    profiles = [
        {
            "name": name,
            "plugins": {
                point: {"enabled": [{"name": plugin} for plugin in plugins if plugin not in without]}
                for point, plugins in (("deschedule", of_pods), ("balance", of_nodes))
            },
            "pluginConfig": [
                {"name": plugin, "args": args} for plugin, args in (of_pods | of_nodes).items() if plugin not in without
            ],
        }
        for name, (of_pods, of_nodes) in zip(("all", "emptying"), wanted, strict=True)
    ]
    given = {"profiles": profiles, "migration": {"maxMigratingPerNode": 10}}
    compiled = compile_descheduling(DeschedulerProcessConfiguration.model_validate(given))
    if compiled is None:
        raise SystemExit("no profiles")
    return compiled


class Cluster:
    """The objects of the cluster, as the informers of the descheduler keep them."""

    def __init__(self, *, nodes: int, pods: int) -> None:
        self._chance = random.Random(38)  # noqa: S311 - the same cluster in each run
        self._nodes, self._pods = nodes, pods
        node, pod = msgspec.json.Decoder(SchedulerNode).decode, msgspec.json.Decoder(DeschedulingPod).decode
        self.nodes = tuple(node(json.dumps(content)) for content in self._node_contents())
        used: dict[str, list[tuple[DeschedulingPod, int]]] = {node.metadata.name: [] for node in self.nodes}
        kept: list[DeschedulingPod] = []
        parts = SharedParts()
        for content in self._pod_contents():
            decoded = pod(json.dumps(content))
            trim_pod_annotations(decoded)
            parts.share(decoded)
            kept.append(decoded)
            used[decoded.spec.node_name].append((decoded, self._chance.randrange(50, 900)))
        self.pods = tuple(kept)
        self.metrics = tuple(self._metrics(used.values()))
        self.replicas = Counter(key for pod in self.pods if (key := workload_of(pod)) is not None)
        self.budgets = tuple(self._budgets())

    def objects(self, *, in_flight: RoundResult | None = None) -> ClusterObjects:
        """Return what a snapshot is made of; the accepted pods of an earlier round have jobs."""
        accepted = () if in_flight is None else [each.pod for each in in_flight.decisions if each.verdict.accepted]
        return ClusterObjects(
            nodes=self.nodes,
            pods=self.pods,
            node_metrics=self.metrics,
            disruption_budgets=self.budgets,
            replicas=self.replicas,
            jobs=tuple(
                job(f"j-{pod.metadata.name}", of=pod.metadata.name, namespace=pod.metadata.namespace)
                for pod in accepted
            ),
        )

    def _node_contents(self) -> Iterator[dict[str, Any]]:
        for number in range(self._nodes):
            name = f"node-{number:05}"
            taint = [{"key": "maintenance", "effect": "NoSchedule"}] if number % 200 == 0 else []
            labels = {f"example.com/label-{index}": "some-value" for index in range(8)}
            labels |= {
                "kubernetes.io/hostname": name,
                "topology.kubernetes.io/zone": f"zone-{number % _ZONES}",
                "disk": "ssd" if number % 4 else "hdd",
            }
            amounts = {"cpu": "32", "memory": "128Gi", "pods": "110"}
            yield {
                "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
                "spec": {"taints": taint},
                "status": {"allocatable": amounts, "capacity": amounts, "conditions": _READY},
            }

    def _pod_contents(self) -> Iterator[dict[str, Any]]:
        made, workload = 0, 0
        while made < self._pods:
            replicas = min(self._chance.choice(_SIZES), self._pods - made)
            spec = self._spec_of(workload)
            for replica in range(replicas):
                yield self._pod_content(workload, replica, spec)
            made, workload = made + replicas, workload + 1

    def _spec_of(self, workload: int) -> dict[str, Any]:
        """Return what the pods of a workload have in common."""
        labels = {"matchLabels": {"app": f"app-{workload}"}}
        spec: dict[str, Any] = {"priority": self._chance.choice([0, 0, 5500, 9500])}
        if workload % 10 == 0:
            spread = {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "labelSelector": labels}
            spec["topologySpreadConstraints"] = [spread | {"whenUnsatisfiable": "DoNotSchedule"}]
        if workload % 20 == 1:
            term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": labels}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        if workload % 20 == 2:  # noqa: PLR2004 - another one in twenty
            wanted = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [wanted]}}
            spec["affinity"] = {"nodeAffinity": required}
        return spec

    def _pod_content(self, workload: int, replica: int, spec: dict[str, Any]) -> dict[str, Any]:
        app, name = f"app-{workload}", f"app-{workload}-7d9f8b6c5d-{replica:05}"
        crowded = self._chance.random() < 0.02  # noqa: PLR2004 - some nodes are hot
        host = self._chance.randrange(self._nodes // 50 + 1) if crowded else self._chance.randrange(self._nodes)
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": f"uid-{app}", "controller": True}
        requests = {"cpu": self._chance.choice(["100m", "500m", "1"]), "memory": self._chance.choice(["256Mi", "1Gi"])}
        container = {"name": "main", "image": f"registry.example.com/{app}:v1", "resources": {"requests": requests}}
        age = self._chance.randrange(3600, 31 * 86400)
        restarts = 500 if self._chance.random() < 0.001 else self._chance.randrange(3)  # noqa: PLR2004
        failed = self._chance.random() < 0.001  # noqa: PLR2004
        return {
            "metadata": {
                "namespace": f"team-{workload % 40}",
                "name": name,
                "uid": f"{name}-4567-89ab-cdef01234567",
                "resourceVersion": "123456",
                "creationTimestamp": at(-age),
                "labels": {"app": app, "pod-template-hash": "7d9f8b6c5d"},
                "annotations": {"example.com/note": "x" * 200},
                "ownerReferences": [owner],
            },
            "spec": {"nodeName": f"node-{host:05}", "containers": [container], **spec},
            "status": {
                "phase": "Failed" if failed else "Running",
                "qosClass": "Burstable",
                "startTime": at(-age),
                "conditions": [] if failed else _READY,
                "containerStatuses": [{"name": "main", "restartCount": restarts, "state": {"running": {}}}],
            },
        }

    def _metrics(self, used: Iterable[list[tuple[DeschedulingPod, int]]]) -> Iterator[WatchedNodeMetric]:
        """Yield the report of each node, of the milli-CPUs that its pods use, trimmed as the process trims it."""
        decode = msgspec.json.Decoder(WatchedNodeMetric).decode
        for number, pods in enumerate(used):
            metric = decode(json.dumps(self._metric_content(number, [_reported(pod, cpu) for pod, cpu in pods])))
            trim_metric(metric)
            yield metric

    def _metric_content(self, number: int, reported: list[Any]) -> dict[str, Any]:
        hot = number % 50 == 0
        system = {"resources": {"cpu": "14" if hot else "500m", "memory": "4Gi"}}
        name = f"node-{number:05}"
        return {
            "metadata": {"name": name, "uid": f"uid-{name}"},
            "status": {
                "updateTime": at(-30),
                "nodeMetric": {"nodeUsage": system, "systemUsage": system},
                "podsMetric": reported,
            },
        }

    def _budgets(self) -> Iterator[PodDisruptionBudget]:
        for key, replicas in self.replicas.items():
            if key.name.endswith(("3", "7")):
                selector = {"matchLabels": {"app": key.name}}
                status = {"disruptionsAllowed": 1, "currentHealthy": replicas, "desiredHealthy": replicas - 1}
                content = {"metadata": {"name": key.name, "namespace": key.namespace}, "status": status}
                yield msgspec.convert(content | {"spec": {"selector": selector}}, PodDisruptionBudget)


def _reported(pod: DeschedulingPod, cpu: int) -> dict[str, Any]:
    meta = pod.metadata
    return {
        **{name: getattr(meta, name) for name in ("namespace", "name", "uid")},
        "priority": "koord-prod",
        "qos": "LS",
        "podUsage": {"resources": {"cpu": f"{cpu}m", "memory": "200Mi"}},
    }


def resident_mib() -> float:
    """Return the memory of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE / (1 << 20)


def main() -> int:
    """Measure and print; exit with 1 if a limit is passed."""
    asked = _arguments()
    rounds = configuration(without=frozenset(asked.without))
    cluster = Cluster(nodes=asked.nodes, pods=asked.pods)
    before, memory = resident_mib(), {}  # type: float, dict[str, Any]
    with cProfile.Profile(thread_time) if asked.profile else _Nothing() as profiler:
        first, first_seconds = _round(cluster.objects(), rounds, memory, now=NOW)
        second, second_seconds = _round(cluster.objects(in_flight=first), rounds, memory, now=NOW + 120)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if isinstance(profiler, cProfile.Profile):
        pstats.Stats(profiler, stream=sys.stderr).sort_stats(asked.sort).print_stats(45)
    text = "\n".join(
        [
            f"{asked.nodes:,} nodes, {len(cluster.pods):,} pods; Python {sys.version.split()[0]}.\n",
            *("| | first round | next round |", "|---|---:|---:|"),
            f"| snapshot, s | {first_seconds[0]:.1f} | {second_seconds[0]:.1f} |",
            f"| round, s | {first_seconds[1]:.1f} | {second_seconds[1]:.1f} |",
            f"| candidates | {len(first.decisions):,} | {len(second.decisions):,} |",
            f"| accepted | {_accepted(first):,} | {_accepted(second):,} |",
            f"| memory of the objects, MiB | {before:,.0f} | |",
            f"| peak of the process, MiB | | {peak:,.0f} |\n",
            f"Candidates of the first round by plugin: {_by_plugin(first)}.",
        ]
    )
    print(text)
    for fault in (*first.faults, *second.faults):
        print(fault.message, file=sys.stderr)
    if asked.write:
        readme.write(text, mark=MARK)
    slowest = max(sum(first_seconds), sum(second_seconds))
    if slowest > SECONDS_LIMIT or peak > MIB_LIMIT or first.faults or second.faults:
        print(f"more than {SECONDS_LIMIT} s or {MIB_LIMIT} MiB, or a plugin failed", file=sys.stderr)
        return 1
    return 0


class _Nothing:
    """No profile."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def _round(
    objects: ClusterObjects, rounds: Descheduling, memory: dict[str, Any], *, now: float
) -> tuple[RoundResult, tuple[float, float]]:
    """Run a round; return its result, and the seconds of the processor for the snapshot and for the round."""
    begun = thread_time()
    snapshot = Snapshot(objects, now=now, memory=memory)
    made = thread_time()
    result = run_round(snapshot, rounds.profiles_on(objects.nodes), limits=rounds.limits)
    ended = thread_time()
    snapshot.forget_parts()
    return result, (made - begun, ended - made)


def _accepted(result: RoundResult) -> int:
    return sum(each.verdict.accepted for each in result.decisions)


def _by_plugin(result: RoundResult) -> str:
    counts = Counter(each.plugin for each in result.decisions)
    return ", ".join(f"{plugin} {count:,}" for plugin, count in counts.most_common())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--without", action="append", default=[], help="leave a plugin out")
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    parser.add_argument("--sort", default="tottime", help="order of the profile")
    parser.add_argument("--write", action="store_true", help="put the table into bench/README.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
