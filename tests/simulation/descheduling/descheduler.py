"""The descheduler of a history: rounds on what its informers show."""

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from dra.api.descheduler.configuration import DeschedulerProcessConfiguration
from dra.api.migration.model import PodMigrationJob, parse_pod_migration_job
from dra.api.migration.well_known import ANNOTATION_WORKLOAD
from dra.engine.descheduling.cluster_objects import ClusterObjects
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.profiles import compile_descheduling
from dra.engine.descheduling.round import RoundResult, run_round
from dra.engine.descheduling.snapshot import Snapshot
from dra.engine.migration.pod_index import WorkloadKey
from dra.model.meta import Uid
from dra.model.node_metrics import NodeMetric
from dra.model.preemption import PodDisruptionBudget
from dra.model.scheduling import SchedulerNode
from tests.simulation.descheduling.cluster import SimulatedCluster, SimulatedJob, SimulatedPod
from tests.simulation.descheduling.scenario import Scenario, Workload

HIGH: Final = 60
LOW: Final = 35
NOON: Final = datetime(2026, 11, 28, 12, tzinfo=UTC).timestamp()
EVENT_PAUSE: Final = 5.0
"""Seconds between two rounds at least."""

KEPT_SECONDS: Final = 300.0
"""How long a job that has ended is kept."""

_READY: Final = [{"type": "Ready", "status": "True"}]


def at(seconds: float) -> str:
    """Return a second of the history as the API writes times."""
    return datetime.fromtimestamp(NOON + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def configuration(scenario: Scenario) -> DeschedulerProcessConfiguration:
    """Return the configuration of a history."""
    per_node, per_namespace, total = scenario.limits
    args: dict[str, dict[str, Any]] = {
        "LowNodeLoad": {
            "lowThresholds": {"cpu": LOW},
            "highThresholds": {"cpu": HIGH},
            "anomalyCondition": {"consecutiveAbnormalities": scenario.abnormalities},
        },
        "RemoveDuplicates": {},
        "RemovePodsViolatingTopologySpreadConstraint": {},
        "PodLifeTime": {"maxPodLifeTimeSeconds": scenario.lifetime, "namespaces": {"include": ["churn"]}},
    }
    of_pods = ("PodLifeTime",) if scenario.lifetime else ()
    profile = {
        "name": "p",
        "plugins": {
            "deschedule": {"enabled": [{"name": name} for name in of_pods]},
            "balance": {"enabled": [{"name": name} for name in scenario.plugins]},
        },
        "pluginConfig": [{"name": name, "args": args[name]} for name in (*of_pods, *scenario.plugins)],
    }
    given = {
        "profiles": [profile],
        "deschedulingInterval": f"{scenario.interval:.0f}s",
        "maxNoOfPodsToEvictPerNode": per_node,
        "maxNoOfPodsToEvictPerNamespace": per_namespace,
        "maxNoOfPodsToEvictTotal": total,
        "migration": {"maxMigratingPerNode": None, "skipCheckExpectedReplicas": True},
    }
    return DeschedulerProcessConfiguration.model_validate(
        {name: value for name, value in given.items() if value is not None}
    )


class Descheduler:
    """The descheduler: what it remembers, and when it runs next."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        compiled = compile_descheduling(configuration(cluster.scenario))
        assert compiled is not None
        self.rounds = compiled
        self._memory: dict[str, Any] = {}
        self._forgot = 0
        self._next = 0.0
        self._last = -EVENT_PAUSE

    def is_due(self, reported: list[str]) -> bool:
        """Return whether a round begins now: by the interval, or since a node is hot."""
        hot = any(self._is_hot(name) for name in reported)
        now = self._cluster.now
        return now >= self._next or (hot and now >= self._last + EVENT_PAUSE)

    def run(self) -> tuple[RoundResult, Snapshot]:
        """Run a round, and create the jobs that it decided on."""
        cluster = self._cluster
        if len(cluster.forgets) > self._forgot:
            self._memory, self._forgot = {}, len(cluster.forgets)
        self._last, self._next = cluster.now, cluster.now + cluster.scenario.interval
        snapshot = Snapshot(self._objects(), now=NOON + cluster.now, memory=self._memory)
        result = run_round(snapshot, self.rounds.profiles_on(snapshot.objects.nodes), limits=self.rounds.limits)
        return result, snapshot

    def _is_hot(self, name: str) -> bool:
        used = sum(self._cluster.reports[name].use.values())
        return used * 100 > HIGH * self._cluster.capacity[name]

    def _objects(self) -> ClusterObjects:
        cluster = self._cluster
        workloads = cluster.scenario.workloads
        over = [job for job in cluster.jobs if job.is_over and job.ended + KEPT_SECONDS > cluster.now]
        return ClusterObjects(
            nodes=tuple(self._node(node.name, node.zone) for node in cluster.scenario.nodes),
            pods=tuple(map(self._pod, cluster.pods.values())),
            jobs=tuple(map(_job, cluster.unfinished)),
            ended_jobs=tuple(map(_job, over)),
            node_metrics=tuple(self._metric(name) for name in sorted(cluster.reports)),
            disruption_budgets=tuple(self._budget(each) for each in workloads if each.min_available is not None),
            replicas={workload_key(each): cluster.replicas[each.name] for each in workloads},
        )

    def _node(self, name: str, zone: str) -> SchedulerNode:
        amounts = {"cpu": f"{self._cluster.capacity[name]}m", "memory": "64Gi", "pods": "110"}
        conditions = _READY if self._cluster.is_ready(name) else [{"type": "Ready", "status": "False"}]
        labels = {"kubernetes.io/hostname": name, "zone": zone}
        metadata = {"name": name, "uid": name, "labels": labels}
        return msgspec.convert(
            {"metadata": metadata, "status": {"allocatable": amounts, "conditions": conditions}}, SchedulerNode
        )

    def _pod(self, pod: SimulatedPod) -> DeschedulingPod:
        workload = pod.workload
        owner = {"apiVersion": "apps/v1", "kind": workload.kind, "name": workload.name, "uid": f"u-{workload.name}"}
        spread = {"topologyKey": "zone", "maxSkew": 1, "labelSelector": {"matchLabels": {"app": workload.name}}}
        content = {
            "metadata": {
                "name": pod.uid,
                "namespace": workload.namespace,
                "uid": pod.uid,
                "creationTimestamp": at(pod.created),
                "labels": {"app": workload.name},
                "ownerReferences": [owner | {"controller": True}],
            },
            "spec": {
                "nodeName": pod.node,
                "containers": [
                    {"name": "c", "image": workload.name, "resources": {"requests": {"cpu": f"{workload.requests}m"}}}
                ],
                "topologySpreadConstraints": [spread] if workload.spreads else [],
            },
            "status": {"phase": "Running", "conditions": _READY if self._cluster.is_healthy(pod) else []},
        }
        return msgspec.convert(content, DeschedulingPod)

    def _metric(self, name: str) -> NodeMetric:
        report = self._cluster.reports[name]
        system = {"resources": {"cpu": "0", "memory": "0"}}
        pods = [
            {
                "namespace": pod.workload.namespace,
                "name": uid,
                "uid": uid,
                "podUsage": {"resources": {"cpu": f"{used}m", "memory": "1Mi"}},
            }
            for uid, used in report.use.items()
            if (pod := self._cluster.pods.get(uid)) is not None
        ]
        status = {
            "updateTime": at(report.at),
            "nodeMetric": {"nodeUsage": system, "systemUsage": system},
            "podsMetric": pods,
        }
        return msgspec.convert({"metadata": {"name": name, "uid": name}, "status": status}, NodeMetric)

    def _budget(self, workload: Workload) -> PodDisruptionBudget:
        healthy, least = self._cluster.healthy(workload), workload.min_available or 0
        status = {"disruptionsAllowed": max(0, healthy - least), "currentHealthy": healthy, "desiredHealthy": least}
        content = {
            "metadata": {"name": workload.name, "namespace": workload.namespace},
            "spec": {"selector": {"matchLabels": {"app": workload.name}}},
            "status": status,
        }
        return msgspec.convert(content, PodDisruptionBudget)


def workload_key(workload: Workload) -> WorkloadKey:
    """Return the key of a workload."""
    uid = Uid(f"u-{workload.name}")
    return WorkloadKey(workload.namespace, "apps", workload.kind, workload.name, uid)


def _job(job: SimulatedJob) -> PodMigrationJob:
    namespace, name = job.pod.key
    status: dict[str, Any] = {"phase": job.phase, "nodeName": job.node, "reason": "Unschedulable"}
    metadata: dict[str, Any] = {"name": job.name, "uid": job.name, "creationTimestamp": at(job.created)}
    if job.replacement is not None:
        status["podRef"] = {"namespace": namespace, "name": job.replacement.uid}
        evicted = at(job.replacement.created)
        status["conditions"] = [{"type": "Eviction", "status": "True", "lastTransitionTime": evicted}]
        metadata["annotations"] = {ANNOTATION_WORKLOAD: workload_key(job.pod.workload).uid}
    return parse_pod_migration_job(
        {
            "metadata": metadata,
            "spec": {"podRef": {"namespace": namespace, "name": name, "uid": name}},
            "status": status,
        }
    )
