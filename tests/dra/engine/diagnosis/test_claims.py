"""What is wrong with a claim: one table, a line for each trouble."""

import msgspec
import pytest

from dra.engine.claims.view import WorkloadPhase
from dra.engine.devices.ledger import DeviceID
from dra.engine.diagnosis import claims
from dra.engine.diagnosis.audit import audit
from dra.engine.diagnosis.cluster_state import AllocationHold, ClusterState
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.diagnosis.snapshot import ReferencedWorkload, UnreadResource
from dra.model.references import GroupResource
from tests.dra.engine.diagnosis.cluster_states import (
    DRIVER,
    JOB,
    SOMEBODY,
    claim,
    cluster_state,
    entry,
    node,
    offer,
    pod,
    workload,
)
from tests.violations import for_each_case

FOREIGN = {"apiGroup": "example.com", "resource": "widgets", "name": "dam", "uid": "uid-dam"}
LOST = {"apiGroup": "reserve.dra", "resource": "lostnodes", "name": "n1", "uid": "n1/"}
RESERVED = {"annotations": {"reserve.dra/reserved-for": "jobs.batch/train", "reserve.dra/reserved-for-uid": "uid-job"}}
LONG_AGO = "2026-11-20T11:00:00Z"
GOING = {"deletionTimestamp": LONG_AGO, "finalizers": ["resource.kubernetes.io/delete-protection"]}
MADE_FOR = {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "uid-a", "controller": True}]}
CANDIDATE = {"key": "DeletionCandidateOfClusterAutoscaler", "effect": "PreferNoSchedule"}
GENERATED = {"annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"}}
RESERVED_FOR_ONE = {"annotations": RESERVED["annotations"] | GENERATED["annotations"]}
OVER = (workload(WorkloadPhase.FINISHED),)
THERE = (workload(WorkloadPhase.PRESENT),)
SUSPENDED = (msgspec.structs.replace(workload(WorkloadPhase.PRESENT), suspended=True),)
RUNS = {"on": "n1", "phase": "Running", "started": True}
UNSCHEDULABLE = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
OF_JOB = {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "controller": True}]}


def annotated(**values):
    return {"annotations": {f"reserve.dra/{key.replace('_', '-')}": value for key, value in values.items()}}


def when_suspended(value):
    return {"annotations": RESERVED["annotations"] | {"reserve.dra/when-suspended": value}}


@for_each_case(
    [
        pytest.param(
            cluster_state(claim("c", "n1/gpu-0", listed=(entry("a"),))), [ProblemCode.NOT_FREED], id="its-pod-is-gone"
        ),
        pytest.param(
            cluster_state(claim("c", "n1/gpu-0", listed=(entry("a"),)), leader=SOMEBODY),
            [ProblemCode.VANISHED],
            id="its-pod-is-gone-and-a-controller-waits",
        ),
        pytest.param(
            cluster_state(claim("c", "n1/gpu-0", listed=(entry("a"), FOREIGN))),
            [ProblemCode.KEPT_BY_OTHERS, ProblemCode.VANISHED],
            id="its-pod-is-gone-and-another-controller-keeps-it",
        ),
        pytest.param(
            cluster_state(
                claim(
                    "c",
                    "n1/gpu-0",
                    listed=(JOB, entry("a")),
                    **annotated(reserved_for="jobs.batch/train", reserved_for_uid="uid-of-no-job"),
                ),
                workloads=THERE,
            ),
            [ProblemCode.IN_DOUBT, ProblemCode.VANISHED],
            id="its-pod-is-gone-and-a-job-of-another-uid-is-listed",
        ),
        pytest.param(cluster_state(claim("c", "n1/gpu-0")), [ProblemCode.LEFT_OVER], id="an-allocation-left-behind"),
        pytest.param(
            cluster_state(claim("c", "n1/gpu-0", listed=(JOB,), **RESERVED), workloads=OVER),
            [ProblemCode.NOT_FREED],
            id="its-job-has-finished",
        ),
        pytest.param(
            cluster_state(
                claim("c", "n1/gpu-0", listed=(JOB,), **RESERVED), pods=(pod("a", "c", **RUNS),), workloads=OVER
            ),
            [ProblemCode.RELEASE_WAITS],
            id="its-job-has-finished-a-pod-has-not",
        ),
        pytest.param(
            cluster_state(claim("c", "n1/gpu-0", listed=(JOB,), **RESERVED), workloads=THERE),
            [ProblemCode.IDLE],
            id="reserved-and-idle",
        ),
        pytest.param(
            cluster_state(
                claim("c", "n1/gpu-0", listed=(entry("a"),), **RESERVED_FOR_ONE, **MADE_FOR),
                pods=(pod("a", "c", **RUNS),),
                workloads=THERE,
            ),
            [ProblemCode.RESERVATION_IGNORED],
            id="the-claim-of-one-pod-is-reserved-for-a-job",
        ),
        pytest.param(
            cluster_state(claim("c", "n1/gpu-0", listed=(JOB,), **RESERVED_FOR_ONE, **MADE_FOR), workloads=THERE),
            [ProblemCode.NOT_FREED],
            id="the-claim-of-a-pod-that-ended-was-entered-for-its-job-by-an-earlier-release",
        ),
        pytest.param(
            cluster_state(claim("c", "n1/gpu-0", listed=(JOB,), **RESERVED), workloads=SUSPENDED),
            [ProblemCode.KEPT_WHILE_SUSPENDED],
            id="reserved-for-a-suspended-job",
        ),
        pytest.param(
            cluster_state(
                claim("c", "n1/gpu-0", listed=(JOB,), **when_suspended("keep")),
                workloads=SUSPENDED,
            ),
            [ProblemCode.IDLE],
            id="reserved-for-a-suspended-job-on-purpose",
        ),
        pytest.param(
            cluster_state(
                claim("c", "n1/gpu-0", listed=(JOB,), **when_suspended("release")),
                workloads=SUSPENDED,
            ),
            [ProblemCode.NOT_FREED],
            id="released-while-its-job-is-suspended",
        ),
        pytest.param(
            cluster_state(
                claim("c", "n1/gpu-0", listed=(JOB,), **RESERVED),
                workloads=THERE,
                nodes=[node("n1", taints=(CANDIDATE,)), node("n2")],
            ),
            [ProblemCode.NODE_MAY_BE_DELETED, ProblemCode.IDLE],
            id="reserved-on-a-node-that-an-autoscaler-may-delete",
        ),
        pytest.param(
            cluster_state(
                claim("c", "n1/gpu-0", listed=(JOB,), **RESERVED),
                workloads=THERE,
                nodes=[node("n1", **{"karpenter.sh/nodepool": "default"})],
            ),
            [ProblemCode.NODE_MAY_BE_DELETED, ProblemCode.IDLE],
            id="reserved-on-a-node-of-a-node-pool",
        ),
        pytest.param(
            cluster_state(
                claim("c", "n1/gpu-0", listed=(JOB,), **RESERVED),
                pods=(pod("a", "c", **RUNS),),
                workloads=THERE,
                nodes=[node("n1", taints=(CANDIDATE,))],
                leader=SOMEBODY,
            ),
            [],
            id="a-pod-runs-on-a-node-that-an-autoscaler-may-delete",
        ),
        pytest.param(
            cluster_state(claim("c", "n1/gpu-0", listed=(FOREIGN,))),
            [ProblemCode.KEPT_BY_OTHERS],
            id="kept-by-an-entry-of-others",
        ),
        pytest.param(
            cluster_state(claim("c", "n1/gpu-0", listed=(LOST,)), nodes=[node("n1", ready=False), node("n2")]),
            [ProblemCode.NODE_LOST],
            id="kept-for-a-lost-node",
        ),
        pytest.param(
            cluster_state(
                claim("c", "n1/gpu-0"), claim("d", "n1/gpu-0", listed=(entry("a"),)), pods=(pod("a", "d", **RUNS),)
            ),
            [ProblemCode.HELD_TWICE, ProblemCode.LEFT_OVER],
            id="a-device-twice",
        ),
        pytest.param(
            cluster_state(claim("c"), pods=(pod("a", "c", **RUNS),)),
            [ProblemCode.ALLOCATION_LOST],
            id="allocation-lost",
        ),
        pytest.param(
            cluster_state(claim("c"), pods=(pod("a", "c", on="n1"),)),
            [ProblemCode.BOUND_WITHOUT_ALLOCATION],
            id="bound-before-the-claim-was-ever-allocated",
        ),
        pytest.param(
            cluster_state(
                claim("c", finalizers=["resource.kubernetes.io/delete-protection"]), pods=(pod("a", "c", on="n1"),)
            ),
            [ProblemCode.ALLOCATION_LOST],
            id="bound-and-only-a-finalizer-is-left-of-the-allocation",
        ),
        pytest.param(
            cluster_state(
                claim("c", "n1/gpu-0", listed=(entry("a"),)),
                pods=(pod("a", "c", **RUNS), pod("b", "c", on="n2")),
            ),
            [ProblemCode.OFF_ALLOCATION],
            id="a-pod-off-the-allocation",
        ),
        pytest.param(
            cluster_state(
                claim("c", "n1/gpu-0", listed=(entry("a"),)), pods=(pod("a", "c", **RUNS), pod("b", "c", on="n1"))
            ),
            [ProblemCode.UNLISTED],
            id="a-bound-pod-unlisted",
        ),
        pytest.param(
            cluster_state(claim("c", "n1/gpu-0"), pods=(pod("a", "c", **RUNS),)),
            [ProblemCode.UNGUARDED],
            id="used-behind-an-empty-list",
        ),
        pytest.param(
            cluster_state(claim("c", "n1/gpu-0", listed=(entry("a"),), **GOING), pods=(pod("a", "c", **RUNS),)),
            [ProblemCode.DELETION_WAITS],
            id="deletion-waits",
        ),
        pytest.param(cluster_state(claim("c", **GOING)), [ProblemCode.FINALIZER_LEFT], id="only-a-finalizer-is-left"),
        pytest.param(cluster_state(claim("c", **GENERATED)), [ProblemCode.OWNERLESS], id="generated-without-owner"),
        pytest.param(
            cluster_state(claim("c", **GENERATED), pods=(pod("a", "c"),)), [], id="generated-without-owner-and-named"
        ),
        pytest.param(cluster_state(claim("c", **GENERATED, **GOING)), [ProblemCode.FINALIZER_LEFT], id="ownerless"),
        pytest.param(
            cluster_state(claim("c", **annotated(reservedfor="jobs.batch/train"))),
            [ProblemCode.UNKNOWN_ANNOTATION],
            id="a-key-with-a-slip",
        ),
        pytest.param(
            cluster_state(claim("c", **(GOING | {"finalizers": ["example.com/hold"]}))),
            [ProblemCode.FINALIZER_FOREIGN],
            id="only-a-finalizer-of-others-is-left",
        ),
        pytest.param(
            cluster_state(
                claim("c", "n1/gpu-0", listed=(entry("a"),), **RESERVED),
                pods=(pod("a", "c", **RUNS),),
                workloads=THERE,
            ),
            [ProblemCode.NO_CONTROLLER],
            id="in-use-and-nobody-enters-the-workload",
        ),
        pytest.param(
            cluster_state(claim("c", **MADE_FOR)), [ProblemCode.ZOMBIE_CLAIM], id="made-for-a-pod-that-is-gone"
        ),
        pytest.param(
            cluster_state(claim("c", **annotated(entered_allocation="abc"))),
            [ProblemCode.MARKS_LEFT],
            id="notes-about-nothing",
        ),
        pytest.param(
            cluster_state(
                claim("c", "n1/gpu-0", listed=(entry("a"),), **annotated(reserved_for="the Job")),
                pods=(pod("a", "c", metadata=OF_JOB, **RUNS),),
            ),
            [ProblemCode.MALFORMED],
            id="a-reference-that-is-none",
        ),
        pytest.param(
            cluster_state(
                claim("c", "n1/gpu-0", listed=(entry("a"),), **RESERVED),
                pods=(pod("a", "c", **RUNS),),
                workloads=(workload(WorkloadPhase.PRESENT, uid="uid-next"),),
            ),
            [ProblemCode.WRONG_UID],
            id="the-uid-of-an-object-before",
        ),
        pytest.param(
            cluster_state(
                claim("c", "n1/gpu-0", listed=(entry("a"),), **annotated(reserved_for="jobs.batch/train")),
                pods=(pod("a", "c", **RUNS),),
                workloads=(workload(WorkloadPhase.ABSENT, uid=""),),
            ),
            [ProblemCode.WORKLOAD_NOT_FOUND],
            id="a-workload-that-is-not-there",
        ),
        pytest.param(
            cluster_state(
                claim("c", "n1/gpu-0", listed=(entry("a"),), **annotated(force_release="true")),
                pods=(pod("a", "c", **RUNS),),
            ),
            [ProblemCode.FORCE_IGNORED],
            id="force-with-another-uid",
        ),
        pytest.param(
            cluster_state(
                claim("c", "n1/gpu-0", listed=(entry("a"),), **annotated(force_release="uid-c")),
                pods=(pod("a", "c", **RUNS),),
            ),
            [ProblemCode.FORCE_BLOCKED],
            id="force-against-a-pod-that-runs",
        ),
        pytest.param(
            cluster_state(
                claim("c", "n1/gpu-0", listed=(entry("a"),)),
                pods=(pod("a", "c"),),
                nodes=[node("n1", cordoned=True), node("n2")],
            ),
            [ProblemCode.NODE_CORDONED],
            id="allocated-on-a-cordoned-node",
        ),
        pytest.param(
            cluster_state(
                claim("c", "n1/gpu-0", listed=(entry("a"),)),
                pods=(pod("a", "c") | {"status": UNSCHEDULABLE},),
                nodes=[node("n1", ready=False), node("n2")],
            ),
            [ProblemCode.STUCK],
            id="allocated-on-a-node-that-is-not-ready",
        ),
        pytest.param(
            cluster_state(claim("c", "n1/gpu-7", listed=(entry("a"),)), pods=(pod("a", "c", **RUNS),)),
            [ProblemCode.DEVICE_GONE],
            id="a-device-that-nobody-offers",
        ),
        pytest.param(
            cluster_state(
                claim("c", "n1/gpu-7", listed=(entry("a"),)),
                pods=(pod("a", "c", **RUNS),),
                slices=[offer("n1", generation=2, resourceSliceCount=2)],
            ),
            [ProblemCode.POOL_INCOMPLETE],
            id="a-device-of-a-pool-whose-update-is-incomplete",
        ),
        pytest.param(
            cluster_state(claim("c", "n1/gpu-0", listed=(entry("a"),)), pods=(pod("a", "c", **RUNS),)),
            [],
            id="all-is-well",
        ),
        pytest.param(cluster_state(claim("c")), [], id="not-asked-for-yet"),
    ],
)
def test_what_an_audit_finds(found, troubles):
    assert [problem.code for problem in audit(found)] == troubles


def test_a_claim_is_told_with_its_users_its_entries_and_what_keeps_it():
    listed = (JOB, {"apiGroup": "reserve.dra", "resource": "guards", "name": "c", "uid": "uid-c"})
    pods = tuple(pod(f"p{number}", "c", **RUNS) for number in range(30))
    facts = claims.explain(
        cluster_state(claim("c", "n1/gpu-0", listed=listed, **RESERVED), pods=pods, workloads=THERE), ("ml", "c")
    )
    assert facts is not None
    assert facts.users.started == 30
    assert [held.reference for held in facts.held] == ["jobs.batch/train", "guards.reserve.dra/c"]
    assert facts.holds == (AllocationHold.WORKLOAD, AllocationHold.CONSUMING)
    assert (facts.workload, facts.fate, facts.entered) == ("jobs.batch/train", "alive", True)
    assert facts.nodes == ("n1",)


def test_a_key_with_a_slip_is_told_with_the_one_that_is_meant():
    (problem,) = audit(cluster_state(claim("c", **annotated(reservedfor="jobs.batch/train"))))
    assert (problem.facts_by_name["annotation"], problem.facts_by_name["meant"]) == (
        "reserve.dra/reservedfor",
        "reserve.dra/reserved-for",
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        pytest.param("jobs", "jobs.batch/train", id="without-the-group"),
        pytest.param("jobs.v1.batch", "jobs.batch/train", id="with-a-version"),
        pytest.param("jobs.batch.volcano.sh", "", id="a-namesake-of-another-group"),
    ],
)
def test_a_kind_in_another_of_kubectls_forms_is_told_as_it_should_be_written(written, meant):
    kind = GroupResource.parse(written)
    seen = ReferencedWorkload(
        resource=kind.resource,
        group=kind.group,
        namespace="ml",
        name="train",
        phase=WorkloadPhase.NO_KIND,
        meant="jobs.batch",
    )
    waits = cluster_state(
        claim("c", **annotated(reserved_for=f"{written}/train")), pods=(pod("a", "c"),), workloads=(seen,)
    )
    (problem,) = (each for each in audit(waits) if each.subject.kind == "ResourceClaim")
    assert (problem.code, problem.facts_by_name["meant"]) == (ProblemCode.KIND_UNKNOWN, meant)


def test_what_is_given_away_of_shared_devices_is_known():
    of = claim("c", "n1/gpu-0")
    of["status"]["allocation"]["devices"]["results"][0] |= {"shareID": "x", "consumedCapacity": {"memory": "6"}}
    assert cluster_state(of).shares.consumed(DeviceID(driver=DRIVER, pool="n1", device="gpu-0")) == {"memory": 6}


def test_there_is_nothing_to_tell_of_a_claim_that_is_not_there():
    assert claims.explain(cluster_state(), ("ml", "c")) is None


def test_what_could_not_be_read_is_no_reason_to_call_pods_gone():
    found = cluster_state(claim("c", "n1/gpu-0", listed=(entry("a"),)))

    blind = ClusterState(
        msgspec.structs.replace(found.snapshot, gaps=(UnreadResource(resource="pods", why="forbidden"),))
    )
    assert [problem.code for problem in audit(blind)] == [ProblemCode.IN_DOUBT]


def test_the_driver_is_that_of_the_offer():
    assert offer("n1")["spec"]["driver"] == DRIVER


def test_a_running_controller_frees_a_claim_that_nothing_keeps():
    state = cluster_state(claim("c", "n1/gpu-0", listed=(JOB,), **RESERVED), workloads=OVER, leader=SOMEBODY)
    (problem,) = claims.explain(state, ("ml", "c")).problems
    assert (problem.code, problem.severity.value) == (ProblemCode.FREED_SOON, "info")
