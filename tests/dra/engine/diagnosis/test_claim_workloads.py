"""Workloads are summed from their claims; a deleted workload is none."""

import pytest

from dra.engine.claims.view import WorkloadPhase
from dra.engine.diagnosis import claims
from dra.engine.diagnosis.claim_workloads import claim_workloads, controller_of
from dra.engine.diagnosis.cluster_state import ClusterState
from tests.dra.engine.diagnosis.cluster_states import JOB, claim, entry, pod, snapshot, workload

FOR_TRAIN = {"annotations": {"reserve.dra/reserved-for": "jobs.batch/train"}}


def summed(*given, pods=(), workloads=()):
    cluster = ClusterState(snapshot(*given, pods=pods, workloads=workloads))
    diagnoses = [claims.explain(cluster, candidate.metadata.key) for candidate in cluster.snapshot.claims]
    users = {("ml", "a"): frozenset({"u1", "u2"}), ("ml", "b"): frozenset({"u2"})}
    return [*claim_workloads(diagnoses, users=lambda key: users.get(key, frozenset()))]


def test_a_pod_with_two_claims_of_a_workload_counts_once():
    held = [claim(name, f"n1/gpu-{name}", listed=(JOB, entry("p")), **FOR_TRAIN) for name in ("a", "b")]
    [row] = summed(*held, workloads=(workload(WorkloadPhase.PRESENT),))
    assert (row.namespace, row.reference, row.claims, row.devices, row.pods) == ("ml", "jobs.batch/train", 2, 2, 2)


def test_a_claim_that_a_reservation_keeps_is_the_reservations():
    keeps = {"apiGroup": "scheduling.koordinator.sh", "resource": "reservations", "name": "night", "uid": "uid-r"}
    kept = claim("a", "n1/gpu-0", listed=(keeps,))
    gone = claim("b", "n1/gpu-1", listed=(keeps, JOB), **FOR_TRAIN)
    [row] = summed(kept, gone, workloads=(workload(WorkloadPhase.ABSENT),))
    assert (row.reference, row.claims, row.devices) == ("reservation/night", 2, 2)


@pytest.mark.parametrize(
    ("phase", "reference"),
    [
        (WorkloadPhase.PRESENT, "jobs.batch/train"),
        (WorkloadPhase.FINISHED, "jobs.batch/train"),
        (WorkloadPhase.ABSENT, ""),
    ],
)
def test_what_is_left_of_a_deleted_workload_is_claims_without_a_workload(phase, reference):
    left = claim("a", "n1/gpu-0", listed=(JOB,), **FOR_TRAIN)
    [row] = summed(left, workloads=(workload(phase),))
    assert (row.reference, row.claims, row.devices) == (reference, 1, 1)


def test_the_worst_grade_is_that_of_the_workload():
    left = claim("b", "n1/gpu-1")
    [row] = summed(claim("a"), left, pods=(pod("p", "a"),))
    assert (row.grade, row.waiting) == ("leak", 1)


def test_a_workload_that_no_claim_names_is_unknown():
    taken = snapshot(workloads=(workload(WorkloadPhase.PRESENT),))
    assert controller_of(taken, "ml", reference="jobs.batch/other") is None
    assert controller_of(taken, "other", reference="jobs.batch/train") is None
    assert controller_of(taken, "ml", reference="jobs.batch/train").kind == "Job"
