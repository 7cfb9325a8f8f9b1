"""A workload's claims and pods, and the reasons of its pods, equal ones counted."""

import msgspec
import pytest

from dra.engine.claims.view import WorkloadPhase
from dra.engine.diagnosis import pods, workloads
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.diagnosis.snapshot import PodController
from tests.dra.engine.diagnosis.cluster_states import JOB, SOMEBODY, claim, entry, node, pod, snapshot, workload

RESERVED = {"annotations": {"reserve.dra/reserved-for": "jobs.batch/train", "reserve.dra/reserved-for-uid": "uid-job"}}
SERVE = {"apiGroup": "batch", "resource": "jobs", "name": "serve", "uid": "uid-serve"}
HOLDER = claim(
    "holder",
    *(f"{on}/gpu-{index}" for on in ("n1", "n2", "n3") for index in (0, 1)),
    listed=(SERVE,),
    annotations={"reserve.dra/reserved-for": "jobs.batch/serve", "reserve.dra/reserved-for-uid": "uid-serve"},
)
"""A claim of another Job that has all devices."""

SERVING = msgspec.structs.replace(workload(WorkloadPhase.PRESENT, uid="uid-serve"), name="serve")


def controller(kind, name, *, uid, resource="", group="apps", controller="", **more):
    plural = resource or f"{kind.lower()}s"
    return PodController(
        resource=plural, group=group, kind=kind, namespace="ml", name=name, uid=uid, controller=controller, **more
    )


TRAIN = controller("Job", "train", uid="uid-job", group="batch")
NO_TRAIN = msgspec.structs.replace(TRAIN, uid="")


def of(uid, kind="Job"):
    """Metadata of a pod that a controller has made."""
    return {"metadata": {"ownerReferences": [{"kind": kind, "name": "train", "uid": uid, "controller": True}]}}


def told(*claims, target=TRAIN, controllers=(), **more):
    found = msgspec.structs.replace(snapshot(*claims, leader=SOMEBODY, **more), controllers=tuple(controllers))
    return workloads.explain(ClusterState(found), target)


def reasons(facts):
    return [(each.problem.code, each.count) for each in facts.problems]


def test_pods_that_wait_for_the_same_reason_are_one_reason_with_their_number():
    waiting = [pod(f"train-{number}", f"own-{number}", **of("uid-job")) for number in range(5)]
    own = [
        claim(f"own-{number}", ownerReferences=[{"kind": "Pod", "name": "p", "uid": f"p{number}", "controller": True}])
        for number in range(5)
    ]
    facts = told(*own, HOLDER, pods=waiting, workloads=[SERVING])
    assert reasons(facts) == [(ProblemCode.UNSCHEDULABLE, 5)]
    assert [(group.count, group.names[:2]) for group in facts.groups] == [(5, ("train-0", "train-1"))]


def test_a_claim_of_another_namespace_is_of_another_workload_of_that_name():
    own, foreign = claim("own", **RESERVED), claim("foreign", **RESERVED, namespace="elsewhere")
    assert [diagnosis.key for diagnosis in told(own, foreign).claims] == [("ml", "own")]


def test_alike_pods_are_explained_once(monkeypatch):
    explained = []
    explain = pods.explain

    def counted(cluster, key):
        explained.append(key)
        return explain(cluster, key)

    monkeypatch.setattr(workloads.pods, "explain", counted)
    told(claim("c"), pods=[pod(f"train-{number}", "c", **of("uid-job")) for number in range(50)])
    assert explained == [("ml", "train-0")]


def test_pods_with_other_requests_have_reasons_of_their_own():
    small = pod("train-a", "c", **of("uid-job"))
    large = pod("train-b", "c", **of("uid-job"))
    large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "99"
    facts = told(claim("c"), pods=[small, large])
    assert reasons(facts) == [(ProblemCode.NOT_TRIED, 1), (ProblemCode.POD_TOO_LARGE, 1)]


@pytest.mark.parametrize(
    ("target", "controllers", "names"),
    [
        pytest.param(TRAIN, (), ["mine"], id="pods-that-it-controls"),
        pytest.param(
            controller("Deployment", "web", uid="uid-web"),
            (
                controller("ReplicaSet", "web-1", uid="uid-rs", controller="uid-web"),
                controller("ReplicaSet", "other-1", uid="uid-other", controller="uid-others"),
            ),
            ["of-replicaset"],
            id="pods-of-what-it-controls",
        ),
        pytest.param(
            controller("TrainJob", "t", uid="uid-t", group="trainer.kubeflow.org"),
            (
                controller("Job", "t-0", uid="uid-job", group="batch", controller="uid-set"),
                controller("JobSet", "t", uid="uid-set", group="jobset.x-k8s.io", controller="uid-t"),
            ),
            ["mine"],
            id="three-levels",
        ),
        pytest.param(
            controller("PodGroup", "gang", uid="uid-gang", group="scheduling.k8s.io"),
            (),
            ["of-group"],
            id="pods-that-name-their-group",
        ),
        pytest.param(NO_TRAIN, (), [], id="a-workload-that-is-gone"),
    ],
)
def test_the_pods_of_a_workload(target, controllers, names):
    known = [
        pod("mine", "c", **of("uid-job")),
        pod("namesake", "c", **of("uid-former")),
        pod("of-replicaset", "c", **of("uid-rs", kind="ReplicaSet")),
        pod("of-other", "c", **of("uid-other", kind="ReplicaSet")),
        pod("of-group", "c", schedulingGroup={"podGroupName": "gang"}),
        pod("alone", "c"),
    ]
    facts = told(claim("c"), target=target, controllers=controllers, pods=known)
    assert [name for group in facts.groups for name in group.names] == names


def test_its_claims_are_those_reserved_for_it_and_those_of_its_pods():
    facts = told(
        claim("reserved", **RESERVED),
        claim("listed", "n1/gpu-0", listed=(JOB,)),
        claim("used"),
        claim("other", annotations={"reserve.dra/reserved-for": "jobs.batch/serve"}),
        pods=[pod("train-0", "used", **of("uid-job"))],
        workloads=[workload(WorkloadPhase.PRESENT)],
    )
    assert [each.key[1] for each in facts.claims] == ["reserved", "listed", "used"]


def test_a_workload_that_does_not_exist_has_the_claims_that_are_reserved_for_it():
    facts = told(claim("c", **RESERVED), target=NO_TRAIN, workloads=[workload(WorkloadPhase.ABSENT)])
    assert (facts.exists, [each.key[1] for each in facts.claims]) == (False, ["c"])


def test_a_problem_of_a_shared_claim_counts_once():
    running = [
        pod(f"train-{number}", "c", on="n1", phase="Running", started=True, **of("uid-job")) for number in (1, 2)
    ]
    facts = told(claim("c", **RESERVED), pods=running, workloads=[workload(WorkloadPhase.PRESENT)])
    assert reasons(facts) == [(ProblemCode.ALLOCATION_LOST, 2)]


def test_pods_are_counted_by_stage_whether_or_not_they_use_claims():
    known = [
        pod("a", "c", **of("uid-job")),
        pod("b", on="n1", phase="Running", **of("uid-job")),
        pod("d", on="n1", phase="Succeeded", **of("uid-job")),
        pod("e", "c", schedulingGates=[{"name": "x"}], **of("uid-job")),
    ]
    facts = told(claim("c"), pods=known, nodes=[node("n1")])
    assert msgspec.to_builtins(facts.users) == {"gated": 1, "waiting": 1, "starting": 1, "started": 0, "finished": 1}


def test_pods_of_a_claim_that_cannot_be_satisfied_are_one_group():
    wrong = claim("c")
    wrong["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "nope"
    facts = told(wrong, pods=tuple(pod(f"p-{number}", "c", **of("uid-job")) for number in range(3)))
    assert [group.count for group in facts.groups] == [3]
    assert [(each.problem.code, each.count) for each in facts.problems] == [(ProblemCode.UNSATISFIABLE, 3)]


def test_a_pod_whose_container_does_not_run_is_no_pod_like_the_others():
    waiting = {"name": "main", "state": {"waiting": {"reason": "CreateContainerError", "message": "no CDI device"}}}
    owned = [pod(name, "c", on="n1", phase="Running", started=True, **of("uid-job")) for name in ("a", "b", "d")]
    owned[1]["status"]["containerStatuses"] = [waiting]
    facts = told(claim("c", "n1/gpu-0", listed=(entry("a"), entry("b"), entry("d"))), pods=tuple(owned))
    assert [(each.names, each.problem.code.value) for each in facts.problems if each.problem.subject.kind == "Pod"] == [
        (("b",), "ContainerNotRunning")
    ]
