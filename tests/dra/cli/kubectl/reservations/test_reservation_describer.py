"""What `kubectl dra why` and `kubectl dra reservations` say of reservations."""

import json
from datetime import UTC, datetime

import msgspec
import pytest

from dra.cli.kubectl.printers import remedy_text
from dra.cli.kubectl.reservations import reservation_describer, reservation_list, reservation_snapshot
from dra.engine.diagnosis import reservations as explaining
from dra.engine.diagnosis.snapshot import Snapshot
from dra.model.claims import ResourceClaim
from dra.model.meta import ObjectMeta, UnstructuredObject
from dra.model.scheduling import SchedulerNode, SchedulerPod
from tests.dra.api.reservations.manifests import manifest
from tests.dra.engine.diagnosis import cluster_states
from tests.violations import for_each_case

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
BORN = "2026-11-21T11:30:00Z"


def reservation(name, cpu, *, node="", app="", **spec):
    """Return one that has its place on a node, or looks for one."""
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    owners = [{"labelSelector": {"matchLabels": {"app": app or name}}}]
    made = manifest(name, template={"spec": {"containers": [container]}}, owners=owners, **spec)
    made["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": "1", "creationTimestamp": BORN}
    if node:
        made["status"] = {"phase": "Available", "nodeName": node, "allocatable": {"cpu": cpu}}
    return made


def host(name, cpu="64"):
    status = {"allocatable": {"cpu": cpu, "memory": "256Gi", "pods": "110"}}
    return msgspec.convert({"metadata": {"name": name}, "status": status}, SchedulerNode)


def pod(name, cpu, *, app="", node="", inside="", claims=(), **metadata):
    annotations = dict(metadata.pop("annotations", {}))
    if inside:
        annotations["scheduling.koordinator.sh/reservation-allocated"] = f'{{"name":"x","uid":"uid-{inside}"}}'
    content = {
        "metadata": {
            "namespace": "default",
            "name": name,
            "uid": f"uid-{name}",
            "labels": {"app": app},
            "annotations": annotations,
            **metadata,
        },
        "spec": {
            "nodeName": node,
            "containers": [{"resources": {"requests": {"cpu": cpu}}}],
            "resourceClaims": list(claims),
        },
    }
    return msgspec.convert(content, SchedulerPod)


def found(*, reservations=(), nodes=(), pods=()):
    made = reservation_snapshot.ReservationSnapshot()
    metas = [msgspec.convert(each["metadata"], ObjectMeta) for each in reservations]
    objects = [UnstructuredObject(metadata=meta, content=each) for meta, each in zip(metas, reservations, strict=True)]
    reservation_snapshot.fill_snapshot(made, reservations=objects, nodes=list(nodes), pods=list(pods))
    return made


def asked(made, name):
    (meant,) = (each for each in made.pods.values() if each.metadata.name == name)
    advice = explaining.pod_reservations(made.cache, made.cache.pod_info(meant), made.nodes)
    return list(reservation_describer.pod_reservation_lines(advice))


def told(made, name):
    meant = made.reservation(name)
    groups = reservation_describer._placement_groups(made, meant)
    return list(
        reservation_describer.describe_reservation(
            made, meant, groups, reservation_describer.find_problem(made, meant, groups), now=NOON
        )
    )


def test_a_pod_that_finds_no_room_hears_who_holds_it_and_how_much():
    made = found(
        reservations=[reservation("half", "60", node="n1")],
        nodes=[host("n1"), host("n2", "8")],
        pods=[pod("stranger", "12")],
    )
    numbers = "12 requested, 4 of 64 free, 60 held by reservation half"
    assert asked(made, "stranger") == [
        "  reserved  1 more for other pods",
        f"  extender  1 nodes (n1): insufficient cpu of the node: {numbers}",
        "  extender  1 nodes (n2): insufficient cpu of the node: 12 requested, 8 of 8 free",
    ]


def test_an_owner_hears_of_held_devices_that_are_not_for_its_claims():
    mine = reservation("mine", "60", node="n1")
    mine["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"koordinator.sh/gpu": "800"}
    claims = {f"koord-gpu-c{percent}-r{percent}-s{percent // 100}": {} for percent in (100, 800)}
    small, same = (
        pod(name, "12", app="mine", claims=[{"name": "koord-gpu-0", "resourceClaimTemplateName": template}])
        for name, template in zip(("small", "same"), claims, strict=True)
    )
    made = found(reservations=[mine], nodes=[host("n1")], pods=[small, same])
    free = "  reserved  reservation mine on node n1: the pod may use it if enough is free"
    assert asked(made, "same")[0] == free
    assert asked(made, "small")[0] == (
        f"{free}, but not its devices: it holds koord-gpu-c800-r800-s8, and the pod asks for other claims"
    )


def cards(name, percent):
    """Return a reservation of whole cards."""
    made = reservation(name, "8", node="n1", app="mine")
    made["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"koordinator.sh/gpu": percent}
    return made


def asking(name, cards, **more):
    template = f"koord-gpu-c{cards}00-r{cards}00-s{cards}"
    claims = [{"name": "koord-gpu-0", "resourceClaimTemplateName": template}]
    return pod(name, "1", claims=claims, **({"app": "mine"} | more))


@for_each_case(
    [
        pytest.param([cards("r", "800")], [asking("b", 1), asking("a", 1)], "default/b, default/a", id="one-of-eight"),
        pytest.param([cards("r", "800")], [asking("a", 8)], "", id="the-same"),
        pytest.param([cards("r", "800")], [asking("a", 1, node="n1")], "", id="no-pod-waits"),
        pytest.param([cards("r", "800")], [asking("a", 1, app="x")], "", id="no-owner"),
        pytest.param([cards("r", "800")], [pod("a", "1", app="mine")], "", id="no-claims"),
        pytest.param([cards("r", "800"), cards("s", "100")], [asking("a", 1)], "", id="meant-for-another-one"),
        pytest.param([reservation("r", "8", node="n1", app="mine")], [asking("a", 1)], "", id="no-claims-held"),
    ]
)
def test_a_reservation_tells_of_owners_that_wait_for_a_part_of_its_claims(reservations, pods, names):
    made = found(reservations=reservations, nodes=[host("n1")], pods=pods)
    problem = reservation_describer.find_problem(made, made.reservation("r"))
    held = "pods that wait ask for other claims than koord-gpu-c800-r800-s8, which it holds as a whole: "
    assert (problem[0] if problem else "") == (held + names if names else "")
    if problem:
        assert remedy_text(problem[1]).startswith("create a Reservation for each such pod")


def test_as_many_waiting_owners_are_compared_as_can_be_named():
    pods = [asking(f"p{number}", 1) for number in range(5000)]
    made = found(reservations=[cards("r", "800")], nodes=[host("n1")], pods=pods)
    assert len([*reservation_describer._waiting_owners(made, made.cache.reservation("uid-r").info)]) == 16


def test_an_owner_hears_which_reservation_it_would_run_in():
    made = found(
        reservations=[reservation("mine", "60", node="n1")], nodes=[host("n1")], pods=[pod("owner", "12", app="mine")]
    )
    assert asked(made, "owner") == [
        "  reserved  reservation mine on node n1: the pod may use it if enough is free",
        "  extender  1 nodes (n1): has room for it, in reservation mine",
    ]


def test_nodes_that_say_the_same_are_one_group():
    made = found(nodes=[host(f"n{number}") for number in range(9)], pods=[pod("greedy", "65")])
    assert asked(made, "greedy") == [
        "  extender  9 nodes (n0, n1, n2, …): insufficient cpu of the node: 65 requested, 64 of 64 free"
    ]


def test_an_owner_whose_reservation_is_used_up_hears_so():
    once = reservation("once", "4", node="n1")
    once["status"]["currentOwners"] = [{"namespace": "default", "name": "first", "uid": "uid-first"}]
    made = found(
        reservations=[once],
        nodes=[host("n1", "4")],
        pods=[pod("first", "4", app="once", node="n1", inside="once"), pod("second", "4", app="once")],
    )
    assert "has allocateOnce enabled and has already been allocated" in asked(made, "second")[0]
    assert asked(made, "first") == ["  inside    reservation once"]


def test_a_reservation_says_where_it_is_who_has_it_and_until_when():
    many = reservation("many", "6", node="n1", allocateOnce=False)
    many["status"]["currentOwners"] = [{"namespace": "default", "name": "a", "uid": "uid-a"}]
    made = found(reservations=[many], nodes=[host("n1")], pods=[pod("a", "2", app="many", node="n1", inside="many")])
    assert told(made, "many") == [
        "reservation many: Available on node n1",
        "  held      cpu=6",
        "  used      cpu=2 by 1 pods; cpu=4 free",
        "  for       pods with labels app=many, in any namespace; reusable by one owner pod after another",
        "  note      spec.owners[0]: no namespace is set; any user who can create pods in any namespace can use it",
        "  owner     pod default/a",
        "  ends      in 30m, at 2026-11-21T12:30:00Z",
    ]


def test_a_reservation_that_waits_hears_each_group_of_nodes_and_what_to_look_at():
    made = found(
        reservations=[reservation("wide", "60"), reservation("half", "32", node="n1")],
        nodes=[host("n1"), host("n2", "8")],
    )
    lines = told(made, "wide")
    assert (
        "  nodes     1 nodes (n1): insufficient cpu of the node: "
        "60 requested, 32 of 64 free, 32 held by reservation half" in lines
    )
    assert "  nodes     1 nodes (n2): insufficient cpu of the node: 60 requested, 8 of 8 free" in lines
    assert lines[-1] == "  next      kubectl describe reservation wide"


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        pytest.param("Available", None, id="available"),
        pytest.param("Succeeded", None, id="succeeded"),
        pytest.param("Failed", "holds no resources", id="failed"),
    ],
)
def test_only_what_is_of_no_use_is_trouble(phase, expected):
    one = reservation("one", "1", node="n1")
    one["status"]["phase"] = phase
    made = found(reservations=[one], nodes=[host("n1")])
    wrong = reservation_describer.find_problem(made, made.reservation("one"))
    assert (wrong is None) if expected is None else (wrong is not None and expected in wrong[0])


@pytest.mark.parametrize(
    ("node", "conditions", "expected"),
    [
        pytest.param("", [], "check that a scheduler runs with the name koord-scheduler", id="nobody-looks"),
        pytest.param("n1", [], "without calling the scheduler extender", id="no-extender"),
    ],
)
def test_one_that_waits_says_what_became_of_its_placeholder(node, conditions, expected):
    one = reservation("one", "1")
    made = found(reservations=[one], nodes=[host("n1")], pods=[placeholder(one, node=node, conditions=conditions)])
    text, remedy = reservation_describer.find_problem(made, made.reservation("one"))
    assert expected in text
    assert remedy_text(remedy).startswith("kubectl ")


REFUSED = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}]


@pytest.mark.parametrize(
    ("cpu", "nodes", "warning"),
    [
        pytest.param(
            "8",
            "insufficient cpu of the node: 8 requested, 7800m of 7800m free",
            "no node has enough free resources",
            id="no",
        ),
        pytest.param("7", "has room for it", "kube-scheduler found no node for its placeholder", id="room"),
    ],
)
def test_nodes_and_warning_do_not_contradict_each_other(cpu, nodes, warning):
    one = reservation("one", cpu)
    made = found(reservations=[one], nodes=[host("n1", "7800m")], pods=[placeholder(one, conditions=REFUSED)])
    lines = told(made, "one")
    assert f"  nodes     1 nodes (n1): {nodes}" in lines
    (line,) = (each for each in lines if "warning" in each)
    assert line.startswith(f"  warning   {warning}")


@pytest.mark.parametrize(
    ("nodes", "lines", "warning"),
    [
        pytest.param(
            {"n1": {}},
            ["1 nodes (n1): excluded by the node selector or affinity of its template"],
            "no node matches the node selector or affinity of its template: 0/1 nodes",
            id="no-node-has-the-label",
        ),
        pytest.param(
            {"n1": {}, "n2": {"zone": "a"}},
            [
                "1 nodes (n2): insufficient cpu of the node: 8 requested, 4 of 4 free",
                "1 nodes (n1): excluded by the node selector or affinity of its template",
            ],
            "no node that its template selects has enough free resources: 0/1 nodes",
            id="the-node-with-the-label-is-full",
        ),
    ],
)
def test_the_node_selector_of_a_template_is_told_as_the_cause(nodes, lines, warning):
    one = reservation("one", "8")
    waiting = placeholder(one, conditions=REFUSED)
    waiting = msgspec.structs.replace(waiting, spec=msgspec.structs.replace(waiting.spec, node_selector={"zone": "a"}))
    hosts = [
        msgspec.structs.replace(each, metadata=msgspec.structs.replace(each.metadata, labels=nodes[each.metadata.name]))
        for each in (host(name, "64" if not labels else "4") for name, labels in nodes.items())
    ]
    shown = told(found(reservations=[one], nodes=hosts, pods=[waiting]), "one")
    assert [each.removeprefix("  nodes     ") for each in shown if each.startswith("  nodes")] == lines
    assert f"  warning   {warning}" in shown


def test_running_pods_that_a_reservation_may_be_placed_over_are_told():
    one = reservation("one", "7", preAllocation=True, allocatePolicy="Restricted")
    made = found(reservations=[one], nodes=[host("n1", "7800m")], pods=[pod("old", "7", app="one", node="n1")])
    assert "  nodes     1 nodes (n1): has room for it, over 1 running pods that become its owners" in told(made, "one")


def placeholder(one, *, node="", conditions=()):
    owner = {"apiVersion": one["apiVersion"], "kind": "Reservation", "name": "one", "uid": "uid-one"}
    content = {
        "metadata": {
            "namespace": "default",
            "name": "reservation-uid-one",
            "uid": "p",
            "ownerReferences": [owner | {"controller": True}],
        },
        "spec": {"schedulerName": "koord-scheduler", "nodeName": node, "containers": []},
        "status": {"conditions": list(conditions)},
    }
    return msgspec.convert(content, SchedulerPod)


def test_a_reservation_that_cannot_be_read_is_told_and_harms_no_other():
    bad = reservation("bad", "1")
    bad["spec"]["ttl"] = "soon"
    made = found(reservations=[bad, reservation("good", "1", node="n1")], nodes=[host("n1")])
    assert "spec.ttl" in made.read_errors["bad"]
    assert made.reservation("bad") is None
    assert made.reservation("good") is not None
    assert reservation_list.reservation_row(made.objects["bad"], now=NOON).cells[:2] == ("bad", "Unreadable")


def test_a_row_has_what_is_used_of_what_is_held_and_when_it_ends():
    one = reservation("one", "500m", node="n1", ttl="24h")
    one["status"]["allocated"] = {"cpu": "200m"}
    made = found(reservations=[one], nodes=[host("n1")])
    row = reservation_list.reservation_row(made.objects["one"], now=NOON)
    assert row.cells == ("one", "Available", "n1", "cpu=200m", "cpu=500m", "0", "in 23h")
    assert row.wide == ("24h0m0s", "<none>", "pods with labels app=one, in any namespace")
    assert row.name == "reservation.scheduling.koordinator.sh/one"


@pytest.mark.parametrize(
    ("seconds", "text"), [(5, "5s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (200_000, "2d")]
)
def test_spans_are_written_as_ages_are(seconds, text):
    assert reservation_describer.human_duration(seconds) == text


def test_where_placeholders_keep_the_room_it_says_so_and_when_others_are_in_it():
    one = reservation("one", "6", node="n1")
    owner = {
        "apiVersion": one["apiVersion"],
        "kind": "Reservation",
        "name": "one",
        "uid": "uid-one",
        "controller": True,
    }
    made = [
        pod("reservation-uid-one", "4", node="n1", ownerReferences=[owner]),
        pod("reservation-uid-one-1", "2", ownerReferences=[owner], annotations={"reserve.dra/heir-of": "uid-p"}),
    ]
    staying = msgspec.structs.replace(made[0].spec, priority_class_name="dra-reserve-placeholder")
    made = [msgspec.structs.replace(each, spec=staying if each.spec.node_name else each.spec) for each in made]
    heir = msgspec.structs.replace(made[1].spec, priority_class_name="dra-reserve-placeholder")
    made[1] = msgspec.structs.replace(made[1], spec=heir)
    said = told(found(reservations=[one], nodes=[host("n1")], pods=made), "one")
    assert (
        "  held by   preemptible placeholder pods: 1 bound, 0 pending, 1 on standby for when an owner pod ends" in said
    )
    lost = {"type": "Held", "status": "False", "reason": "ReservedCapacityTaken", "message": "others have room"}
    one["status"]["conditions"] = [lost]
    said = told(found(reservations=[one], nodes=[host("n1")], pods=made), "one")
    assert said[-1] == "  next      kubectl get pods -A --field-selector spec.nodeName=n1"


def test_where_the_extender_keeps_it_no_placeholder_is_spoken_of():
    assert not [
        line for line in told(found(reservations=[reservation("one", "6", node="n1")]), "one") if "kept" in line
    ]


def test_a_reservation_is_told_with_the_claims_that_it_holds_and_their_devices():
    made = found(reservations=[reservation("one", "4", node="n1")], nodes=[host("n1")])
    uid = made.objects["one"].metadata.uid
    keeps = {"apiGroup": "scheduling.koordinator.sh", "resource": "reservations", "name": "one", "uid": uid}
    others = keeps | {"uid": "of-another"}
    content = [
        cluster_states.claim("gpus", "n1/gpu-0", "n1/gpu-1", listed=(keeps,)),
        cluster_states.claim("x", "n1/gpu-2", listed=(others,)),
    ]
    made.claims = tuple(msgspec.convert(each, ResourceClaim) for each in content)
    (line,) = (each for each in told(made, "one") if each.startswith("  claim"))
    assert line == "  claim     ml/gpus: gpu.example.com/n1/gpu-0, gpu.example.com/n1/gpu-1"
    row = reservation_list.reservation_row(made.objects["one"], now=NOON, claims=made.claims)
    assert row.wide[-2:] == ("ml/gpus", "gpu.example.com/n1/gpu-0,gpu.example.com/n1/gpu-1")
    assert reservation_list.reservation_row(made.objects["one"], now=NOON, claims=()).wide[-2:] == ("<none>", "<none>")


def test_a_pod_names_the_reservation_that_it_came_by_also_when_that_is_over():
    gone = json.dumps({"name": "one", "uid": "uid-of-one"})
    came = pod("a", "1", node="n1", annotations={"scheduling.koordinator.sh/reservation-allocated": gone})
    taken = Snapshot(pods=(came,), nodes=(host("n1"),), reservations=(other(),))
    lines, content = reservation_describer.describe_pod_reservations(taken, ("default", "a"))
    assert lines == ["  inside    reservation one, which has ended"]
    assert content == {"reservations": {"inside": "one"}}


def test_rejections_have_the_same_keys_in_json_as_ever():
    snapshot = Snapshot(pods=(pod("a", "8", app="other"),), nodes=(host("n1", "4"),), reservations=(other(),))
    _, content = reservation_describer.describe_pod_reservations(snapshot, ("default", "a"))
    (group,) = content["reservations"]["groups"]
    assert {"why": "NodeInsufficient", "subject": "cpu"}.items() <= group["refusals"][0].items()


def other():
    content = reservation("other", "4", node="n1")
    return UnstructuredObject(metadata=msgspec.convert(content["metadata"], ObjectMeta), content=content)


def test_the_reservation_of_a_migration_names_its_job():
    made = reservation("r", "2", node="n1")
    owner = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "PodMigrationJob", "name": "web-1-0a1b2c3d"}
    made["metadata"]["ownerReferences"] = [owner]
    lines = told(found(reservations=[made], nodes=[host("n1")]), "r")
    assert "  migration web-1-0a1b2c3d; see: kubectl dra explain migration web-1-0a1b2c3d" in lines
