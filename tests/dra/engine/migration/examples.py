"""Jobs, pods and budgets for tests of arbitration, in few words."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import msgspec

from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.api.migration.model import parse_pod_migration_job
from dra.engine.migration.arbitration import ArbitrationView
from dra.engine.migration.pod_index import PodIndex, workload_of
from dra.engine.migration.view import MigrationPod
from dra.model.preemption import PodDisruptionBudget

NOON = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)
NOW = NOON.timestamp()
READY = [{"type": "Ready", "status": "True"}]


def at(seconds):
    return (NOON + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(name, *, node="n1", owner="web", kind="ReplicaSet", ready=True, created=0, labels=None, **more):
    """Return a pod; `more` has fields of its metadata, spec or status."""
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "creationTimestamp": at(created)}
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": f"uid-of-{owner}", "controller": True}
        ]
    metadata |= {"labels": labels or {}, **more.pop("metadata", {})}
    spec = {"nodeName": node, **more.pop("spec", {})}
    status = {"phase": "Running", "conditions": READY if ready else [], **more.pop("status", {})}
    assert not more
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, MigrationPod)


def job(
    name,
    *,
    of=None,
    created=0,
    passed=False,
    evicted=None,
    phase="",
    by="",
    paused=False,
    mode="",
    labels=None,
    namespace="ns",
):
    """Return a job for the pod `of` (default: the pod of the same name)."""
    annotations = {"descheduler.koordinator.sh/passed-arbitration": "true"} if passed else {}
    if evicted is not None:
        annotations["reserve.dra/migrated-workload"] = "uid-of-web"
    if by:
        annotations["koordinator.sh/job-created-by"] = by
    conditions = (
        [{"type": "Eviction", "status": "True", "lastTransitionTime": at(evicted)}] if evicted is not None else []
    )
    return parse_pod_migration_job(
        {
            "metadata": {
                "name": name,
                "uid": f"job-{name}",
                "creationTimestamp": at(created),
                "annotations": annotations,
                "labels": labels or {},
            },
            "spec": {"podRef": {"namespace": namespace, "name": of or name}, "paused": paused, "mode": mode},
            "status": {"phase": phase, "conditions": conditions},
        }
    )


def budget(
    name, *, allowed, app="web", generation=1, observed=1, policy="", healthy=3, desired=2, selector=None, disrupted=()
):
    """Return a PodDisruptionBudget of the pods with label app; `disrupted` are names of pods."""
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "ns", "generation": generation},
            "spec": {
                "selector": {"matchLabels": {"app": app}} if selector is None else selector,
                "unhealthyPodEvictionPolicy": policy,
            },
            "status": {
                "observedGeneration": observed,
                "disruptionsAllowed": allowed,
                "currentHealthy": healthy,
                "desiredHealthy": desired,
                "disruptedPods": dict.fromkeys(disrupted, at(0)),
            },
        },
        PodDisruptionBudget,
    )


def view(jobs, pods, *, replicas=None, unread=(), **budgets):
    """Return everything that arbitration reads.

    Workloads want `replicas` by their names, or as many as they have pods; of `unread` ones nothing is known.
    """
    pods = list(pods)
    owners = [workload for each in pods if (workload := workload_of(each)) is not None and not each.terminal]
    wanted = dict(Counter(owners)) | {
        each: 0 for each in map(workload_of, pods) if each is not None and each not in owners
    }
    known = {each: (replicas or {}).get(each.name, count) for each, count in wanted.items() if each.name not in unread}
    return ArbitrationView(jobs=tuple(jobs), pods=PodIndex(pods), replicas=known, **budgets)


def limits(**given):
    """Return limits: none, unless given."""
    none = {
        "maxMigratingPerNode": None,
        "maxMigratingPerWorkload": "100%",
        "maxUnavailablePerWorkload": "100%",
        "objectLimiters": {"workload": {"duration": "0s"}},
        "skipCheckExpectedReplicas": True,
    }
    return MigrationControllerArgs.model_validate(none | given)
