"""The limits on migrations: how many at once, by node, namespace and workload, and how many evictions in a window.

A limit of a workload may be a percentage of its replicas. Those are the replicas of the object that the pods name as
their controller, once that object has been read and has the uid that the pods say. Otherwise one pod may be away: the
pods that exist prove nothing, since whoever creates a pod writes its owner references.

A job that has passed arbitration counts until its end: globally, in its namespace and in its workload, since the
replacement is not ready before; the workload is in an annotation of the job once the pod is gone. On a node only pods
count that exist: the node has done its part then.

A pod that no node runs is not evicted, so neither the pods that are unavailable nor the rate of evictions matter.

The gates of ``skipEvictionGates`` switch rules and limits off. Most gates are fields of the configuration, which get
the value that refuses nothing. The limits of a workload have no such value, since without one the default counts; here
their gates are asked for. As in Koordinator, no gate concerns the greatest eviction cost, static pods, DaemonSets,
``objectLimiters`` or budgets.
"""

from bisect import insort
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from dra.api.descheduler.migration_controller_args import EvictionGate, MigrationControllerArgs
from dra.api.descheduler.plugin_args import Namespaces
from dra.api.durations import SECOND, format_duration
from dra.api.migration.model import PodMigrationJob
from dra.engine.instants import NEVER, Instant, WallTime
from dra.engine.migration.conditions import eviction_time
from dra.engine.migration.evictability import overrules_rules
from dra.engine.migration.eviction_rate import EvictionRate
from dra.engine.migration.pod_index import NamespacedUid, PodCounts, WorkloadKey, is_unavailable, workload_of
from dra.engine.migration.reasons import MigrationReason
from dra.engine.migration.view import MigrationPod
from dra.model.meta import Struct, Uid

_FEW_REPLICAS: Final = 4
_MANY_REPLICAS: Final = 10
_DEFAULT_PERCENT: Final = 10

_OPEN: Final[Mapping[EvictionGate, Mapping[str, Any]]] = {
    EvictionGate.MAX_MIGRATING_GLOBALLY: {"max_migrating_globally": None},
    EvictionGate.MAX_MIGRATING_PER_NAMESPACE: {"max_migrating_per_namespace": None},
    EvictionGate.MAX_MIGRATING_PER_NODE: {"max_migrating_per_node": None},
    EvictionGate.EXPECTED_REPLICAS: {"skip_check_expected_replicas": True},
    EvictionGate.PVC: {"ignore_pvc_pods": False},
    EvictionGate.BARE_PODS: {"evict_failed_bare_pods": True, "evict_all_bare_pods": True},
    EvictionGate.LOCAL_STORAGE: {"evict_local_storage_pods": True},
    EvictionGate.SYSTEM_CRITICAL: {"evict_system_critical_pods": True},
    EvictionGate.PRIORITY_THRESHOLD: {"priority_threshold": None},
    EvictionGate.LABEL_SELECTOR: {"label_selector": None},
    EvictionGate.NAMESPACES: {"namespaces": Namespaces()},
    EvictionGate.NODE_FIT: {"node_fit": False},
}
"""Gate → the fields that it overrules, each with the value that refuses nothing."""


class Refusal(Struct, frozen=True):
    """The limit that keeps a job from beginning, and when the limit may allow the job without any event."""

    reason: MigrationReason
    message: str
    wake_at: WallTime = NEVER


def effective_args(args: MigrationControllerArgs) -> MigrationControllerArgs:
    """Return a configuration in which the fields of skipped gates refuse nothing."""
    changes = {name: value for gate in args.skip_eviction_gates for name, value in _OPEN.get(gate, {}).items()}
    return args.model_copy(update=changes)


def workload_limit(replicas: int, given: int | str | None) -> int:
    """Return a limit of a workload as a number of pods, at least 1 and at most its replicas.

    Without a limit: 10 % of more than 10 replicas, 2 of 4 to 10, 1 of fewer. Percentages round down.
    """
    if given is None and replicas > _MANY_REPLICAS:
        given = f"{_DEFAULT_PERCENT}%"
    elif given is None:
        given = 2 if replicas >= _FEW_REPLICAS else 1
    wanted = given if isinstance(given, int) else replicas * int(given.removesuffix("%")) // 100
    return max(1, min(wanted, replicas)) if replicas > 0 else 1


class MigrationCounts:
    """The migrations that count against the limits; jobs that pass are added one after the other."""

    def __init__(self, pods: PodCounts, *, replicas: Mapping[WorkloadKey, int]) -> None:
        self._pods = pods
        self._replicas = replicas
        self._total = 0
        self._namespaces: Counter[str] = Counter()
        self._nodes: Counter[str] = Counter()
        self.workloads: Counter[NamespacedUid] = Counter()
        """Workload → migrations. A job whose pod is gone knows no more of its workload than namespace and uid."""
        self._migrating: set[Uid] = set()
        """Pods that exist and are migrating."""
        self._made_unavailable: Counter[NamespacedUid] = Counter()
        """Workload → migrating pods that are available still."""
        self._to_evict: Counter[NamespacedUid | str] = Counter()
        """Workload or namespace → migrations that evict a pod, and have not."""
        self._evictions: dict[NamespacedUid | str, list[WallTime]] = {}
        """Workload or namespace → times of evictions, in ascending order."""

    def add(self, job: PodMigrationJob, pod: MigrationPod | None, *, workload: NamespacedUid | None) -> None:
        """Count a job that has passed; `pod` is None once the pod is gone, `workload` is None for a bare pod."""
        self._total += 1
        namespace = job.spec.pod_ref.namespace
        self._namespaces[namespace] += 1
        is_to_evict = eviction_time(job) is None and (pod is None or bool(pod.spec.node_name))
        self._to_evict[namespace] += is_to_evict
        if workload is not None:
            self.workloads[workload] += 1
            self._to_evict[workload] += is_to_evict
        if pod is None or pod.metadata.uid in self._migrating:
            return
        self._migrating.add(pod.metadata.uid)
        if pod.spec.node_name:
            self._nodes[pod.spec.node_name] += 1
        if workload is not None:
            self._made_unavailable[workload] += not is_unavailable(pod)

    def add_eviction(self, namespace: str, workload: NamespacedUid | None, at: WallTime) -> None:
        """Count an eviction against the limits on the rate; ``workload`` is None for a bare pod."""
        insort(self._evictions.setdefault(namespace, []), at)
        if workload is not None:
            insort(self._evictions.setdefault(workload, []), at)

    def replicas(self, workload: WorkloadKey) -> int:
        """Return the replicas that a workload wants; if unknown, the pods that it has."""
        known = self._replicas.get(workload)
        return self._pods.pods_of(workload) if known is None else known

    def limit(self, workload: WorkloadKey, given: int | str | None) -> int:
        """Return a limit of a workload as a number of pods: 1 if its replicas are unknown."""
        known = self._replicas.get(workload)
        return 1 if known is None else workload_limit(known, given)

    def replicas_refusal(self, pod: MigrationPod, *, args: MigrationControllerArgs) -> str:
        """Return why all replicas of a pod's workload could be away at once; empty if some stay, or none is asked."""
        workload = workload_of(pod)
        if workload is None or args.skip_check_expected_replicas or overrules_rules(pod):
            return ""
        replicas = self.replicas(workload)
        limits = (args.max_migrating_per_workload, args.max_unavailable_per_workload)
        if replicas != 1 and replicas not in [self.limit(workload, limit) for limit in limits]:
            return ""
        return (
            f"{workload}: all of its {replicas} replicas could be away at "
            "once; set skipCheckExpectedReplicas to migrate its pods"
        )

    def refusals(
        self, job: PodMigrationJob, pod: MigrationPod, *, args: MigrationControllerArgs, now: WallTime
    ) -> Iterator[Refusal]:
        """Yield the limits that a job would exceed if it began now."""
        if (limit := args.max_migrating_globally) and self._total >= limit:
            text = f"cluster: {_pods(self._total)} migrating, the limit is {limit} (maxMigratingGlobally)"
            yield Refusal(reason=MigrationReason.MAX_MIGRATING_GLOBALLY, message=text)
        node = pod.spec.node_name
        if (limit := args.max_migrating_per_node) and node and self._nodes[node] >= limit:
            text = f"node {node}: {_pods(self._nodes[node])} migrating away, the limit is {limit} (maxMigratingPerNode)"
            yield Refusal(reason=MigrationReason.MAX_MIGRATING_PER_NODE, message=text)
        namespace = job.spec.pod_ref.namespace
        count = self._namespaces[namespace]
        if (limit := args.max_migrating_per_namespace) and count >= limit:
            text = f"namespace {namespace}: {_pods(count)} migrating, the limit is {limit} (maxMigratingPerNamespace)"
            yield Refusal(reason=MigrationReason.MAX_MIGRATING_PER_NAMESPACE, message=text)
        workload = workload_of(pod)
        if workload is not None:
            yield from self._workload_refusals(workload, pod, args, now)
        if node and (refusal := self._namespace_rate_refusal(namespace, args, now)) is not None:
            yield refusal

    def _workload_refusals(
        self, workload: WorkloadKey, pod: MigrationPod, args: MigrationControllerArgs, now: WallTime
    ) -> Iterator[Refusal]:
        name, count, cause = str(workload), self.workloads[workload.in_namespace], self._cause(workload)
        limit = self.limit(workload, args.max_migrating_per_workload)
        if count >= limit and EvictionGate.MAX_MIGRATING_PER_WORKLOAD not in args.skip_eviction_gates:
            text = f"{name}: {_pods(count)} migrating, the limit is {limit}{cause} (maxMigratingPerWorkload)"
            yield Refusal(reason=MigrationReason.MAX_MIGRATING_PER_WORKLOAD, message=text)
        if not pod.spec.node_name:
            return
        unavailable = self._pods.unavailable_of(workload) + self._made_unavailable[workload.in_namespace]
        unavailable -= is_unavailable(pod) and not pod.terminal
        limit = self.limit(workload, args.max_unavailable_per_workload)
        if unavailable >= limit and EvictionGate.MAX_UNAVAILABLE_PER_WORKLOAD not in args.skip_eviction_gates:
            text = (
                f"{name}: {_pods(unavailable)} not ready, terminating or migrating, the limit is {limit}{cause} "
                "(maxUnavailablePerWorkload)"
            )
            yield Refusal(reason=MigrationReason.MAX_UNAVAILABLE_PER_WORKLOAD, message=text)
        yield from self._rate_refusals(workload, args, now)

    def _cause(self, workload: WorkloadKey) -> str:
        return "" if workload in self._replicas else ", since its replicas are unknown"

    def _rate_refusals(self, workload: WorkloadKey, args: MigrationControllerArgs, now: WallTime) -> Iterator[Refusal]:
        limiter = args.object_limiters.workload
        if limiter.duration <= 0:
            return
        given = limiter.max_migrating if limiter.max_migrating is not None else args.max_migrating_per_workload
        limit = self.limit(workload, given)
        rate = EvictionRate(limit=limit, window=limiter.duration / SECOND, burst=limiter.burst or 0)
        text = f"{limit}{self._cause(workload)} (objectLimiters.workload)"
        if (refusal := self._rate_refusal(workload.in_namespace, str(workload), rate, text=text, now=now)) is not None:
            yield refusal

    def _namespace_rate_refusal(self, namespace: str, args: MigrationControllerArgs, now: WallTime) -> Refusal | None:
        limiter = args.object_limiters.namespace
        if limiter.duration <= 0 or limiter.max_migrating <= 0:
            return None
        rate = EvictionRate(limit=limiter.max_migrating, window=limiter.duration / SECOND, burst=limiter.burst or 0)
        text = f"{rate.limit} (objectLimiters.namespace)"
        return self._rate_refusal(namespace, f"namespace {namespace}", rate, text=text, now=now)

    def _rate_refusal(
        self, key: NamespacedUid | str, name: str, rate: EvictionRate, *, text: str, now: WallTime
    ) -> Refusal | None:
        """Return the refusal of one more eviction; ``text`` says what the limit is, and which field has it."""
        evictions, pending = self._evictions.get(key, ()), self._to_evict[key]
        due = rate.next_eviction_at(evictions, pending=pending, now=now)
        if due <= now:
            return None
        count = sum(at > now - rate.window for at in evictions) + pending
        within = format_duration(round(rate.window * SECOND))
        spread = f", {rate.burst} at once" if rate.burst else ""
        return Refusal(
            reason=MigrationReason.OBJECT_LIMITER,
            message=f"{name}: {_pods(count)} evicted or migrating within {within}{spread}, the limit is {text}",
            wake_at=due,
        )


class EvictionPace:
    """The limit on evictions per second: the times at which evictions may happen, so that no worker waits for one."""

    def __init__(self, qps: float, burst: int) -> None:
        self._interval = 1.0 / qps
        self._tolerance = (burst - 1) * self._interval
        self._free_at: Instant = 0.0
        """When an eviction may happen if none before it is in a burst."""

    def next_turn(self, now: Instant) -> Instant:
        """Take the next turn, and return its time: now, or later."""
        free_at = max(self._free_at, now)
        self._free_at = free_at + self._interval
        return max(now, free_at - self._tolerance)


def _pods(count: int) -> str:
    return "1 pod is" if count == 1 else f"{count} pods are"
