"""Reservations in a play: who lands on them, who is charged for them, and whose the devices are that they hold."""

import msgspec
import pytest

from dra.model.meta import ObjectMeta, UnstructuredObject
from tests.dra.cli.kubectl.simulate.manifests import manifest, placed, template, using
from tests.dra.engine.diagnosis.cluster_states import claim, node, offer, pod, snapshot


def reservation(name, cpu=6, *, once=False, on="", claims=(), status=None, **template_spec):
    """A Reservation for pods with label app=mine; on a node it is available."""
    containers = [{"resources": {"requests": {"cpu": str(cpu)}}}]
    entries = [{"name": f"d{number}", "resourceClaimTemplateName": each} for number, each in enumerate(claims)]
    spec = {"containers": containers, **({"resourceClaims": entries} if entries else {}), **template_spec}
    content = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name},
        "spec": {
            "template": {"metadata": {"namespace": "ml"}, "spec": spec},
            "owners": [{"labelSelector": {"matchLabels": {"app": "mine"}}}],
            "allocateOnce": once,
            "ttl": "0s",
        },
    }
    if on:
        content["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": "1"}
        content["status"] = {"phase": "Available", "nodeName": on, "allocatable": {"cpu": str(cpu)}} | (status or {})
    return content


def having(*reservations, **more):
    """A cluster of one node with eight CPUs and two devices, and these Reservations."""
    made = [
        UnstructuredObject(metadata=msgspec.convert(each["metadata"], ObjectMeta), content=each)
        for each in reservations
    ]
    found = snapshot(*more.pop("claims", ()), **({"nodes": [node("n1")]} | more))
    return msgspec.structs.replace(found, reservations=tuple(made))


def mine(name, cpu=3, **more):
    return manifest("Pod", name, using(cpu=cpu, **more), labels={"app": "mine"})


def others(name, cpu=3, **more):
    return manifest("Pod", name, using(cpu=cpu, **more))


def test_a_reservation_of_the_manifests_is_placed_first_its_owners_land_on_it_and_others_are_charged(simulate):
    found = simulate(others("x"), mine("a"), reservation("r"), mine("b"), cluster=having())
    assert found["r"]["kind"] == "Reservation"
    assert found["r"]["node"] == "n1"
    assert placed(found) == {"r", "a", "b"}
    assert {name: each["reservation"] for name, each in found.items()} == {"r": "", "a": "r", "b": "r", "x": ""}
    assert "cpu" in found["x"]["why"]


def test_a_reservation_takes_the_place_of_a_running_pod(simulate):
    """kube-scheduler counts the running pod, so a placeholder that requests 7 more would be refused first."""
    seven = [{"name": "main", "resources": {"requests": {"cpu": "7"}}}]
    running = pod("old", on="n1", containers=seven, metadata={"labels": {"app": "mine"}}, phase="Running")
    over = reservation("r", cpu=7)
    over["spec"] |= {"preAllocation": True, "allocatePolicy": "Restricted"}
    there = reservation("there", cpu=1, on="n2")  # a bundle keeps the labels of pods that selectors in it name
    cluster = having(there, nodes=[node("n1"), node("n2", cpu="1")], pods=[running])
    found = simulate(over, mine("a", cpu=7), cluster=cluster)
    assert (found["r"]["node"], found["a"]["node"]) == ("n1", "")


def test_one_that_is_there_counts_as_well(simulate):
    cluster = having(reservation("r", on="n1"))
    assert placed(simulate(others("x"), mine("a"), cluster=cluster)) == {"a"}
    assert placed(simulate(others("x", cpu=2), mine("a"), cluster=cluster)) == {"x", "a"}


def test_one_for_once_is_over_with_its_first_owner_and_lets_go_of_the_rest(simulate):
    found = simulate(mine("a", 1), mine("b", 1), others("x"), cluster=having(reservation("r", once=True, on="n1")))
    assert placed(found) == {"a", "b", "x"}
    assert [found[name]["reservation"] for name in ("a", "b")] == ["r", ""]


@pytest.mark.parametrize(
    ("options", "there"),
    [
        pytest.param((), {"a"}, id="as-it-is"),
        pytest.param(("--drop-reservation=reservation/r",), {"x", "a"}, id="dropped"),
        pytest.param(("--add-nodes=n1=1",), {"x", "a"}, id="another-node"),
        pytest.param(("--cordon=n1",), set(), id="cordoned"),
    ],
)
def test_a_change_of_the_cluster_can_be_tried(simulate, options, there):
    cluster = having(reservation("r", on="n1"))
    assert placed(simulate(others("x"), mine("a"), cluster=cluster, options=options)) == there


def test_what_is_not_there_cannot_be_dropped(simulate):
    done = simulate(mine("a"), cluster=having(), options=("--drop-reservation=reservation/nope",))
    assert "reservation nope: not found" in done.stderr


def test_a_reservation_that_finds_no_room_says_so(simulate):
    found = simulate(reservation("r", cpu=9), cluster=having())
    assert not found["r"]["placed"]
    assert "Insufficient cpu" in found["r"]["why"]


def test_one_that_waits_in_the_cluster_has_its_turn(simulate):
    pending = reservation("r")
    pending["metadata"] |= {"uid": "uid-r", "resourceVersion": "1"}
    assert simulate(mine("a"), cluster=having(pending))["a"]["reservation"] == "r"


def test_devices_that_a_reservation_holds_go_to_its_owners_by_identity(simulate):
    found = simulate(
        template("t"),
        reservation("r", cpu=1, claims=("t",)),
        manifest("Pod", "a", using(template="t", cpu=1), labels={"app": "mine"}),
        others("x", cpu=1, template=None),
        manifest("Pod", "y", using(template="t", cpu=1)),
        cluster=having(),
    )
    assert found["a"]["reservation"] == "r"
    assert found["a"]["claims"] == found["r"]["claims"]
    assert found["a"]["devices"] == found["r"]["devices"]
    assert set(found["y"]["devices"]).isdisjoint(found["r"]["devices"])


def held(name="r", **more):
    """A claim that a Reservation holds."""
    entry = {"apiGroup": "scheduling.koordinator.sh", "resource": "reservations", "name": name, "uid": f"uid-{name}"}
    owner = {"apiVersion": entry["apiGroup"] + "/v1alpha1", "kind": "Reservation", "name": name, "uid": entry["uid"]}
    return claim("h", "n1/gpu-0", listed=(entry,), ownerReferences=[owner]) | more


def test_held_claims_of_the_cluster_go_to_its_owners_and_to_nobody_else(simulate):
    cluster = having(reservation("r", cpu=1, claims=("t",), on="n1"), claims=(held(),))
    documents = (template("t"), *(manifest("Pod", n, using(template="t", cpu=1)) for n in ("x", "y")))
    assert len(placed(simulate(*documents, cluster=cluster))) == 1
    owner = manifest("Pod", "a", using(template="t", cpu=1), labels={"app": "mine"})
    found = simulate(template("t"), owner, cluster=cluster)
    assert (found["a"]["claims"], found["a"]["devices"]) == (["h"], ["gpu.example.com/n1/gpu-0"])
    dropped = simulate(*documents, cluster=cluster, options=("--drop-reservation=reservation/r",))
    assert len(placed(dropped)) == 2


def test_nobody_is_ended_for_room_that_would_be_held_for_others(simulate):
    running = pod("v", on="n1", phase="Running", containers=[{"resources": {"requests": {"cpu": "5"}}}])
    urgent = {"metadata": {"name": "urgent"}, "value": 9}
    cluster = having(reservation("r", cpu=3, on="n1"), pods=(running,), priorities=[urgent])
    for cpu, ended in ((5, ["v"]), (6, [])):
        found = simulate(others("x", cpu, priorityClassName="urgent"), cluster=cluster)["x"]
        assert [each["name"] for each in found["preempts"]] == ended


def test_a_reservation_that_cannot_be_read_is_an_error(simulate):
    wrong = reservation("r")
    wrong["spec"]["owner"] = []
    assert "Reservation r" in simulate(wrong, cluster=having()).stderr


def test_an_added_node_takes_a_reservation_too(simulate):
    cluster = having(reservation("r", on="n1"), slices=[offer("n1")])
    found = simulate(reservation("s", cpu=8), cluster=cluster, options=("--add-nodes=n1=1",))
    assert found["s"]["node"] == "n1-more-1"


RESIZE = "scheduling.koordinator.sh/reservation-resize-allocatable"


@pytest.mark.parametrize("text", ["{bad", "[]", '{"resources": {"cpu": "x"}}'], ids=["no-json", "a-list", "no-amount"])
def test_a_reservation_that_somebody_annotated_badly_is_left_out_and_no_reason_to_give_up(simulate, text):
    """Whoever may annotate one Reservation ended every simulation of the cluster with a trace back."""
    bad = reservation("bad")
    bad["metadata"] |= {"uid": "uid-bad", "resourceVersion": "1", "annotations": {RESIZE: text}}
    found = simulate(others("x"), cluster=having(bad))
    assert placed(found) == {"x"}


def test_a_reservation_of_the_manifests_that_is_annotated_badly_is_an_error_with_its_name(simulate):
    bad = reservation("bad")
    bad["metadata"]["annotations"] = {RESIZE: "{bad"}
    done = simulate(bad, cluster=having())
    assert done.exit_code == 2
    assert "reservation bad: annotation " in done.stderr
