"""The cluster of `bench.descheduling`, and the arguments of the plugins that are asked about it.

It has zones, taints, hard topology spread, anti-affinity, node affinity, budgets, hot nodes, failed and restarting
pods, and workloads of 1 to 1,000 pods.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from controller.migration.informers import trim_pod_annotations
from dra.engine.colocation.watched import WatchedNodeMetric, trim_metric
from dra.engine.descheduling.cluster_objects import ClusterObjects
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.round import RoundResult
from dra.engine.migration.pod_index import workload_of
from dra.engine.migration.pod_memory import SharedParts
from dra.model.preemption import PodDisruptionBudget
from dra.model.scheduling import SchedulerNode
from tests.dra.engine.migration.examples import at, job

Json: TypeAlias = dict[str, Any]


PROFILES: Final[Mapping[str, Mapping[str, Mapping[str, Json]]]] = {
    "all": {
        "deschedule": {
            "PodLifeTime": {"maxPodLifeTimeSeconds": 30 * 86400},
            "RemoveFailedPods": {},
            "RemovePodsHavingTooManyRestarts": {"podRestartThreshold": 100},
            "RemovePodsViolatingInterPodAntiAffinity": {},
            "RemovePodsViolatingNodeAffinity": {"nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]},
            "RemovePodsViolatingNodeTaints": {},
            "RemovePodsViolatingNodeReservation": {},
        },
        "balance": {
            "RemoveDuplicates": {},
            "RemovePodsViolatingTopologySpreadConstraint": {},
            "LowNodeUtilization": {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 80}},
            "LowNodeLoad": {
                "lowThresholds": {"cpu": 30},
                "highThresholds": {"cpu": 70},
                "anomalyCondition": {"consecutiveAbnormalities": 1},
            },
        },
    },
    "emptying": {"deschedule": {}, "balance": {"HighNodeUtilization": {"thresholds": {"cpu": 10}}}},
}
"""Profile → extension point → plugin → its arguments."""

_ZONES: Final = 3
_SIZES: Final = (1, 2, 3, 5, 10, 20, 50, 100, 1000)
"""Replicas of workloads."""

_READY: Final = [{"type": "Ready", "status": "True"}]


def _nobody(kind: str, content: str) -> None:
    """Show an object to nobody."""


class Cluster:
    """The objects of the cluster, as the informers of the descheduler keep them."""

    def __init__(self, *, nodes: int, pods: int, show: Callable[[str, str], None] = _nobody) -> None:
        """Make nodes and pods; ``show`` gets the kind and the JSON of each, in the order in which they are made."""
        self._chance = random.Random(38)  # noqa: S311 - the same cluster in each run
        self._nodes, self._pods = nodes, pods
        node, pod = msgspec.json.Decoder(SchedulerNode).decode, msgspec.json.Decoder(DeschedulingPod).decode
        self.nodes = tuple(node(_shown("Node", content, show)) for content in self._node_contents())
        used: dict[str, list[tuple[DeschedulingPod, int]]] = {node.metadata.name: [] for node in self.nodes}
        kept: list[DeschedulingPod] = []
        parts = SharedParts()
        for content in self._pod_contents():
            decoded = pod(_shown("Pod", content, show))
            trim_pod_annotations(decoded)
            parts.share(decoded)
            kept.append(decoded)
            used[decoded.spec.node_name].append((decoded, self._chance.randrange(50, 900)))
        self.pods = tuple(kept)
        self.metrics = tuple(self._metrics(used.values(), show))
        self.replicas = Counter(key for pod in self.pods if (key := workload_of(pod)) is not None)
        self.budgets = tuple(self._budgets())

    def objects(self, *, in_flight: RoundResult | None = None) -> ClusterObjects:
        """Return what a snapshot is made of; the accepted pods of an earlier round have jobs."""
        accepted = (
            () if in_flight is None else [decision.pod for decision in in_flight.decisions if decision.verdict.accepted]
        )
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

    def _node_contents(self) -> Iterator[Json]:
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

    def _pod_contents(self) -> Iterator[Json]:
        made, workload = 0, 0
        while made < self._pods:
            replicas = min(self._chance.choice(_SIZES), self._pods - made)
            spec = self._spec_of(workload)
            for replica in range(replicas):
                yield self._pod_content(workload, replica, spec)
            made, workload = made + replicas, workload + 1

    def _spec_of(self, workload: int) -> Json:
        """Return what the pods of a workload have in common."""
        labels = {"matchLabels": {"app": f"app-{workload}"}}
        spec: Json = {"priority": self._chance.choice([0, 0, 5500, 9500])}
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

    def _pod_content(self, workload: int, replica: int, spec: Json) -> Json:
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

    def _metrics(
        self, used: Iterable[list[tuple[DeschedulingPod, int]]], show: Callable[[str, str], None]
    ) -> Iterator[WatchedNodeMetric]:
        """Yield the report of each node, of the milli-CPUs that its pods use, trimmed as the process trims it."""
        decode = msgspec.json.Decoder(WatchedNodeMetric).decode
        for number, pods in enumerate(used):
            content = self._metric_content(number, [_reported(pod, cpu) for pod, cpu in pods])
            metric = decode(_shown("NodeMetric", content, show))
            trim_metric(metric)
            yield metric

    def _metric_content(self, number: int, reported: list[Any]) -> Json:
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


def _reported(pod: DeschedulingPod, cpu: int) -> Json:
    meta = pod.metadata
    return {
        **{name: getattr(meta, name) for name in ("namespace", "name", "uid")},
        "priority": "koord-prod",
        "qos": "LS",
        "podUsage": {"resources": {"cpu": f"{cpu}m", "memory": "200Mi"}},
    }


def _shown(kind: str, content: Json, show: Callable[[str, str], None]) -> str:
    text = json.dumps(content)
    show(kind, text)
    return text
