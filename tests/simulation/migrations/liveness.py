"""Liveness: once nothing fails any more, all jobs end, and nothing is left of jobs that failed."""

import asyncio
from typing import TYPE_CHECKING, Final

from dra.kube.resources import POD_MIGRATION_JOBS, PODS, REPLICA_SETS, RESERVATIONS
from tests.dra.engine.simulation.violation import Violation
from tests.simulation.migrations.operations import NODES
from tests.simulation.migrations.safety import ENDED, has_ended, reservation_of

if TYPE_CHECKING:
    from tests.simulation.migrations.cluster import MigratingCluster

POLL_SECONDS: Final = 15.0
LEFTOVER_SECONDS: Final = 45.0
"""Maximum seconds from the failure of a job to the deletion of its Reservation, while nothing fails."""

SETTLE_TIMEOUT: Final = 900.0
"""Seconds within which all jobs must have ended: longer than the default time to live, and the bind horizon."""


async def check_liveness(cluster: "MigratingCluster") -> None:
    """Let the cluster come to rest; raise Violation if a job does not end, or leaves something behind."""
    cluster.faults.set(())
    for process in cluster.processes.values():
        process.start()
    for node in cluster.all(NODES):
        await cluster.patch(NODES, "", node["metadata"]["name"], {"spec": {"unschedulable": None}})
    for job in cluster.all(POD_MIGRATION_JOBS):
        await cluster.patch(POD_MIGRATION_JOBS, "", job["metadata"]["name"], {"spec": {"paused": False}})
    cluster.note("nothing fails from now on")
    started = cluster.clock.now()
    leftovers: dict[str, float] = {}
    while problem := unmet_expectation(cluster):
        _check_leftovers(cluster, leftovers)
        if cluster.clock.now() - started > SETTLE_TIMEOUT:
            raise Violation(problem)
        await asyncio.sleep(POLL_SECONDS)


def _check_leftovers(cluster: "MigratingCluster", since: dict[str, float]) -> None:
    """Raise Violation for a Reservation that a failed job has left for too long; `since` has the first sights."""
    jobs = {job["metadata"]["uid"]: job for job in cluster.all(POD_MIGRATION_JOBS)}
    found = set()
    taken_over = {reservation_of(job) for uid, job in jobs.items() if reservation_of(job) != uid and not has_ended(job)}
    for reservation in cluster.all(RESERVATIONS):
        name, status = reservation["metadata"]["name"], reservation.get("status") or {}
        job = jobs.get(name)
        if job is None or name in taken_over:
            continue
        if (job.get("status") or {}).get("phase") != "Failed" or status.get("phase") in ENDED:
            continue
        found.add(name)
        if cluster.clock.now() - since.setdefault(name, cluster.clock.now()) > LEFTOVER_SECONDS:
            raise Violation(f"Reservation {name}: job {job['metadata']['name']} failed, and left the Reservation")
    for name in since.keys() - found:
        del since[name]


def unmet_expectation(cluster: "MigratingCluster") -> str:
    """Return one expectation that is not met yet; empty if all are met."""
    jobs = {job["metadata"]["uid"]: job for job in cluster.all(POD_MIGRATION_JOBS)}
    for job in jobs.values():
        status = job.get("status") or {}
        if status.get("phase") not in ENDED:
            return f"job {job['metadata']['name']}: has not ended: {status}"
        if status["phase"] == "Succeeded" and job["spec"].get("mode") != "EvictDirectly":
            reference = status.get("podRef") or {}
            if not reference.get("name"):
                return f"job {job['metadata']['name']}: succeeded without a new pod"
    for reservation in cluster.all(RESERVATIONS):
        name, phase = reservation["metadata"]["name"], (reservation.get("status") or {}).get("phase")
        job = jobs.get(name)
        if phase in ENDED:
            continue
        if job is None:
            return f"Reservation {name}: its job is gone, and it still holds capacity"
        if job["status"]["phase"] == "Failed":
            return f"Reservation {name}: its job failed, and it still holds capacity"
    return _unsatisfied_replicas(cluster)


def _unsatisfied_replicas(cluster: "MigratingCluster") -> str:
    """Return a ReplicaSet that lacks pods."""
    for each in cluster.all(REPLICA_SETS):
        found = [
            pod
            for pod in cluster.all(PODS)
            if any(owner["uid"] == each["metadata"]["uid"] for owner in pod["metadata"].get("ownerReferences") or ())
            and pod["metadata"].get("deletionTimestamp") is None
        ]
        if len(found) < each["spec"]["replicas"]:
            return f"replicaset {each['metadata']['name']}: has {len(found)} of {each['spec']['replicas']} pods"
    return ""
