"""What really happens on nodes, in workloads and in migrations, on virtual time."""

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Final

from tests.simulation.descheduling.scenario import (
    FailMigrations,
    Operation,
    RestartDescheduler,
    Scale,
    Scenario,
    Spike,
    StopAgent,
    StopNode,
    Workload,
)

TICK: Final = 5.0
REPORT_SECONDS: Final = 60.0
"""Seconds between the reports of a node; a report has the mean since the one before."""
JOB_TTL: Final = 300.0
UNSCHEDULABLE_SECONDS: Final = 60.0


@dataclass(slots=True)
class SimulatedPod:
    """A pod that runs; its slot stays the same when a replacement takes its place."""

    uid: str
    workload: Workload
    slot: int
    node: str
    created: float
    ready_at: float

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return (self.workload.namespace, self.uid)


@dataclass(slots=True)
class SimulatedJob:
    """A migration."""

    name: str
    pod: SimulatedPod
    receivers: frozenset[str] | None
    created: float
    place_at: float
    node: str = ""
    """The node that holds the place."""
    replacement: SimulatedPod | None = None
    phase: str = "Running"
    ended: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether the job has ended."""
        return self.phase in {"Succeeded", "Failed"}


@dataclass(slots=True)
class Report:
    """The last NodeMetric of a node."""

    at: float
    use: dict[str, int]
    """Pod → milli-CPUs."""


@dataclass
class SimulatedCluster:
    """The cluster of a history."""

    scenario: Scenario
    now: float = 0.0
    pods: dict[str, SimulatedPod] = field(default_factory=dict)
    jobs: list[SimulatedJob] = field(default_factory=list)
    reports: dict[str, Report] = field(default_factory=dict)
    evictions: list[tuple[float, str, int]] = field(default_factory=list)
    """Times, workloads and slots."""
    effects: Counter[str] = field(default_factory=Counter)
    forgets: list[float] = field(default_factory=list)
    """When the descheduler forgot."""

    def __post_init__(self) -> None:
        self._random = Random(self.scenario.seed)
        self.capacity = {node.name: node.cpus * 1000 for node in self.scenario.nodes}
        self.replicas = {workload.name: workload.replicas for workload in self.scenario.workloads}
        self._made = 0
        self._spikes: list[tuple[float, str, int]] = []
        self._silent: dict[str, float] = {}
        self._down: dict[str, float] = {}
        self._failing_until = 0.0
        self._used: dict[str, Counter[str]] = {name: Counter() for name in self.capacity}
        self._ticks: dict[str, int] = dict.fromkeys(self.capacity, 0)
        self._report_at = {name: self._random.uniform(0.0, REPORT_SECONDS) for name in self.capacity}
        for workload in self.scenario.workloads:
            for slot in range(workload.replicas):
                node = self._random.choice(sorted(self.capacity))
                if self.requested(node) + workload.requests <= self.capacity[node]:
                    self._start(workload, slot, node, ready=0.0)

    # What is true now

    def requested(self, node: str) -> int:
        """Return the requests on a node, those of places that are held included."""
        held = sum(job.pod.workload.requests for job in self.unfinished if job.node == node and job.replacement is None)
        return held + sum(pod.workload.requests for pod in self.pods.values() if pod.node == node)

    @property
    def unfinished(self) -> list[SimulatedJob]:
        """The jobs that have not ended."""
        return [job for job in self.jobs if not job.is_over]

    def is_ready(self, node: str) -> bool:
        """Return whether a node is ready."""
        return self._down.get(node, 0.0) <= self.now

    def is_healthy(self, pod: SimulatedPod) -> bool:
        """Return whether a pod is ready."""
        return pod.ready_at <= self.now and self.is_ready(pod.node)

    def healthy(self, workload: Workload) -> int:
        """Return the number of ready pods of a workload."""
        return sum(self.is_healthy(pod) for pod in self.pods.values() if pod.workload.name == workload.name)

    def use(self, pod: SimulatedPod) -> int:
        """Return the milli-CPUs that a pod uses now."""
        percents = [percent for until, name, percent in self._spikes if name == pod.workload.name and until > self.now]
        return pod.workload.use * (percents[-1] if percents else 100) // 100

    # Time

    def tick(self) -> list[str]:
        """Let five seconds pass; return the nodes that have reported."""
        self.now += TICK
        for pod in self.pods.values():
            self._used[pod.node][pod.uid] += self.use(pod)
        for name in self._ticks:
            self._ticks[name] += 1
        for job in self.unfinished:
            self._go_on(job)
        return [name for name in sorted(self._report_at) if self._report_at[name] <= self.now and self._report(name)]

    def apply(self, operation: Operation) -> bool:
        """Let an operation happen; return whether it has an effect."""
        match operation:
            case Spike(_, workload, percent, seconds):
                self._spikes.append((self.now + seconds, workload, percent))
            case StopAgent(_, node, seconds):
                self._silent[node] = self.now + seconds
            case StopNode(_, node, seconds):
                self._down[node] = self.now + seconds
            case FailMigrations(_, seconds):
                self._failing_until = self.now + seconds
            case RestartDescheduler():
                self.forgets.append(self.now)
            case Scale(_, workload, replicas):
                self._scale(workload, replicas)
        return True

    def create_job(self, uid: str, receivers: frozenset[str] | None) -> None:
        """Begin a migration."""
        pod = self.pods[uid]
        place_at = self.now + self._random.uniform(2.0, 20.0)
        self.jobs.append(SimulatedJob(f"job-{uid}", pod, receivers, self.now, place_at))

    def _go_on(self, job: SimulatedJob) -> None:
        if job.replacement is not None:
            if self.is_healthy(job.replacement) or job.replacement.uid not in self.pods:
                self._end(job, "Succeeded")
        elif self.now > job.created + JOB_TTL or job.pod.uid not in self.pods:
            self._end(job, "Failed")
        elif not job.node and job.place_at <= self.now:
            job.node = self._place(job)
            if not job.node and self.now > job.place_at + UNSCHEDULABLE_SECONDS:
                self._end(job, "Failed")
        elif job.node and self._may_evict(job.pod):
            self._evict(job)

    def _place(self, job: SimulatedJob) -> str:
        """Return the node that kube-scheduler chooses for the Reservation; empty if none has room."""
        if self._failing_until > self.now:
            return ""
        names = [name for name in self.capacity if name != job.pod.node and self.is_ready(name)]
        names = [name for name in names if job.receivers is None or name in job.receivers]
        free = {name: self.capacity[name] - self.requested(name) for name in names}
        fitting = [name for name in names if free[name] >= job.pod.workload.requests]
        return max(fitting, key=lambda name: (free[name], name), default="")

    def _may_evict(self, pod: SimulatedPod) -> bool:
        """Return whether the eviction API allows an eviction."""
        least = pod.workload.min_available
        return least is None or not self.is_healthy(pod) or self.healthy(pod.workload) > least

    def _evict(self, job: SimulatedJob) -> None:
        pod = self.pods.pop(job.pod.uid)
        self._used[pod.node].pop(pod.uid, None)
        self.evictions.append((self.now, pod.workload.name, pod.slot))
        self.effects["migrated"] += 1
        ready = self.now + self._random.uniform(5.0, 40.0)
        job.replacement = self._start(pod.workload, pod.slot, job.node, ready=ready)

    def _end(self, job: SimulatedJob, phase: str) -> None:
        job.phase, job.ended = phase, self.now
        self.effects[phase.lower()] += 1

    def _start(self, workload: Workload, slot: int, node: str, *, ready: float) -> SimulatedPod:
        self._made += 1
        pod = SimulatedPod(f"{workload.name}-{self._made}", workload, slot, node, self.now, ready)
        self.pods[pod.uid] = pod
        return pod

    def _scale(self, name: str, replicas: int) -> None:
        workload = next(each for each in self.scenario.workloads if each.name == name)
        own = sorted((pod for pod in self.pods.values() if pod.workload.name == name), key=lambda pod: pod.slot)
        for pod in own[replicas:]:
            del self.pods[pod.uid]
        taken = {pod.slot for pod in own[:replicas]}
        for slot in sorted(set(range(replicas)) - taken):
            free = {node: self.capacity[node] - self.requested(node) for node in self.capacity if self.is_ready(node)}
            node = max(free, key=lambda host: (free[host], host), default="")
            if node and free[node] >= workload.requests:
                self._start(workload, slot, node, ready=self.now + 10.0)
        self.replicas[name] = replicas

    def _report(self, name: str) -> bool:
        """Write the NodeMetric of a node, unless its agent is silent."""
        self._report_at[name] = self.now + REPORT_SECONDS
        used, ticks = self._used[name], max(1, self._ticks[name])
        self._used[name], self._ticks[name] = Counter(), 0
        if self._silent.get(name, 0.0) > self.now or not self.is_ready(name):
            return False
        self.reports[name] = Report(self.now, {uid: total // ticks for uid, total in used.items()})
        return True
