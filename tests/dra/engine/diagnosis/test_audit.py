"""What an audit tells of Reservations, migrations and nodes."""

import msgspec
import pytest

from dra.engine.claims.view import WorkloadPhase
from dra.engine.diagnosis.audit import audit
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.problem_codes import ProblemCode, ProblemSeverity
from dra.engine.diagnosis.snapshot import ControllerLease, ControllerPresence, InstalledDeployment
from dra.model.autoscalers import DO_NOT_DISRUPT, KEPT_NODE, SCALE_DOWN_DISABLED
from dra.model.meta import ObjectMeta, UnstructuredObject
from tests.dra.api.reservations.manifests import manifest
from tests.dra.engine.diagnosis.cluster_states import JOB, SOMEBODY, claim, cluster_state, entry, node, offer, workload
from tests.violations import combinations, for_each_case


def reserved(*, status=None, **spec):
    made = manifest("r", **spec) | {"status": status or {}}
    made["metadata"] |= {"uid": "uid-r", "resourceVersion": "1"}
    found = UnstructuredObject(metadata=msgspec.convert(made["metadata"], ObjectMeta), content=made)
    return ClusterState(msgspec.structs.replace(cluster_state().snapshot, reservations=(found,)))


OPEN = [{"labelSelector": {"matchLabels": {"app": "web"}}}]


@pytest.mark.parametrize(
    ("found", "told"),
    [
        pytest.param(reserved(owners=OPEN), ["spec.owners[0]"], id="labels-of-any-namespace"),
        pytest.param(reserved(owners=OPEN, status={"phase": "Succeeded"}), [], id="that-is-over"),
        pytest.param(reserved(owners=[OPEN[0] | {"object": {"namespace": "ml"}}]), [], id="labels-of-a-namespace"),
        pytest.param(reserved(owners=OPEN, ttl="never"), [], id="that-cannot-be-read"),
    ],
)
def test_owners_of_any_namespace_are_noted(found, told):
    problems = [each for each in audit(found) if each.code is ProblemCode.OPEN_TO_ALL]
    assert [each.facts_by_name["owners"] for each in problems] == told
    assert {(each.severity, str(each.subject)) for each in problems} <= {(ProblemSeverity.INFO, "reservation r")}


def migrating(presence):
    """Return a cluster with a migration that waits and one that has ended."""
    found = []
    for name, phase in (("waits", "Pending"), ("over", "Succeeded")):
        metadata = {"name": name, "uid": f"uid-{name}"}
        spec = {"podRef": {"namespace": "ml", "name": "a"}}
        content = {"metadata": metadata, "spec": spec, "status": {"phase": phase}}
        found.append(UnstructuredObject(metadata=msgspec.convert(metadata, ObjectMeta), content=content))
    lease = ControllerLease(presence=presence, name="dra-reserve/dra-reserve-descheduler")
    snapshot = msgspec.structs.replace(cluster_state().snapshot, migrations=tuple(found), descheduler=lease)
    return ClusterState(snapshot)


@pytest.mark.parametrize(
    ("presence", "told"),
    [
        (ControllerPresence.ABSENT, ["podmigrationjob waits"]),
        (ControllerPresence.STALE, ["podmigrationjob waits"]),
        (ControllerPresence.RUNNING, []),
        (ControllerPresence.UNKNOWN, []),
    ],
)
def test_migrations_that_nobody_carries_out_are_told(presence, told):
    problems = [each for each in audit(migrating(presence)) if each.code is ProblemCode.NO_DESCHEDULER]
    assert [str(each.subject) for each in problems] == told


RESERVED = {"annotations": {"reserve.dra/reserved-for": "jobs.batch/train", "reserve.dra/reserved-for-uid": "uid-job"}}
KEPT = {KEPT_NODE: DO_NOT_DISRUPT, DO_NOT_DISRUPT: "true", SCALE_DOWN_DISABLED: "true"}


def annotated(*claims, **more):
    n1 = node("n1")
    n1["metadata"]["annotations"] = KEPT
    return cluster_state(*claims, nodes=[n1, node("n2")], **more)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        pytest.param(annotated(), [f"{DO_NOT_DISRUPT}, {KEPT_NODE}"], id="no-claim-is-kept-there"),
        pytest.param(
            annotated(claim("c", "n1/gpu-0", listed=(entry("a"),))), [f"{DO_NOT_DISRUPT}, {KEPT_NODE}"], id="used"
        ),
        pytest.param(annotated(claim("c", "n1/gpu-0", listed=(JOB,), **RESERVED)), [], id="a-claim-is-kept-there"),
        pytest.param(
            ClusterState(msgspec.structs.replace(annotated().snapshot, namespace="ml")), [], id="of-one-namespace"
        ),
        pytest.param(cluster_state(), [], id="not-annotated"),
    ],
)
def test_annotations_of_the_controller_that_keep_a_node_for_nothing_are_told(found, told):
    problems = [each for each in audit(found) if each.code is ProblemCode.NODE_STAYS_ANNOTATED]
    assert [each.facts_by_name["annotations"] for each in problems] == told
    assert {str(each.subject) for each in problems} <= {"node n1"}


@pytest.mark.parametrize(
    ("presence", "codes"),
    [
        pytest.param(ControllerPresence.RUNNING, [ProblemCode.IDLE], id="works"),
        pytest.param(ControllerPresence.STALE, [ProblemCode.NO_CONTROLLER, ProblemCode.IDLE], id="has-ended"),
        pytest.param(ControllerPresence.ABSENT, [ProblemCode.IDLE], id="not-known"),
    ],
)
def test_a_controller_that_has_ended_is_reported_while_claims_are_reserved(presence, codes):
    """With 0 of 2 replicas Ready an audit found no problem: nothing waited for the controller at that moment."""
    kept = claim("c", "n1/gpu-0", listed=(JOB,), annotations={"reserve.dra/reserved-for": "jobs.batch/train"})
    leader = ControllerLease(presence=presence, name="dra-reserve/dra-reserve-controller", holder="c-0")
    found = audit(cluster_state(kept, workloads=(workload(WorkloadPhase.PRESENT),), leader=leader))
    assert [each.code for each in found] == codes
    if ProblemCode.NO_CONTROLLER in codes:
        assert found[0].facts_by_name["objects"] == "claim ml/c"


def installed(*, ready, desired=2, component="controller", since=""):
    return InstalledDeployment(
        namespace="dra-reserve",
        name=f"dra-reserve-{component}",
        component=component,
        desired=desired,
        ready=ready,
        unavailable_since=since,
    )


@for_each_case(
    combinations(
        [
            pytest.param(installed(ready=0), ["deployment dra-reserve/dra-reserve-controller"], id="none-is-ready"),
            pytest.param(installed(ready=1), [], id="one-is-ready"),
            pytest.param(installed(ready=1, since="2026-11-28T11:58:30Z"), [], id="one-is-ready-for-long"),
            pytest.param(installed(ready=0, since="2026-11-28T11:59:30Z"), [], id="starts-since-half-a-minute"),
            pytest.param(
                installed(ready=0, since="2026-11-28T11:58:30Z"),
                ["deployment dra-reserve/dra-reserve-controller"],
                id="starts-since-a-minute-and-a-half",
            ),
            pytest.param(installed(ready=0, desired=0, component="descheduler"), [], id="a-part-is-scaled-to-zero"),
            pytest.param(
                installed(ready=0, component="extender"),
                ["deployment dra-reserve/dra-reserve-extender"],
                id="no-extender-is-ready",
            ),
        ],
        [ControllerPresence.ABSENT, ControllerPresence.RUNNING],
    )
)
def test_a_component_without_a_ready_replica_is_reported_whatever_the_lease_shows(deployment, told, presence):
    """With an image that could not be pulled, and no work waiting, an audit found no problem."""
    leader = ControllerLease(presence=presence, name="dra-reserve/dra-reserve-controller", holder="c-0")
    snapshot = msgspec.structs.replace(
        cluster_state(leader=leader).snapshot, deployments=(deployment,), taken="2026-11-28T12:00:00Z"
    )
    problems = [each for each in audit(ClusterState(snapshot)) if each.code is ProblemCode.NO_REPLICA_READY]
    assert [str(each.subject) for each in problems] == told
    assert {each.severity for each in problems} <= {ProblemSeverity.ERROR}


@pytest.mark.parametrize(
    ("presence", "is_told"),
    [
        pytest.param(ControllerPresence.ABSENT, True, id="nobody-leads"),
        pytest.param(ControllerPresence.STALE, True, id="nobody-leads-any-more"),
        pytest.param(ControllerPresence.RUNNING, False, id="a-controller-runs-outside-of-the-deployment"),
    ],
)
def test_a_controller_that_is_scaled_to_zero_is_missed_while_nobody_leads(presence, is_told):
    leader = ControllerLease(presence=presence, name="dra-reserve/dra-reserve-controller", holder="c-0")
    snapshot = msgspec.structs.replace(
        cluster_state(leader=leader).snapshot,
        deployments=(installed(ready=0, desired=0),),
        taken="2026-11-28T12:00:00Z",
    )
    codes = [problem.code for problem in audit(ClusterState(snapshot))]
    assert (ProblemCode.NO_REPLICA_READY in codes) == is_told


@pytest.mark.parametrize(
    ("deployment", "told"),
    [
        pytest.param(installed(ready=2), [], id="all-are-ready"),
        pytest.param(installed(ready=1), [], id="the-deployment-is-available"),
        pytest.param(installed(ready=1, since="2026-11-28T11:59:30Z"), [], id="since-half-a-minute"),
        pytest.param(installed(ready=1, since="2026-11-28T11:58:30Z"), ["1 of 2"], id="since-a-minute-and-a-half"),
        pytest.param(installed(ready=0, since="2026-11-28T11:58:30Z"), [], id="none-is-ready-which-is-an-error"),
    ],
)
def test_some_replicas_that_are_not_ready_are_a_warning(deployment, told):
    snapshot = msgspec.structs.replace(
        cluster_state(leader=SOMEBODY).snapshot, deployments=(deployment,), taken="2026-11-28T12:00:00Z"
    )
    problems = [each for each in audit(ClusterState(snapshot)) if each.code is ProblemCode.REPLICAS_NOT_READY]
    facts = [each.facts_by_name for each in problems]
    assert [f"{each['ready']} of {each['desired']}" for each in facts] == told
    assert {each.severity for each in problems} <= {ProblemSeverity.WARNING}


def negative(name, device="n1/gpu-0"):
    content = claim(name, device)
    content["status"]["allocation"]["devices"]["results"][0]["consumedCapacity"] = {"memory": "-1Gi"}
    return content


def published(on, *, writer="resource.k8s.io/v1", **device):
    content = offer(on, devices=1)
    content["metadata"] |= {"uid": f"uid-{on}", "managedFields": [{"manager": "driver", "apiVersion": writer}]}
    content["spec"]["devices"][0] |= device
    return content


ODD = {"attributes": {"a/b/c": {"int": 1}}}
ODD_TEMPLATE = {
    "metadata": {"namespace": "ml", "name": "t"},
    "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"capacity": {"requests": {"m": "-1"}}}}]}}},
}


@pytest.mark.parametrize(
    ("found", "told"),
    [
        pytest.param(cluster_state(claim("c", "n1/gpu-0"), slices=[published("n1")]), [], id="nothing"),
        pytest.param(
            cluster_state(negative("c")), [(ProblemCode.NEGATIVE_SHARE, "claim ml/c", "memory")], id="negative-share"
        ),
        pytest.param(
            cluster_state(slices=[published("n1", **ODD), published("n2", **ODD)]),
            [
                (
                    ProblemCode.UPGRADE_OBSTACLE,
                    f"resourceslice {node}-gpus",
                    "device gpu-0 of driver gpu.example.com: the name a/b/c has more than one slash",
                )
                for node in ("n1", "n2")
            ],
            id="slices",
        ),
        pytest.param(
            cluster_state(slices=[published(name, writer="resource.k8s.io/v1beta1") for name in ("n1", "n2")]),
            [
                (
                    ProblemCode.UPGRADE_OBSTACLE,
                    "driver gpu.example.com",
                    "driver writes resource.k8s.io/v1beta1, which 1.38 drops",
                )
            ],
            id="old-driver",
        ),
        pytest.param(
            cluster_state(templates=[ODD_TEMPLATE]),
            [
                (
                    ProblemCode.UPGRADE_OBSTACLE,
                    "resourceclaimtemplate ml/t",
                    "request r asks for a negative amount of m",
                )
            ],
            id="template",
        ),
    ],
)
def test_what_kubernetes_1_38_takes_otherwise_is_told_before_the_upgrade(found, told):
    codes = {ProblemCode.NEGATIVE_SHARE, ProblemCode.UPGRADE_OBSTACLE}
    problems = [each for each in audit(found) if each.code in codes]
    texts = [each.facts_by_name.get("cause") or each.facts_by_name["capacities"] for each in problems]
    assert [(each.code, str(each.subject), text) for each, text in zip(problems, texts, strict=True)] == told


def test_many_obstacles_of_one_object_are_one_problem():
    content = claim("c")
    content["spec"]["devices"]["requests"] = [
        {"name": f"r{number}", "exactly": {"capacity": {"requests": {"m": "-1"}}}} for number in range(32)
    ]
    (problem,) = (each for each in audit(cluster_state(content)) if each.code is ProblemCode.UPGRADE_OBSTACLE)
    assert str(problem.facts_by_name["cause"]).endswith(" more")
