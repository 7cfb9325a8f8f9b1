"""Pods that name the controller of another tenant's pods: neither limits nor exchanges follow what they say.

The API server checks no owner reference, and keeps pods whose owner is of a kind that it does not serve.
"""

import msgspec
import pytest

from dra.engine.migration.arbitration import ArbitrationView, arbitrate, workloads_to_read
from dra.engine.migration.pod_index import PodIndex, workload_key
from dra.engine.migration.reasons import MigrationReason
from tests.dra.engine.migration.examples import NOW, job, limits, pod, view

WAITS = MigrationReason.MAX_MIGRATING_PER_WORKLOAD
DEFAULTS = {"maxMigratingPerWorkload": None, "maxUnavailablePerWorkload": None}


def forged(name, *, namespace="evil", kind="Foo", ready=True, api_version="none.example.com/v1", workload="web"):
    """Return a pod whose controller has the uid of the ReplicaSet `web` in namespace ns."""
    reference = {"apiVersion": api_version, "kind": kind, "name": workload, "uid": "uid-of-web", "controller": True}
    return pod(name, node="n9", ready=ready, metadata={"namespace": namespace, "ownerReferences": [reference]})


def of_victim(*, jobs=("a",), pods="abcdef", others=(), replicas=6, more=()):
    """Return the ReplicaSet `web` with jobs for its pods, and what others bring; the foreign owner cannot be read."""
    wanted = [job(each) for each in jobs]
    found = [pod(each, node=f"n-{each}") for each in pods]
    (owner,) = (found[0].metadata.owner_references or ())[:1]
    known = {workload_key(owner, namespace="ns"): replicas}
    return ArbitrationView(jobs=(*wanted, *more), pods=PodIndex([*found, *others]), replicas=known)


def reasons(found, args=None):
    return {each.job: each.reason for each in arbitrate(found, args=args or limits(**DEFAULTS), now=NOW)}


LIKE_THE_REAL_ONE = {"kind": "ReplicaSet", "api_version": "apps/v1"}


@pytest.mark.parametrize("reference", [{}, LIKE_THE_REAL_ONE], ids=["of-no-kind", "as-in-the-victims-pods"])
def test_pods_that_are_not_ready_elsewhere_block_no_migration(reference):
    others = [forged(f"e{each}", ready=False, **reference) for each in range(9)]
    assert reasons(of_victim(others=others)) == {"a": None}


@pytest.mark.parametrize("reference", [{}, LIKE_THE_REAL_ONE], ids=["of-no-kind", "as-in-the-victims-pods"])
def test_migrations_elsewhere_block_no_migration(reference):
    others = [forged(f"e{each}", **reference) for each in range(9)]
    begun = [job(f"e{each}", namespace="evil", passed=True) for each in range(9)]
    evicted = [job(f"g{each}", namespace="evil", evicted=0, passed=True, phase="Running") for each in range(9)]
    args = limits(**DEFAULTS, objectLimiters={"workload": {"duration": "60s"}})
    assert reasons(of_victim(others=others, more=(*begun, *evicted)), args) == {"a": None}


@pytest.mark.parametrize("reference", [{}, LIKE_THE_REAL_ONE], ids=["of-no-kind", "as-in-the-victims-pods"])
def test_ready_pods_elsewhere_lift_no_limit(reference):
    others = [forged(f"e{each}", **reference) for each in range(70)]
    waits = job("e0", namespace="evil", paused=True)
    wanted = {"a": None, "b": None, **dict.fromkeys("cdef", WAITS)}
    assert reasons(of_victim(jobs="abcdef", others=others, more=(waits,))) == wanted
    unread = msgspec.structs.replace(of_victim(jobs="abcdef", others=others), replicas={})
    assert reasons(unread) == {"a": None, **dict.fromkeys("bcdef", WAITS)}


def test_another_kind_in_the_same_namespace_is_another_workload():
    others = [forged(f"e{each}", namespace="ns", ready=False) for each in range(9)]
    assert reasons(of_victim(others=others)) == {"a": None}


def test_of_a_workload_that_cannot_be_read_one_pod_may_be_away_whatever_the_limits():
    pods = [pod(each) for each in "abc"]
    found = view([job("a"), job("b")], pods, unread=["web"])
    (passed, waiting) = arbitrate(found, args=limits(maxMigratingPerWorkload=3), now=NOW)
    assert (passed.reason, waiting.reason) == (None, WAITS)
    assert waiting.message == (
        "ReplicaSet ns/web: 1 pod is migrating, the limit is 1, since its replicas are unknown "
        "(maxMigratingPerWorkload)"
    )
    evicted = job("old", of="gone", evicted=0, phase="Succeeded")
    args = limits(objectLimiters={"workload": {"duration": "60s", "maxMigrating": 3}})
    assert reasons(view([evicted, job("a")], pods, unread=["web"]), args) == {"a": MigrationReason.OBJECT_LIMITER}


def test_batch_jobs_of_one_uid_in_two_namespaces_are_two():
    """Jobs of a batch Job of which more pods are migrating go first: a forged uid joined another tenant's queue."""
    reference = {"kind": "Job", "api_version": "batch/v1", "workload": "web"}
    begun = [job(f"e{each}", namespace="evil", passed=True) for each in range(3)]
    others = [forged(f"e{each}", **reference) for each in range(3)]
    mine = [pod("z", node="n-z", kind="Job", owner="web", created=2), pod("y", node="n-y", owner="other", created=9)]
    found = view([*begun, job("z"), job("y")], [*others, *mine])
    assert list(reasons(found)) == ["y", "z"]


def test_each_controller_is_read_once_for_each_namespace():
    others = [forged("e", **LIKE_THE_REAL_ONE)]
    found = of_victim(others=others, more=(job("e", namespace="evil"),))
    assert {(each.name, namespace) for each, namespace in workloads_to_read(found)} == {("web", "ns"), ("web", "evil")}


def test_a_job_whose_pod_is_gone_counts_in_its_own_namespace():
    gone = job("g", of="gone", evicted=0, passed=True, phase="Running", namespace="evil")
    assert reasons(of_victim(more=(gone,)), limits(maxMigratingPerWorkload=1)) == {"a": None}
    own = job("g", of="gone", evicted=0, passed=True, phase="Running")
    assert reasons(of_victim(more=(own,)), limits(maxMigratingPerWorkload=1)) == {"a": WAITS}
