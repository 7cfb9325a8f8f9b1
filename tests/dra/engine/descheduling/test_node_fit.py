import json

import pytest

from tests.dra.engine.descheduling.clusters import node, pod, reservation, snapshot

NO_SCHEDULE = {"key": "a", "value": "b", "effect": "NoSchedule"}
NO_EXECUTE = {"key": "a", "value": "b", "effect": "NoExecute"}
PREFER = {"key": "a", "value": "b", "effect": "PreferNoSchedule"}
EXISTS = [{"operator": "Exists"}]
ZONE = "topology.kubernetes.io/zone"


def affinity(key, *values, operator="In"):
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def reason(target, candidate=None, *others, **objects):
    """Return why a pod of n1 does not fit on a node."""
    candidate = candidate or pod()
    found = snapshot([node("n1"), target], [candidate, *others], **objects)
    said = found.unfit_reason(candidate, target.metadata.name)
    assert (found.fitting_node(candidate) == target.metadata.name) is (not said)
    return said


@pytest.mark.parametrize(
    ("target", "spec", "said"),
    [
        pytest.param({}, {}, "", id="an-empty-node"),
        pytest.param({"ready": False}, {}, "node(s) were not ready", id="not-ready"),
        pytest.param({"unschedulable": True}, {}, "node(s) were unschedulable", id="cordoned"),
        pytest.param({"unschedulable": True}, {"tolerations": EXISTS}, "", id="cordoned-and-tolerated"),
        pytest.param({"taints": [NO_SCHEDULE]}, {}, "node(s) had untolerated taint {a: b}", id="NoSchedule"),
        pytest.param({"taints": [NO_EXECUTE]}, {}, "node(s) had untolerated taint {a: b}", id="NoExecute"),
        pytest.param({"taints": [PREFER]}, {}, "", id="PreferNoSchedule-does-not-filter"),
        pytest.param(
            {"taints": [NO_SCHEDULE, NO_EXECUTE]}, {"tolerations": EXISTS}, "", id="one-toleration-for-two-taints"
        ),
        pytest.param(
            {}, {"nodeSelector": {"disk": "ssd"}}, "node(s) didn't match Pod's node affinity/selector", id="selector"
        ),
        pytest.param({"labels": {"disk": "ssd"}}, {"nodeSelector": {"disk": "ssd"}}, "", id="selector-matches"),
        pytest.param(
            {}, {"affinity": affinity(ZONE, "a")}, "node(s) didn't match Pod's node affinity/selector", id="affinity"
        ),
        pytest.param({"labels": {ZONE: "a"}}, {"affinity": affinity(ZONE, "a")}, "", id="affinity-matches"),
        pytest.param({"cpu": "999m"}, {}, "Insufficient cpu", id="cpu"),
        pytest.param({"pods": "0"}, {}, "Too many pods", id="pods"),
    ],
)
def test_filters_of_one_node(target, spec, said):
    assert reason(node("n2", **target), pod(**spec)) == said


def ports(*numbers, ip="", protocol="TCP"):
    listed = [{"containerPort": n, "hostPort": n, "hostIP": ip, "protocol": protocol} for n in numbers]
    return [{"name": "c", "image": "i", "ports": listed}]


@pytest.mark.parametrize(
    ("own", "other", "fits"),
    [
        pytest.param(ports(80), ports(80), False, id="taken"),
        pytest.param(ports(80), ports(81), True, id="another-port"),
        pytest.param(ports(80, ip="10.0.0.1"), ports(80, ip="10.0.0.2"), True, id="another-address"),
        pytest.param(ports(80, ip="10.0.0.1"), ports(80), False, id="all-addresses"),
        pytest.param(ports(80), ports(80, protocol="UDP"), True, id="another-protocol"),
    ],
)
def test_host_ports(own, other, fits):
    said = reason(node("n2"), pod(containers=own), pod("q", on="n2", owner="db", containers=other))
    assert said == ("" if fits else "node(s) didn't have free ports for the requested pod ports")


def test_what_a_node_reservation_keeps_is_never_free():
    kept = {"node.koordinator.sh/reservation": json.dumps({"resources": {"cpu": "3500m"}})}
    assert reason(node("n2", annotations=kept)) == "Insufficient cpu"


def test_what_a_reservation_holds_is_free_for_its_owners_alone():
    held = reservation(on="n2", cpu="4")
    assert reason(node("n2"), pod(owner="web"), reservations=[held]) == ""
    assert reason(node("n2"), pod(owner="db"), reservations=[held]) == "Insufficient cpu"


def test_host_ports_of_a_reservation_are_held():
    template = {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}}
    held = reservation(on="n2", template=template)
    said = reason(node("n2"), pod(owner="db", containers=ports(80)), reservations=[held])
    assert said == "node(s) didn't have free ports for the requested pod ports"


def test_a_bound_placeholder_counts_until_its_reservation_holds_the_node():
    owner = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "name": "r",
        "uid": "uid-r",
        "controller": True,
    }
    waiting = pod("reservation-uid-r", on="n2", cpu="3", owner="", metadata={"ownerReferences": [owner]})
    candidate = pod(owner="db", cpu="2")
    assert reason(node("n2"), candidate, waiting, reservations=[reservation(on="")]) == "Insufficient cpu"
    assert reason(node("n2"), candidate, waiting, reservations=[reservation(on="n2", cpu="2")]) == ""


def test_a_pod_does_not_count_on_its_own_node():
    candidate = pod(cpu="4", containers=[{"resources": {"requests": {"cpu": "4"}}, "ports": ports(80)[0]["ports"]}])
    assert snapshot([node("n1")], [candidate]).unfit_reason(candidate, "n1") == ""


def test_the_node_with_the_most_free_is_chosen_and_of_equals_the_first_by_name():
    nodes = [node(name) for name in ("n1", "n4", "n3", "n2")]
    candidate = pod()
    assert snapshot(nodes, [candidate]).fitting_node(candidate) == "n2"
    assert snapshot(nodes, [candidate, pod("q", on="n2")]).fitting_node(candidate) == "n3"


@pytest.mark.parametrize(
    ("among", "chosen"),
    [
        pytest.param(None, "n2", id="all"),
        pytest.param({"n3"}, "n3", id="one-receiver"),
        pytest.param({"n1"}, "", id="never-the-own-node"),
        pytest.param({"gone"}, "", id="an-unknown-node"),
        pytest.param((), "", id="nobody"),
    ],
)
def test_only_receivers_are_asked(among, chosen):
    candidate = pod()
    assert snapshot([node("n1"), node("n2"), node("n3")], [candidate]).fitting_node(candidate, among=among) == chosen


def test_an_unknown_node_is_named():
    assert snapshot([node("n1")]).unfit_reason(pod(), "gone") == "node gone: not found"
