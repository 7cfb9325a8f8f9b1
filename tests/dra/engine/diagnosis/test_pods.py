"""What a pod waits for, node by node, and what would help."""

import msgspec
import pytest

from dra.cli.kubectl.diagnosis import problem_texts
from dra.engine.claims.view import WorkloadPhase
from dra.engine.diagnosis import pods
from dra.engine.diagnosis.audit import audit
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.node_groups import Obstacle
from dra.engine.diagnosis.pods import AdvisedAction
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.diagnosis.snapshot import ControllerLease, ControllerPresence, UnreadResource
from tests.dra.engine.diagnosis.cluster_states import (
    JOB,
    NOBODY,
    SOMEBODY,
    claim,
    cluster_state,
    entry,
    node,
    offer,
    offer_partitions,
    pod,
    rule,
    snapshot,
    workload,
)
from tests.dra.engine.prepare_refusals.refused import REPLICA_SET, ready
from tests.violations import for_each_case

KEY = ("ml", "a")
TAINT = {"key": "team", "value": "red", "effect": "NoSchedule"}
RESERVED = {"annotations": {"reserve.dra/reserved-for": "jobs.batch/train", "reserve.dra/reserved-for-uid": "uid-job"}}
FULL = tuple(
    claim(f"{on}-{index}", f"{on}/gpu-{index}", listed=(JOB,), **RESERVED)
    for on in ("n1", "n2", "n3")
    for index in (0, 1)
)
ALIVE = (workload(WorkloadPhase.PRESENT),)
GATE = {"schedulingGates": [{"name": "reserve.dra/claim"}]}


SAID = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3: affinity"}],
}


def refused():
    found = claim("c", "n1/gpu-0", listed=(entry("a"),))
    return {**found, "status": {**found["status"], "devices": [ready()]}}


def told(*claims, waits=("c",), more=(), spec=None, status=None, **cluster):
    asking = pod("a", *waits, **(spec or {})) | ({"status": status} if status else {})
    found = pods.explain(cluster_state(*claims, pods=(asking, *more), **cluster), KEY)
    assert found is not None
    return found


def test_the_taints_that_keep_devices_from_a_pod_are_named():
    facts = told(claim("c"), rules=[rule(pool="n1"), rule("none", effect="None")], nodes=[node("n1")])
    (devices,) = facts.groups[0].barriers[0].devices
    assert (devices.tainted, devices.taints) == (2, ("service:NoSchedule",))


def test_only_the_holders_of_devices_without_a_taint_are_waited_for():
    facts = told(claim("c"), *FULL, workloads=ALIVE, rules=[rule(device="gpu-0")])
    (devices,) = facts.groups[0].barriers[0].devices
    assert (devices.held, devices.tainted, devices.held_and_tainted, devices.free) == (2, 1, 1, 0)
    assert facts.advice.claim == "ml/n1-1"
    assert {each.claim[1] for each in facts.groups[0].holders} == {"n1-1", "n2-1", "n3-1"}


def test_a_pod_that_wants_a_part_waits_for_the_claim_that_holds_the_whole_card():
    part = {"cel": {"expression": "true"}}
    asking = claim("c")
    asking["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [part]
    facts = told(
        asking,
        claim("whole", "n1/gpu-0", listed=(JOB,), **RESERVED),
        workloads=ALIVE,
        slices=[offer_partitions("n1")],
        nodes=[node("n1")],
    )
    (group,) = facts.groups
    (devices,) = group.barriers[0].devices
    assert (devices.offered, devices.held, devices.overlapping, devices.free) == (3, 1, 2, 0)
    assert group.barriers[0].detail == ""
    assert [each.claim[1] for each in group.holders] == ["whole"]


def test_a_pod_that_is_too_large_for_every_node_is_not_told_to_wait():
    large = [{"name": "main", "resources": {"requests": {"cpu": "500"}}}]
    facts = told(claim("c", "n1/gpu-0", listed=(entry("b"),)), spec={"containers": large})
    assert facts.advice.way is AdvisedAction.NONE
    (problem,) = facts.problems
    assert problem.code is ProblemCode.POD_TOO_LARGE
    assert problem.facts_by_name["amounts"] == "cpu: 500 requested, at most 8"


@pytest.mark.parametrize(
    ("entries", "there", "hint"),
    [
        pytest.param({"resourceClaimName": "t"}, "template", "(resourceClaimTemplateName)", id="a-template-as-a-claim"),
        pytest.param({"resourceClaimTemplateName": "t"}, "claim", "(resourceClaimName)", id="a-claim-as-a-template"),
        pytest.param({"resourceClaimName": "t"}, "", "", id="neither"),
    ],
)
def test_a_claim_and_a_template_that_are_confused_are_told_apart(entries, there, hint):
    template = {"metadata": {"name": "t", "namespace": "ml", "uid": "u", "resourceVersion": "1"}}
    facts = told(
        *((claim("t"),) if there == "claim" else ()),
        waits=(),
        spec={"resourceClaims": [{"name": "x", **entries}]},
        templates=[template] if there == "template" else [],
    )
    (problem,) = facts.problems
    assert str(problem.facts_by_name["hint"]).endswith(hint)
    assert bool(problem.facts_by_name["hint"]) == bool(hint)


UNKNOWN = ControllerLease(presence=ControllerPresence.UNKNOWN, name="dra-reserve/dra-reserve-controller")
FROM_TEMPLATE = {"resourceClaims": [{"name": "x", "resourceClaimTemplateName": "t"}]}
TEMPLATES = [{"metadata": {"name": "t", "namespace": "ml", "uid": "u", "resourceVersion": "1"}}]


def bound(at):
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
    return {"phase": "Pending", "conditions": [condition]}


@pytest.mark.parametrize(
    ("created", "codes"),
    [
        pytest.param("2026-11-20T11:59:55Z", set(), id="a-moment-ago"),
        pytest.param("2026-11-20T11:59:00Z", {ProblemCode.CLAIM_NOT_MADE}, id="a-minute-ago"),
    ],
)
def test_a_pod_that_was_just_created_is_no_problem_yet(created, codes):
    young = {**FROM_TEMPLATE, "metadata": {"creationTimestamp": created}}
    assert {each.code for each in told(waits=(), spec=young, templates=TEMPLATES).problems} == codes
    tried = told(claim("c"), spec={"metadata": {"creationTimestamp": created}})
    assert {each.code for each in tried.problems} == ({ProblemCode.NOT_TRIED} if codes else set())


@pytest.mark.parametrize(
    ("at", "leader", "codes"),
    [
        pytest.param("2026-11-20T11:59:30Z", SOMEBODY, set(), id="half-a-minute-ago-and-a-controller-runs"),
        pytest.param("2026-11-20T11:59:55Z", NOBODY, set(), id="a-moment-ago"),
        pytest.param("2026-11-20T11:59:30Z", NOBODY, {ProblemCode.UNLISTED}, id="half-a-minute-ago-without-one"),
        pytest.param("2026-11-20T11:50:00Z", SOMEBODY, {ProblemCode.UNLISTED}, id="long-ago"),
    ],
)
def test_a_pod_that_was_just_bound_may_be_listed_by_now(at, leader, codes):
    held = claim("c", "n1/gpu-0", listed=(entry("b"),))
    facts = told(held, more=(pod("b", "c", on="n1", started=True),), spec={"on": "n1"}, status=bound(at), leader=leader)
    assert {each.code for each in facts.problems} == codes


def test_who_may_not_read_the_lease_is_not_alarmed_by_a_gate():
    facts = told(claim("c"), spec=GATE, leader=UNKNOWN)
    assert [(each.code, each.severity.value) for each in facts.problems] == [(ProblemCode.GATE_UNKNOWN, "info")]


def test_a_late_template_alone_is_named_and_not_the_claims_that_wait_for_it():
    entries = [{"name": name, "resourceClaimTemplateName": name} for name in ("t", "late")]
    facts = told(waits=(), spec={"resourceClaims": entries}, templates=TEMPLATES)
    assert [(each.code, each.facts_by_name["template"]) for each in facts.problems] == [
        (ProblemCode.TEMPLATE_MISSING, "late")
    ]


def test_one_command_frees_all_pods_of_the_namespace_from_our_gate_and_from_no_other():
    foreign = {"schedulingGates": [{"name": "kueue"}]}
    more = (pod("b", "c", **GATE), pod("d", "c", **foreign), pod("e", "c", metadata={"namespace": "else"}, **GATE))
    both = {"schedulingGates": [{"name": "kueue"}, {"name": "reserve.dra/claim"}]}
    facts = told(claim("c"), spec=both, more=more)
    (gated,) = (each for each in facts.problems if each.code is ProblemCode.GATED)
    assert problem_texts.safe_command(gated, within="ml") == (
        """kubectl patch -n ml pod/a pod/b -p '{"spec":{"schedulingGates":"""
        """[{"name":"reserve.dra/claim","$patch":"delete"}]}}'"""
    )
    assert "remove the gate from this pod and 1 more of namespace ml" in problem_texts.problem_text(gated)


def shape(facts):
    return [(group.count, [barrier.obstacle for barrier in group.barriers]) for group in facts.groups]


@for_each_case(
    [
        pytest.param(told(claim("c")), [(3, [])], AdvisedAction.NONE, id="all-could-take-it"),
        pytest.param(
            told(claim("c"), *FULL, workloads=ALIVE),
            [(3, [Obstacle.DEVICES])],
            AdvisedAction.WAIT,
            id="all-devices-are-held",
        ),
        pytest.param(
            told(claim("c", count=3)),
            [(3, [Obstacle.DEVICES])],
            AdvisedAction.NONE,
            id="no-node-has-as-many-as-are-asked-for",
        ),
        pytest.param(
            told(claim("c"), rules=[rule(pool="n1"), rule("all", pool="n2")]),
            [(1, []), (2, [Obstacle.DEVICES])],
            AdvisedAction.NONE,
            id="rules-taint-the-devices-of-two-nodes",
        ),
        pytest.param(
            told(claim("c"), rules=[rule()]),
            [(3, [Obstacle.DEVICES])],
            AdvisedAction.TOLERATE,
            id="a-rule-taints-all-devices",
        ),
        pytest.param(
            told(claim("c", count=3), rules=[rule()]),
            [(3, [Obstacle.DEVICES])],
            AdvisedAction.NONE,
            id="too-few-and-tainted",
        ),
        pytest.param(
            told(claim("c"), *FULL, workloads=ALIVE, rules=[rule()]),
            [(3, [Obstacle.DEVICES])],
            AdvisedAction.REPAIR,
            id="all-devices-are-held-and-tainted",
        ),
        pytest.param(
            told(claim("c"), *FULL, workloads=ALIVE, rules=[rule(device="gpu-0")]),
            [(3, [Obstacle.DEVICES])],
            AdvisedAction.WAIT,
            id="all-devices-are-held-and-some-tainted",
        ),
        pytest.param(
            told(claim("c"), nodes=[node("n1", cordoned=True), node("n2", taints=(TAINT,))]),
            [(1, [Obstacle.CORDONED]), (1, [Obstacle.TAINTED])],
            AdvisedAction.UNCORDON,
            id="a-cordoned-node-is-the-shortest-way",
        ),
        pytest.param(
            told(claim("c"), nodes=[node("n2", taints=(TAINT,))]),
            [(1, [Obstacle.TAINTED])],
            AdvisedAction.UNTAINT,
            id="a-taint",
        ),
        pytest.param(
            told(claim("c"), spec={"nodeSelector": {"zone": "a"}}),
            [(3, [Obstacle.SELECTOR])],
            AdvisedAction.LABEL,
            id="a-label",
        ),
        pytest.param(
            told(claim("c"), nodes=[node("n1", cpu="500m")]),
            [(1, [Obstacle.ROOM])],
            AdvisedAction.NONE,
            id="too-few-cpus",
        ),
        pytest.param(
            told(claim("c"), nodes=[node("n1", keeps='{"resources": {"cpu": "7500m"}}'), node("n2")]),
            [(1, []), (1, [Obstacle.ROOM])],
            AdvisedAction.NONE,
            id="a-node-that-keeps-its-cpus",
        ),
        pytest.param(
            told(claim("c", "n1/gpu-0"), nodes=[node("n1", cpu="0"), node("n2")]),
            [(1, [Obstacle.ROOM]), (1, [Obstacle.ELSEWHERE])],
            AdvisedAction.ROOM,
            id="allocated-where-there-is-no-room",
        ),
        pytest.param(
            told(claim("c", "n1/gpu-0"), nodes=[node("n1", cpu="0", cordoned=True), node("n2")]),
            [(1, [Obstacle.ELSEWHERE]), (1, [Obstacle.CORDONED, Obstacle.ROOM])],
            AdvisedAction.NONE,
            id="room-alone-does-not-help",
        ),
        pytest.param(
            told(claim("c"), nodes=[node("n1")], slices=[offer("n1", resourceSliceCount=2)]),
            [(1, [Obstacle.DEVICES])],
            AdvisedAction.NONE,
            id="a-pool-that-is-not-complete",
        ),
    ],
)
def test_nodes_are_told_in_groups(facts, groups, way):
    assert shape(facts) == groups
    assert facts.advice.way is way


def with_ports(*ports):
    """Containers with host ports: (number, protocol, IP of the host)."""
    written = [
        {"containerPort": 80, "hostPort": number, "protocol": protocol, "hostIP": address}
        for number, protocol, address in ports
    ]
    return {"containers": [{"name": "main", "ports": written}]}


@for_each_case(
    [
        pytest.param((8080, "TCP", ""), "8080/TCP", id="taken"),
        pytest.param((8080, "TCP", "10.0.0.1"), "8080/TCP of 10.0.0.1", id="taken-at-all-addresses"),
        pytest.param((8080, "UDP", ""), None, id="another-protocol"),
        pytest.param((8081, "TCP", ""), None, id="another-port"),
    ]
)
def test_a_node_whose_host_port_a_pod_uses_is_told(port, detail):
    user = pod("web", on="n1", phase="Running", **with_ports((8080, "TCP", "")))
    ended = pod("old", on="n2", phase="Succeeded", **with_ports((8080, "TCP", "")))
    nodes = [node("n1"), node("n2")]
    facts = told(claim("c"), spec=with_ports((9000, "TCP", ""), port), more=(user, ended), nodes=nodes)
    barriers = [(barrier.obstacle, barrier.detail) for group in facts.groups for barrier in group.barriers]
    assert barriers == ([(Obstacle.PORTS, detail)] if detail else [])
    assert sum(group.count for group in facts.groups if not group.barriers) == (1 if detail else 2)


def test_devices_with_binding_conditions_can_be_had():
    slice_ = offer("n1", devices=0)
    slice_["spec"]["devices"] = [
        {"name": "gpu-0", "bindingConditions": ["Ready"], "bindingFailureConditions": ["Lost"]}
    ]
    assert shape(told(claim("c"), nodes=[node("n1")], slices=[slice_])) == [(1, [])]


def test_what_a_node_keeps_is_said_with_what_it_has():
    (group,) = told(claim("c"), nodes=[node("n1", keeps='{"resources": {"cpu": "7500m"}}')]).groups
    assert group.barriers[0].detail == "cpu: 1 requested, 0.5 of 0.5 free; the node keeps 7.5"


def test_a_device_of_several_nodes_is_held_once():
    """A claim with one device that three nodes can reach was said to hold three."""
    fabric = offer("n1", devices=1)
    del fabric["spec"]["nodeName"]
    fabric["spec"]["allNodes"] = True
    holding = claim("held", "n1/gpu-0", listed=(entry("other"),))
    (group,) = told(claim("c"), holding, nodes=[node("n1"), node("n2"), node("n3")], slices=[fabric]).groups
    assert (group.count, [(holder.claim[1], holder.devices) for holder in group.holders]) == (3, [("held", 1)])


def test_a_group_has_numbers_and_says_who_has_the_devices():
    (group,) = told(claim("c"), *FULL, workloads=ALIVE).groups
    (devices,) = group.barriers[0].devices
    assert (devices.asked, devices.offered, devices.held) == (1, 2, 2)
    assert len(group.holders) + group.others == 6
    assert all(holder.devices == 1 for holder in group.holders)


@for_each_case(
    [
        pytest.param(told(waits=("c",)), {ProblemCode.CLAIM_MISSING}, id="no-such-claim"),
        pytest.param(told(claim("c"), spec=GATE), {ProblemCode.GATED}, id="gated-and-nobody-there"),
        pytest.param(told(claim("c"), spec=GATE, leader=SOMEBODY), set(), id="gated-and-somebody-there"),
        pytest.param(
            told(claim("c"), spec={"schedulingGates": [{"name": "kueue"}]}),
            {ProblemCode.GATED_BY_OTHERS},
            id="gate-of-others",
        ),
        pytest.param(
            told(claim("c"), spec={"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}),
            {ProblemCode.NOT_ADMITTED},
            id="kueue-admits-no-pod-that-names-a-claim",
        ),
        pytest.param(
            told(claim("c"), spec={"schedulingGates": [{"name": "kueue"}, {"name": "reserve.dra/claim"}]}),
            {ProblemCode.GATED_BY_OTHERS, ProblemCode.GATED},
            id="a-second-gate-does-not-hide-ours",
        ),
        pytest.param(told(claim("c", count=9)), {ProblemCode.UNSATISFIABLE}, id="more-devices-than-any-node-has"),
        pytest.param(
            told(claim("c", count=9), *FULL, workloads=ALIVE),
            {ProblemCode.UNSATISFIABLE},
            id="more-devices-than-any-node-has-whoever-holds-them",
        ),
        pytest.param(told(claim("c")), {ProblemCode.NOT_TRIED}, id="no-scheduler-has-tried"),
        pytest.param(told(claim("c"), status=SAID), {ProblemCode.REFUSED}, id="the-scheduler-has-a-reason-of-its-own"),
        pytest.param(
            told(
                claim("c", "n1/gpu-0", listed=(entry("a"),)),
                spec={"on": "n1", "metadata": {"deletionTimestamp": "2026-11-20T12:00:00Z"}},
                nodes=[node("n1", ready=False), node("n2")],
            ),
            {ProblemCode.TERMINATING},
            id="being-deleted-on-a-silent-node",
        ),
        pytest.param(
            told(spec={"resourceClaims": [{"name": "x", "resourceClaimTemplateName": "t"}]}, waits=()),
            {ProblemCode.TEMPLATE_MISSING},
            id="no-such-template",
        ),
        pytest.param(
            told(
                spec={"resourceClaims": [{"name": "x", "resourceClaimTemplateName": "t"}]},
                waits=(),
                templates=[{"metadata": {"namespace": "ml", "name": "t"}}],
            ),
            {ProblemCode.CLAIM_NOT_MADE},
            id="nobody-makes-its-claim",
        ),
        pytest.param(
            told(
                claim("c", "n1/gpu-0", listed=(entry("a"),)),
                spec={"on": "n1"},
                nodes=[node("n1", ready=False), node("n2")],
            ),
            {ProblemCode.NODE_NOT_READY},
            id="bound-to-a-silent-node",
        ),
        pytest.param(
            told(refused(), spec={"on": "n1"}),
            {ProblemCode.PREPARE_REFUSED},
            id="its-node-refuses-the-claim",
        ),
        pytest.param(told(refused(), spec={"on": "n1", "started": True}), set(), id="it-has-started-all-the-same"),
        pytest.param(
            told(
                claim("c"),
                *(claim(f"x{i}", f"{on}/gpu-{i}", listed=(entry("b"),)) for on in ("n1",) for i in (0, 1)),
                nodes=[node("n1")],
            ),
            {ProblemCode.NOT_FREED, ProblemCode.UNSCHEDULABLE},
            id="devices-that-nobody-gives-back",
        ),
    ],
)
def test_what_is_wrong_with_a_pod(facts, troubles):
    assert {problem.code for problem in facts.problems} == troubles


@pytest.mark.parametrize(
    ("others", "similar"),
    [
        pytest.param((), "", id="no-other-claim"),
        pytest.param((claim("eval"),), "", id="another-name"),
        pytest.param((claim("trian"), claim("train", namespace="lm")), "ml/trian", id="a-misspelled-name-comes-first"),
        pytest.param((claim("train", namespace="lm"),), "lm/train", id="the-name-in-another-namespace"),
        pytest.param((claim("trian", namespace="lm"),), "", id="a-misspelled-name-in-another-namespace"),
    ],
)
def test_a_missing_claim_is_reported_with_a_claim_that_the_pod_may_mean(others, similar):
    (problem,) = told(*others, waits=("train",)).problems
    assert problem.code is ProblemCode.CLAIM_MISSING
    assert problem.facts_by_name["similar"] == similar


def test_what_is_impossible_is_not_waited_for():
    facts = told(claim("c", count=9), *FULL, workloads=ALIVE)
    (problem,) = facts.problems
    assert problem.facts_by_name["error"] == "request gpu wants 9 devices, and no node has more than 2"
    assert facts.advice.way is AdvisedAction.NONE


def test_what_the_scheduler_says_is_told_where_nothing_else_is_known():
    (problem,) = told(claim("c"), status=SAID).problems
    assert problem.facts_by_name["message"] == "0/3: affinity"


def test_a_thousand_pods_behind_our_gate_are_one_thing_to_do():
    gated = tuple(pod(f"p{number}", "c", **GATE) for number in range(1000))
    (problem,) = audit(cluster_state(claim("c"), pods=gated))
    assert (problem.code, problem.subject.kind) == (ProblemCode.NO_CONTROLLER, "Lease")
    assert problem.facts_by_name["gated"] == 1000
    assert audit(cluster_state(claim("c"), pods=gated, leader=SOMEBODY)) == ()


def test_a_class_that_is_not_there_is_named():
    wrong = claim("c")
    wrong["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "nope"
    (problem,) = told(wrong).problems
    assert problem.code is ProblemCode.UNSATISFIABLE
    assert problem.facts_by_name["error"] == "request gpu: device class nope does not exist; there are gpu.example.com"


def test_a_class_is_not_called_missing_where_classes_may_not_be_read():
    wrong = claim("c")
    wrong["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "nope"
    gaps = (UnreadResource(resource="deviceclasses.resource.k8s.io", why="no right"),)
    unread = msgspec.structs.replace(snapshot(wrong, pods=(pod("a", "c"),)), classes=(), gaps=gaps)
    assert pods.explain(ClusterState(unread), KEY).problems == ()


def test_a_node_is_not_called_silent_where_nodes_may_not_be_read():
    bound = snapshot(claim("c", "n1/gpu-0", listed=(entry("a"),)), pods=(pod("a", "c", on="n1"),))
    gaps = (UnreadResource(resource="nodes", why="no right"),)
    assert pods.explain(ClusterState(msgspec.structs.replace(bound, nodes=(), gaps=gaps)), KEY).problems == ()
    gone = pods.explain(ClusterState(msgspec.structs.replace(bound, nodes=())), KEY)
    assert {each.code for each in gone.problems} == {ProblemCode.NODE_NOT_READY}


def test_no_node_is_called_without_devices_where_slices_may_not_be_read():
    gaps = (UnreadResource(resource="resourceslices.resource.k8s.io", why="no right"),)
    waiting = snapshot(claim("c", count=9), pods=(pod("a", "c"),))
    facts = pods.explain(ClusterState(msgspec.structs.replace(waiting, slices=(), gaps=gaps)), KEY)
    assert (facts.problems, facts.groups) == ((), ())


def test_an_audit_tells_once_of_a_claim_that_pods_wait_for_in_vain():
    wrong = claim("c")
    wrong["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "nope"
    (problem,) = audit(cluster_state(wrong, pods=(pod("a", "c"), pod("b", "c")), leader=SOMEBODY))
    assert (problem.code, problem.subject.key) == (ProblemCode.UNSATISFIABLE, KEY)


def costly(**resources):
    found = offer("n1", devices=0)
    found["spec"]["devices"] = [{"name": "gpu-0", "nodeAllocatableResources": resources}]
    return found


def test_a_node_lacks_what_its_devices_cost():
    slice_ = costly(cpu={"overhead": {"perPod": "7500m"}})
    (group,) = told(claim("c"), nodes=[node("n1")], slices=[slice_]).groups
    assert [each.obstacle for each in group.barriers] == [Obstacle.ROOM]
    assert group.barriers[0].detail == "with its devices: cpu: 8.5 requested, 8 of 8 free"


def test_a_claim_that_stands_for_resources_of_a_node_is_for_one_pod():
    slice_ = costly(cpu={"mapping": {"deviceMultiplier": "1"}})
    (group,) = told(claim("c", "n1/gpu-0", listed=(entry("other"),)), nodes=[node("n1")], slices=[slice_]).groups
    why = "claim c stands for resources of its node, is used by another pod, and is for one pod only"
    assert [(each.obstacle, each.detail) for each in group.barriers] == [(Obstacle.DEVICES, why)]


@pytest.mark.parametrize(
    ("owners", "owner"),
    [
        pytest.param([], "", id="nobody-replaces-it"),
        pytest.param([REPLICA_SET], "replicaset web", id="a-controller-replaces-it"),
    ],
)
def test_a_refused_claim_is_told_with_the_reason_and_who_replaces_the_pod(owners, owner):
    (problem,) = told(refused(), spec={"on": "n1", "metadata": {"ownerReferences": owners}}).problems
    facts = problem.facts_by_name
    assert (facts["node"], facts["claim"], facts["cause"], facts["owner"]) == ("n1", "c", "CPUsInUse", owner)


def of_a_missing_class(name):
    found = claim(name)
    found["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "nope"
    return found


TEMPLATED = {"resourceClaims": [{"name": "x", "resourceClaimTemplateName": "t"}]}
TEMPLATE = {"metadata": {"namespace": "ml", "name": "t"}}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(told(waits=("absent",)), id="the-claim-is-missing"),
        pytest.param(told(spec=TEMPLATED, waits=()), id="the-template-is-missing"),
        pytest.param(told(spec=TEMPLATED, waits=(), templates=[TEMPLATE]), id="the-claim-is-not-made-yet"),
        pytest.param(told(claim("c"), of_a_missing_class("d"), waits=("c", "d")), id="a-class-of-one-claim-is-missing"),
    ],
)
def test_no_node_is_said_to_run_a_pod_whose_claims_cannot_be_allocated(facts):
    assert (facts.groups, len(facts.problems)) == ((), 1)


@pytest.mark.parametrize(("leader", "running"), [(NOBODY, 0), (SOMEBODY, 1)])
def test_a_claim_that_is_not_made_is_told_with_whether_a_controller_runs(leader, running):
    (problem,) = told(spec=TEMPLATED, waits=(), templates=[TEMPLATE], leader=leader).problems
    assert (problem.code, problem.facts_by_name["running"]) == (ProblemCode.CLAIM_NOT_MADE, running)


@pytest.mark.parametrize(
    ("message", "negative"),
    [
        pytest.param("consumed capacity memory of device d must not be negative", 1, id="of-any-claim"),
        pytest.param("0/3: affinity", 0, id="another-reason"),
    ],
)
def test_a_negative_amount_of_another_claim_is_recognized_in_the_schedulers_message(message, negative):
    condition = SAID["conditions"][0] | {"message": message}
    found = told(claim("c"), status=SAID | {"conditions": [condition]})
    (problem,) = [each for each in found.problems if each.code is ProblemCode.REFUSED]
    assert problem.facts_by_name["negative"] == negative
