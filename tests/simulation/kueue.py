"""A queue that admits pods and Jobs by quota, evicts and requeues them: Kueue, and Volcano's gate beside it.

Plays what their sources have, and no more. Kueue's webhook puts gates and a finalizer on pods when these are created,
and suspends Jobs; admission is one strict merge patch for each pod, with the whole list of gates that stay, and a 409
means another try from a new read; eviction is a condition and a deletion; pods are never gated again. A Job is evicted
by three writes, and comes back after a backoff. Pods of a group keep the finalizer when they are dead, until others
replace them. Volcano takes its gate off a pod that has no other gate.

Quota is counted in pods. Kueue sees no claims here, which is how versions up to 0.17 were configured for pods that
share a claim; later ones admit no such pod. Node selectors of flavors and topologies are left out.
"""

import asyncio
import math
from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Any, Final

from dra.kube.resources import JOBS, PODS
from dra.model.meta import Key, Uid
from dra.model.pods import Pod
from localplane.objects import Object

if TYPE_CHECKING:
    from tests.simulation.simulated_cluster import SimulatedSystem

KUEUE: Final = "kueue"
VOLCANO: Final = "volcano"

MANAGED: Final = "kueue.x-k8s.io/managed"
QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"
GROUP_NAME: Final = "kueue.x-k8s.io/pod-group-name"
GROUP_COUNT: Final = "kueue.x-k8s.io/pod-group-total-count"
ADMISSION_GATE: Final = "kueue.x-k8s.io/admission"
TOPOLOGY_GATE: Final = "kueue.x-k8s.io/topology"
VOLCANO_GATE: Final = "scheduling.volcano.sh/queue-allocation-gate"

OWNERS: Final = {ADMISSION_GATE: KUEUE, TOPOLOGY_GATE: KUEUE, VOLCANO_GATE: VOLCANO}
"""Who alone takes a gate off a pod."""

SYNC_SECONDS: Final = 1.0
"""Seconds between two looks; the topology ungater batches for as long."""

PATCH_LATENCY: Final = 0.3
"""Seconds from a read to the patch that rests on it, at most: others write meanwhile."""

PODS_ADMITTED: Final = "Kueue admits pods"
JOB_RESUMED: Final = "Kueue resumes a Job"
CONFLICT: Final = "Kueue tries again after a conflict"
VOLCANO_ADMITTED: Final = "Volcano admits a pod"
EFFECTS: Final = (PODS_ADMITTED, JOB_RESUMED, VOLCANO_ADMITTED)
"""As what the work of both is counted, beside operations; conflicts are luck."""


def queued_pod(body: Object, *, group: str, count: int, topology: bool) -> Object:
    """Return a pod as the webhook leaves it; ``group`` may be empty."""
    meta, spec = body["metadata"], body["spec"]
    labels, annotations = {QUEUE_NAME: "gpus", MANAGED: "true"}, dict(meta.get("annotations", {}))
    if group:
        labels[GROUP_NAME], annotations[GROUP_COUNT] = group, str(count)
    gates = [{"name": gate} for gate in (ADMISSION_GATE, TOPOLOGY_GATE)[: 1 + topology]]
    return {
        "metadata": {**meta, "labels": labels, "annotations": annotations, "finalizers": [MANAGED]},
        "spec": {**spec, "schedulingGates": [*spec.get("schedulingGates", ()), *gates]},
    }


def queue_job(body: Object, *, topology: bool) -> None:
    """Do what the webhook does to a Job; with ``topology``, pods get a second gate once the Job is admitted."""
    body["metadata"]["labels"] = {QUEUE_NAME: "gpus"}
    if topology:
        body["metadata"]["annotations"] = {TOPOLOGY_GATE: "required"}
    body["spec"]["suspend"] = True


class Kueue:
    """The queue of a cluster, and Volcano's controller of its gate."""

    def __init__(self, system: "SimulatedSystem", *, quota: int, backoff: float, seed: int) -> None:
        self.quota: float = quota
        """Pods that are admitted at a time."""
        self.is_closing = False
        """Whether people delete the Workloads: finalizers go then."""
        self._system = system
        self._backoff = backoff
        self._random = Random(f"{seed}, queue")
        self._requeued_at: dict[Uid, float] = {}

    async def run(self) -> None:
        """Reconcile for ever."""
        while True:
            await asyncio.sleep(SYNC_SECONDS)
            await self.sync()

    def lift_quota(self) -> None:
        """Let everybody in from now on."""
        self.quota = math.inf

    @property
    def unfinished_work(self) -> str:
        """What the queue is about to do; empty if nothing."""
        suspended = [key for key, job in self._jobs() if job["spec"].get("suspend") and _is_unfinished(job)]
        return f"job {'/'.join(suspended[0])} is suspended" if suspended and self.quota == math.inf else ""

    async def sync(self) -> None:
        """Look once at all pods and Jobs."""
        queued = [pod for pod in self._system.safety.pods.values() if _is_managed(pod)]
        await self._remove_finalizers(queued)
        for workload in _workloads(queued):
            await self._admit(workload)
        for pod in queued:
            gates = pod.gates
            if TOPOLOGY_GATE in gates and ADMISSION_GATE not in gates:
                await self._remove_gate(pod.metadata.key, TOPOLOGY_GATE)
        for key, job in self._jobs():
            if job["spec"].get("suspend") and _is_unfinished(job):
                await self._resume(key, job)
        for key, pod in tuple(self._system.safety.pods.items()):
            if TOPOLOGY_GATE in pod.gates and not _is_managed(pod):  # a pod of a Job
                await self._remove_gate(key, TOPOLOGY_GATE)
            if pod.gates == (VOLCANO_GATE,):
                body = {"metadata": {"uid": pod.metadata.uid}, "spec": {"schedulingGates": None}}
                if await self._system.patch(PODS, *key, body, actor=VOLCANO):
                    self._system.effects[VOLCANO_ADMITTED] += 1

    # Pods:

    async def _admit(self, workload: list[Pod]) -> None:
        """Admit all pods of a workload, if there is quota for them, or others of it are admitted."""
        gated = [pod for pod in workload if ADMISSION_GATE in pod.gates and not pod.metadata.deleting]
        live = [pod for pod in workload if not _is_dead(pod)]
        if not gated or (len(live) == len(gated) and self._used() + len(gated) > self.quota):
            return
        self._random.shuffle(gated)
        for pod in gated:
            if await self._remove_gate(pod.metadata.key, ADMISSION_GATE):
                self._system.effects[PODS_ADMITTED] += 1

    async def _remove_gate(self, key: Key, gate: str) -> bool:
        """Take a gate off a pod as it was read, with a list of those that stay."""
        found = self._system.find(PODS, *key)
        if found is None:
            return False
        await asyncio.sleep(self._random.uniform(0.0, PATCH_LATENCY))
        gates = [each for each in found["spec"].get("schedulingGates", ()) if each["name"] != gate]
        version = {"resourceVersion": found["metadata"]["resourceVersion"], "uid": found["metadata"]["uid"]}
        body = {"metadata": version, "spec": {"schedulingGates": gates or None}}
        if await self._system.patch(PODS, *key, body, actor=KUEUE):
            return True
        self._system.effects[CONFLICT] += 1
        return False

    async def _remove_finalizers(self, queued: list[Pod]) -> None:
        for workload in _workloads(queued):
            dead = [pod for pod in workload if _is_dead(pod) and pod.status.phase != "Succeeded"]
            if not (self.is_closing or _is_single(workload[0]) or _is_over(workload)):
                dead = dead[: max(len(workload) - _count(workload[0]), 0)]  # only those that others have replaced
            for pod in workload if self.is_closing or _is_over(workload) else dead:
                if pod.metadata.deleting:
                    await self._remove_finalizer(pod.metadata.key)

    async def _remove_finalizer(self, key: Key) -> None:
        found = self._system.find(PODS, *key)
        kept = [each for each in (found or {}).get("metadata", {}).get("finalizers", ()) if each != MANAGED]
        await self._system.patch(PODS, *key, {"metadata": {"finalizers": kept or None}}, actor=KUEUE)

    async def evict_pods(self, namespace: str, name: str) -> bool:
        """Evict the workload of a pod: those of its pods that are admitted and have not ended."""
        evicted = self._system.safety.pods.get((namespace, name))
        if evicted is None or not _is_managed(evicted):
            return False
        done = False
        for pod in tuple(self._system.safety.pods.values()):
            if _workload_key(pod) != _workload_key(evicted) or not _is_managed(pod):
                continue
            if _is_dead(pod) or ADMISSION_GATE in pod.gates:
                continue
            conditions = _eviction_conditions(self._system.find(PODS, *pod.metadata.key))
            body = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": conditions}}
            if not await self._system.patch(PODS, *pod.metadata.key, body, "status", actor=KUEUE):
                continue
            done |= await self._system.delete(PODS, *pod.metadata.key, actor=KUEUE)
        return done

    # Jobs:

    def _jobs(self) -> list[tuple[Key, Object]]:
        keys = [(each.key.namespace, each.key.name) for each in self._system.all(JOBS)]
        found = [(key, job) for key in keys if (job := self._system.find(JOBS, *key)) is not None]
        return [(key, job) for key, job in found if QUEUE_NAME in job["metadata"].get("labels", {})]

    async def _resume(self, key: Key, job: Object) -> None:
        """Start a Job by one strict patch, if its backoff is over and there is quota."""
        meta, spec = job["metadata"], job["spec"]
        if self._system.clock.now() < self._requeued_at.get(meta["uid"], 0.0):
            return
        if self._used() + spec["parallelism"] > self.quota or job.get("status", {}).get("active"):
            return
        await asyncio.sleep(self._random.uniform(0.0, PATCH_LATENCY))
        changed: Object = {"suspend": False}
        if meta.get("annotations", {}).get(TOPOLOGY_GATE) and not job.get("status", {}).get("startTime"):
            gates = spec["template"]["spec"].get("schedulingGates", [])
            others = [gate for gate in gates if gate["name"] != TOPOLOGY_GATE]
            changed["template"] = {"spec": {"schedulingGates": [*others, {"name": TOPOLOGY_GATE}]}}
        body = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "spec": changed}
        done = await self._system.patch(JOBS, *key, body, actor=KUEUE)
        self._system.effects[JOB_RESUMED if done else CONFLICT] += 1

    async def evict_job(self, namespace: str, name: str) -> bool:
        """Suspend a Job, forget when it started, and put its template back: three writes."""
        found = self._system.find(JOBS, namespace, name)
        if found is None or found["spec"].get("suspend") or not _is_unfinished(found):
            return False
        if QUEUE_NAME not in found["metadata"].get("labels", {}):
            return False
        self._requeued_at[found["metadata"]["uid"]] = self._system.clock.now() + self._backoff
        gates = found["spec"]["template"]["spec"].get("schedulingGates", [])
        kept = [gate for gate in gates if gate["name"] != TOPOLOGY_GATE]
        await self._system.patch(JOBS, namespace, name, {"spec": {"suspend": True}}, actor=KUEUE)
        await asyncio.sleep(self._random.uniform(0.0, PATCH_LATENCY))
        await self._system.patch(JOBS, namespace, name, {"status": {"startTime": None}}, "status", actor=KUEUE)
        await asyncio.sleep(self._random.uniform(0.0, PATCH_LATENCY))
        if kept != gates:
            body = {"spec": {"template": {"spec": {"schedulingGates": kept or None}}}}
            await self._system.patch(JOBS, namespace, name, body, actor=KUEUE)
        return True

    def _used(self) -> int:
        """Return how many pods hold quota."""
        pods = (pod for pod in self._system.safety.pods.values() if _is_managed(pod))
        specs = (job["spec"] for _, job in self._jobs() if _is_unfinished(job))
        of_jobs = sum(int(spec["parallelism"]) for spec in specs if not spec.get("suspend"))
        return of_jobs + sum(map(_holds_quota, pods))


def is_held(pod: Pod) -> bool:
    """Whether a dead pod is there only because its group keeps it: nothing of it can run any more."""
    return pod.metadata.deleting and MANAGED in (pod.metadata.finalizers or ()) and not pod.spec.node_name


def _is_managed(pod: Pod) -> bool:
    return MANAGED in (pod.metadata.labels or {})


def _is_single(pod: Pod) -> bool:
    return GROUP_NAME not in (pod.metadata.labels or {})


def _count(pod: Pod) -> int:
    return int((pod.metadata.annotations or {}).get(GROUP_COUNT, 1))


def _workload_key(pod: Pod) -> tuple[str, str]:
    labels = pod.metadata.labels or {}
    return pod.metadata.namespace, labels.get(GROUP_NAME, f"pod {pod.metadata.name}")


def _workloads(pods: Iterable[Pod]) -> list[list[Pod]]:
    found: dict[tuple[str, str], list[Pod]] = {}
    for pod in pods:
        found.setdefault(_workload_key(pod), []).append(pod)
    return list(found.values())


def _is_dead(pod: Pod) -> bool:
    return pod.terminal or pod.metadata.deleting


def _is_over(workload: list[Pod]) -> bool:
    return sum(pod.status.phase == "Succeeded" for pod in workload) >= _count(workload[0])


def _holds_quota(pod: Pod) -> bool:
    """Whether a pod counts: of those under deletion only pods that run do (``IsActive``)."""
    running = pod.status.phase == "Running"
    return ADMISSION_GATE not in pod.gates and not pod.terminal and (running or not pod.metadata.deleting)


def _is_unfinished(job: Object) -> bool:
    conditions = job.get("status", {}).get("conditions", ())
    finished = any(c["type"] in {"Complete", "Failed"} and c["status"] == "True" for c in conditions)
    return not finished and "deletionTimestamp" not in job["metadata"]


def _eviction_conditions(pod: Object | None) -> list[dict[str, Any]]:
    others = [c for c in (pod or {}).get("status", {}).get("conditions", []) if c["type"] != "TerminationTarget"]
    return [*others, {"type": "TerminationTarget", "status": "True", "reason": "WorkloadEvictedDueToPreempted"}]
