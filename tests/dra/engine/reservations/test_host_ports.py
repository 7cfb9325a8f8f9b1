"""Host ports that reservations hold: nobody else's on their node, and an owner's."""

import msgspec
import pytest

from dra.api.reservations.well_known import LABEL_PRE_ALLOCATION_REQUIRED, TRUE
from dra.engine.kube_scheduler import host_ports
from dra.engine.kube_scheduler.host_ports import HostPort
from dra.engine.reservations import filters as filtering
from dra.engine.reservations import placeholders, pod_info
from dra.engine.reservations.accounting import AssumedPod, ReservationAccounting
from dra.engine.reservations.reservation_placement import ReservationPlacement
from dra.model.scheduling import SchedulerPod
from tests.dra.engine.reservations.examples import (
    ALIGNED,
    REQUIRED,
    RESTRICTED,
    node,
    of,
    pod,
    reservation,
    reservation_info,
)

HTTP = frozenset({HostPort(80)})
FREE = "node(s) didn't have free ports for the requested pod ports"


def container(**port):
    return {"name": "c", "image": "i", "ports": [{"containerPort": 8080, **port}]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"containers": [container()]}, set(), id="a-port-of-the-pod"),
        pytest.param({"containers": [container(hostPort=80)]}, {HostPort(80)}, id="a-port-of-the-host"),
        pytest.param(
            {"containers": [container(hostPort=80, protocol="UDP", hostIP="10.0.0.1")]},
            {HostPort(80, "UDP", "10.0.0.1")},
            id="protocol-and-address",
        ),
        pytest.param(
            {"containers": [], "initContainers": [container(hostPort=80) | {"restartPolicy": "Always"}]},
            {HostPort(80)},
            id="of-a-sidecar",
        ),
        pytest.param({"containers": [], "initContainers": [container(hostPort=80)]}, set(), id="of-an-init-container"),
    ],
)
def test_which_host_ports_a_pod_has(spec, expected):
    assert pod_info.template_host_ports({"spec": spec}) == expected
    assert (
        host_ports.pod_host_ports(msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, SchedulerPod)) == expected
    )


def test_ports_of_a_template_on_the_host_network_are_the_host_s():
    """The API server sets hostPort of pods; nobody does it for a template."""
    assert pod_info.template_host_ports({"spec": {"hostNetwork": True, "containers": [container()]}}) == {
        HostPort(8080)
    }


@pytest.mark.parametrize("spec", [None, "x", {"containers": "x"}, {"containers": [{"ports": [7]}, {"ports": 7}]}])
def test_another_form_than_in_a_pod_has_no_ports(spec):
    assert pod_info.template_host_ports({"spec": spec}) == set()


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param(HostPort(80), HostPort(80), True, id="same"),
        pytest.param(HostPort(80), HostPort(81), False, id="another-number"),
        pytest.param(HostPort(80), HostPort(80, "UDP"), False, id="another-protocol"),
        pytest.param(HostPort(80), HostPort(80, address="10.0.0.1"), True, id="any-address-is-each"),
        pytest.param(HostPort(80, address="10.0.0.2"), HostPort(80, address="10.0.0.1"), False, id="another-address"),
    ],
)
def test_which_ports_exclude_each_other(one, other, expected):
    assert host_ports.have_conflict(frozenset({one}), frozenset({other})) is expected


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        pytest.param(pod(cpu=1, host_ports=HTTP), [FREE], id="a-stranger-with-the-port"),
        pytest.param(pod(cpu=1, host_ports=frozenset({HostPort(81)})), "beside", id="a-stranger-with-another-port"),
        pytest.param(pod(cpu=1, host_ports=HTTP, app="a"), "inside", id="an-owner"),
        pytest.param(
            pod(cpu=1, host_ports=HTTP, app="a", affinity=REQUIRED), "inside", id="an-owner-that-must-be-in-one"
        ),
        pytest.param(pod(cpu=1, host_ports=HTTP, app="b"), [FREE], id="an-owner-of-another-reservation"),
        pytest.param(pod(cpu=1, host_ports=HTTP, ignores_reservations=True), "beside", id="who-ignores-reservations"),
    ],
)
def test_who_may_use_a_port_that_is_held(candidate, expected):
    """Koordinator 1.6: stranger refused, owner gets it (specs/koordinator-peer.md, case 22)."""
    node_usage = node(10, held=[reservation_info("r", 4, host_ports=HTTP), reservation_info("q", 4, app="b")])
    result = filtering.filter_node(node_usage, candidate)
    found = (
        "inside"
        if result.reservations
        else "beside"
        if result.fits_unreserved
        else [each.text for each in result.rejections]
    )
    assert found == expected


def test_all_nodes_at_once_say_the_same():
    accounting = ReservationAccounting()
    for name in ("a", "b"):
        accounting.observe_node(name, of(10))
    held = reservation_info("r", 4, host_ports=HTTP, node="a")
    accounting.observe_reservation(held)
    stranger, owner = pod("s", 1, host_ports=HTTP), pod("o", 1, host_ports=HTTP, app="a")
    result = accounting.filter_nodes(stranger)
    assert (result.feasible, [(each.nodes, each.rejections[0].text) for each in result.rejected]) == (
        ("b",),
        [(("a",), FREE)],
    )
    assert set(accounting.filter_nodes(owner).feasible) == {"a", "b"}
    assert accounting.assume_pod(owner, "a") == AssumedPod(node="a", reservation=held.uid)
    new = reservation_info("q", 1, host_ports=HTTP, available=False)
    assert accounting.filter_nodes_for_reservation(new).feasible == ("b",)
    assert [each.text for each in accounting.assume_reservation(new, "a")] == [FREE]
    accounting.forget_reservation(held.uid)
    assert set(accounting.filter_nodes(stranger).feasible) == {"a", "b"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}], id="plain"),
        pytest.param({"preAllocation": True, "allocatePolicy": "Restricted"}, None, id="pre-allocation"),
    ],
)
def test_kube_scheduler_sees_the_ports_of_a_placeholder(spec, expected):
    given = reservation(template={"spec": {"containers": [container(hostPort=80)]}}, **spec)
    (made,) = placeholders.placeholder_manifest(given)["spec"]["containers"]
    assert made.get("ports") == expected


@pytest.mark.parametrize(
    ("running", "expected"),
    [
        pytest.param([pod("a", 4, app="a", host_ports=HTTP)], ["a"], id="over-the-pod-that-has-the-port"),
        pytest.param([pod("a", 4, app="a"), pod("b", 3, app="a", host_ports=HTTP)], ["b"], id="and-over-no-other"),
        pytest.param(
            [pod("a", 4, app="a"), pod("z", 3, host_ports=HTTP)], [FREE], id="never-beside-a-stranger-with-it"
        ),
    ],
)
def test_a_reservation_with_a_port_is_placed_over_pods(running, expected):
    accounting = ReservationAccounting()
    accounting.observe_node("n", of(8))
    for each in running:
        accounting.observe_pod(each, node="n")
    labels = {LABEL_PRE_ALLOCATION_REQUIRED: TRUE} if expected != [FREE] else {}
    new = reservation_info(
        "r", 4, policy=RESTRICTED, allows_pre_allocation=True, host_ports=HTTP, available=False, labels=labels
    )
    found = accounting.assume_reservation(new, "n")
    over = (
        [pod.key[1] for pod in found.pre_allocated_pods]
        if isinstance(found, ReservationPlacement)
        else [each.text for each in found][-1:]
    )
    assert over == expected


def test_policies_other_than_the_default_hold_ports_too():
    node_usage = node(10, held=[reservation_info("r", 4, policy=ALIGNED, host_ports=HTTP)])
    assert not filtering.filter_node(node_usage, pod(cpu=1, host_ports=HTTP)).fits
