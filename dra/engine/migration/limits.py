"""The limits on migrations: how many at once, by node, namespace and workload, and how many evictions in a window.

A limit of a workload may be a percentage of its replicas. A job that has passed arbitration counts until its end:
globally, in its namespace and in its workload, since the replacement is not ready before; the workload is in an
annotation of the job once the pod is gone. On a node only pods count that exist: the node has done its part then.

A pod that no node runs is not evicted, so neither the pods that are unavailable nor the rate of evictions matter.
"""

from bisect import insort
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from dra.api.descheduler_configuration import EvictionGate, MigrationControllerArgs
from dra.api.durations import SECOND, format_duration
from dra.api.migration.model import PodMigrationJob
from dra.engine.instants import NEVER, WallTime
from dra.engine.migration.conditions import TRUE
from dra.engine.migration.pod_index import PodIndex, controller_of, is_unavailable
from dra.engine.migration.reasons import MigrationConditionType, MigrationReason
from dra.engine.migration.view import MigrationPod
from dra.model.meta import Struct, Uid

_FEW_REPLICAS: Final = 4
_MANY_REPLICAS: Final = 10
_DEFAULT_PERCENT: Final = 10


class Refusal(Struct, frozen=True):
    """The limit that keeps a job from beginning, and when the limit may allow the job without any event."""

    reason: MigrationReason
    message: str
    wake_at: WallTime = NEVER


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

    def __init__(self, pods: PodIndex, *, replicas: Mapping[Uid, int]) -> None:
        self._pods = pods
        self._replicas = replicas
        self._total = 0
        self._namespaces: Counter[str] = Counter()
        self._nodes: Counter[str] = Counter()
        self.workloads: Counter[Uid] = Counter()
        """Workload → migrations, by the uid of the pods' controller."""
        self._migrating: set[Uid] = set()
        """Pods that exist and are migrating."""
        self._made_unavailable: Counter[Uid] = Counter()
        """Workload → migrating pods that are available still."""
        self._to_evict: Counter[Uid] = Counter()
        """Workload → migrations that evict a pod, and have not."""
        self._evictions: dict[Uid, list[WallTime]] = {}
        """Workload → times of evictions, in ascending order."""

    def add(self, job: PodMigrationJob, pod: MigrationPod | None, *, workload: Uid) -> None:
        """Count a job that has passed; `pod` is None once the pod is gone, `workload` is empty for a bare pod."""
        self._total += 1
        self._namespaces[job.spec.pod_ref.namespace] += 1
        if workload:
            self.workloads[workload] += 1
            self._to_evict[workload] += eviction_time(job) is None and (pod is None or bool(pod.spec.node_name))
        if pod is None or pod.metadata.uid in self._migrating:
            return
        self._migrating.add(pod.metadata.uid)
        if pod.spec.node_name:
            self._nodes[pod.spec.node_name] += 1
        self._made_unavailable[workload] += not is_unavailable(pod)

    def add_eviction(self, workload: Uid, at: WallTime) -> None:
        """Count an eviction of a workload's pod against the limit on the rate."""
        insort(self._evictions.setdefault(workload, []), at)

    def replicas(self, workload: Uid) -> int:
        """Return the replicas that a workload wants; if unknown, the pods that it has."""
        known = self._replicas.get(workload)
        return self._pods.pods_of(workload) if known is None else known

    def refusal(
        self, job: PodMigrationJob, pod: MigrationPod, *, args: MigrationControllerArgs, now: WallTime
    ) -> Refusal | None:
        """Return the first limit that a job would exceed; None if the job may begin."""
        return next(self._refusals(job, pod, args=args, now=now), None)

    def _refusals(
        self, job: PodMigrationJob, pod: MigrationPod, *, args: MigrationControllerArgs, now: WallTime
    ) -> Iterator[Refusal]:
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
        owner = controller_of(pod)
        if owner is not None:
            yield from self._workload_refusals(owner.uid, f"{owner.kind} {namespace}/{owner.name}", pod, args, now)

    def _workload_refusals(
        self, workload: Uid, name: str, pod: MigrationPod, args: MigrationControllerArgs, now: WallTime
    ) -> Iterator[Refusal]:
        replicas, count = self.replicas(workload), self.workloads[workload]
        limit = workload_limit(replicas, args.max_migrating_per_workload)
        if count >= limit and EvictionGate.MAX_MIGRATING_PER_WORKLOAD not in args.skip_eviction_gates:
            text = f"{name}: {_pods(count)} migrating, the limit is {limit} (maxMigratingPerWorkload)"
            yield Refusal(reason=MigrationReason.MAX_MIGRATING_PER_WORKLOAD, message=text)
        if not pod.spec.node_name:
            return
        unavailable = self._pods.unavailable_of(workload) + self._made_unavailable[workload]
        unavailable -= is_unavailable(pod) and not pod.terminal
        limit = workload_limit(replicas, args.max_unavailable_per_workload)
        if unavailable >= limit and EvictionGate.MAX_UNAVAILABLE_PER_WORKLOAD not in args.skip_eviction_gates:
            text = (
                f"{name}: {_pods(unavailable)} not ready, terminating or migrating, the limit is {limit} "
                "(maxUnavailablePerWorkload)"
            )
            yield Refusal(reason=MigrationReason.MAX_UNAVAILABLE_PER_WORKLOAD, message=text)
        yield from self._rate_refusals(workload, name, args, now)

    def _rate_refusals(
        self, workload: Uid, name: str, args: MigrationControllerArgs, now: WallTime
    ) -> Iterator[Refusal]:
        limiter = args.object_limiters.workload
        if limiter.duration <= 0:
            return
        given = limiter.max_migrating if limiter.max_migrating is not None else args.max_migrating_per_workload
        limit = workload_limit(self.replicas(workload), given)
        window = limiter.duration / SECOND
        recent = [at for at in self._evictions.get(workload, ()) if at > now - window]
        count = len(recent) + self._to_evict[workload]
        if count >= limit:
            within = format_duration(limiter.duration)
            text = (
                f"{name}: {_pods(count)} evicted or migrating within {within}, the limit is {limit} "
                "(objectLimiters.workload)"
            )
            # One more fits when this eviction and all before it have left the window.
            last = count - limit
            due = recent[last] + window if last < len(recent) else NEVER
            yield Refusal(reason=MigrationReason.OBJECT_LIMITER, message=text, wake_at=due)


def eviction_time(job: PodMigrationJob) -> WallTime | None:
    """Return when a job's pod was evicted; None if it was not."""
    found = job.status.condition(MigrationConditionType.EVICTION)
    if found is None or found.status != TRUE or found.last_transition_time is None:
        return None
    return found.last_transition_time.timestamp()


def _pods(count: int) -> str:
    return "1 pod is" if count == 1 else f"{count} pods are"
