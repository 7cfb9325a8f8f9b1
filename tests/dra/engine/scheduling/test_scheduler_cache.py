"""What the extender believes, whatever it is told first and whatever it cannot read."""

import msgspec
import pytest

from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.model.meta import Uid
from dra.model.quantities import NANOS_PER_UNIT, PODS
from tests.dra.engine.reservations.examples import of
from tests.dra.engine.scheduling.examples import NODE, pod, reservation

OWNER = {"namespace": "default", "name": "q", "uid": "q"}


@pytest.fixture
def cache():
    return SchedulerCache()


def free(cache):
    return cache.accounting.node("n1").free("cpu")


def test_a_pod_that_is_seen_before_the_first_node_takes_what_it_asks_for(cache):
    cache.observe_pod(pod())
    cache.observe_node(NODE)
    assert free(cache) == of(2)["cpu"]


def test_a_pod_asks_for_what_nodes_have_and_always_for_its_own_place(cache):
    assert cache.pod_info(pod()).amounts == {PODS: NANOS_PER_UNIT}
    status = msgspec.structs.replace(NODE.status, allocatable={"cpu": "8"})
    cache.observe_node(msgspec.structs.replace(NODE, status=status))
    assert cache.pod_info(pod()).amounts == {PODS: NANOS_PER_UNIT, "cpu": of(6)["cpu"]}


def test_a_reservation_that_never_could_be_read_holds_what_its_status_says(cache):
    """A new process sees it for the first time: what it holds was promised by the one before."""
    cache.observe_node(NODE)
    cache.observe_reservation(reservation(nonsense=True))
    assert free(cache) == of(3)["cpu"]
    cache.forget_reservation(Uid("uid-r"))
    assert free(cache) == of(8)["cpu"]


@pytest.mark.parametrize("phase", ["Pending", "Failed", "Succeeded"])
def test_a_reservation_that_cannot_be_read_and_has_no_place_holds_nothing(cache, phase):
    cache.observe_node(NODE)
    cache.observe_reservation(reservation(nonsense=True, phase=phase))
    assert free(cache) == of(8)["cpu"]


def test_what_the_watch_shows_once_more_after_the_answer_to_a_write_is_not_read_again(cache, monkeypatch):
    cache.observe_node(NODE)
    cache.observe_reservation(reservation())
    with monkeypatch.context() as patched:
        patched.setattr("dra.engine.scheduling.scheduler_cache.parse_reservation", pytest.fail)
        cache.observe_reservation(reservation())
    assert free(cache) == of(3)["cpu"]


def test_what_could_not_be_read_holds_what_it_says_once_it_can(cache):
    cache.observe_node(NODE)
    cache.observe_reservation(reservation(nonsense=True))
    cache.observe_reservation(reservation())
    assert cache.reservation(Uid("uid-r")) is not None
    assert free(cache) == of(3)["cpu"]


def test_a_pod_that_makes_others_leave_has_their_place_from_its_nomination_to_its_binding(cache):
    cache.observe_node(NODE)
    victim, urgent = pod("victim"), pod("urgent", node="", nominatedNodeName="n1")
    cache.observe_pod(victim)
    cache.nominations.record_victims(urgent.metadata.uid, {"n1": {victim.metadata.uid}})
    cache.observe_pod(urgent)
    cache.forget_pod(victim)
    assert cache.accounting.filter_nodes(cache.pod_info(pod("thief", node=""))).feasible == ()
    assert cache.accounting.filter_nodes(cache.pod_info(urgent)).feasible == ("n1",)
    cache.observe_pod(pod("urgent"))
    assert free(cache) == of(2)["cpu"]
    cache.forget_pod(urgent)
    assert free(cache) == of(8)["cpu"]


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(lambda cache: cache.observe_pod(pod("urgent", node="")), id="its-nomination-is-taken-back"),
        pytest.param(lambda cache: cache.forget_pod(pod("urgent", node="")), id="it-is-deleted"),
        pytest.param(lambda cache: cache.observe_pod(pod("urgent", phase="Failed")), id="it-has-ended"),
    ],
)
def test_who_wants_the_place_no_more_keeps_nothing(cache, seen):
    cache.observe_node(NODE)
    cache.observe_pod(pod("victim"))
    urgent = pod("urgent", node="", nominatedNodeName="n1")
    cache.nominations.record_victims(urgent.metadata.uid, {"n1": {Uid("uid-victim")}})
    cache.observe_pod(urgent)
    cache.forget_pod(pod("victim"))
    seen(cache)
    assert free(cache) == of(8)["cpu"]


def version(number, **spec):
    made = reservation(**spec)
    metadata = msgspec.structs.replace(made.metadata, resource_version=str(number))
    return msgspec.structs.replace(made, metadata=metadata)


@pytest.mark.parametrize(
    ("seen", "dirty"),
    [
        pytest.param([version(5)], True, id="first-version"),
        pytest.param([version(5), version(6)], True, id="newer-version"),
        pytest.param([version(5), version(5)], False, id="same-version"),
        pytest.param([version(5), version(4)], False, id="older-version"),
        pytest.param([version(5), version(6, nonsense=True)], False, id="unreadable-version"),
    ],
)
def test_a_reservation_is_dirty_in_each_version_that_can_be_read(cache, seen, dirty):
    for each in seen[:-1]:
        cache.observe_reservation(each)
    cache.dirty.clear()
    cache.observe_reservation(seen[-1])
    assert list(cache.dirty) == ["uid-r"] * dirty


@pytest.mark.parametrize(("phase", "dirty"), [("Available", ["uid-r"]), ("Pending", [])])
def test_a_replica_that_begins_to_act_checks_the_reservations_that_hold_a_node(cache, phase, dirty):
    cache.observe_reservation(reservation(phase=phase))
    cache.dirty.clear()
    cache.mark_all_dirty()
    assert list(cache.dirty) == dirty


@pytest.mark.parametrize(
    ("listed", "assumed", "cpu_is_held", "reported"),
    [
        pytest.param(True, False, True, True, id="bound-without-the-extender"),
        pytest.param(True, True, True, False, id="bound-by-the-extender"),
        pytest.param(False, False, True, False, id="bound-before-the-first-list"),
        pytest.param(True, False, False, False, id="on-a-node-without-reservations"),
    ],
)
def test_a_pod_that_takes_what_is_held_without_asking_is_reported(cache, listed, assumed, cpu_is_held, reported):
    cache.observe_node(NODE)
    if listed:
        cache.replace_pods((), "1")
    if assumed:
        cache.accounting.assume_pod(cache.pod_info(pod(node="")), "n1")
    if cpu_is_held:
        cache.observe_reservation(reservation())
    text = cache.observe_pod(pod())
    assert ("what is reserved there is short of cpu 3." in text) is reported
    assert bool(text) is reported


def resized(cpu, *, running="2", **more):
    """Return a pod that was bound with 2 CPUs and asks for others now."""
    status = {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": running}}}], **more}
    found = pod(**status)
    (container,) = found.spec.containers
    resources = msgspec.structs.replace(container.resources, requests={"cpu": cpu})
    named = msgspec.structs.replace(container, name="c", resources=resources)
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, containers=[named]))


@pytest.mark.parametrize(
    ("after", "reported"),
    [
        pytest.param(resized("6"), True, id="asked-for"),
        pytest.param(resized("6", running="6"), True, id="carried-out"),
        pytest.param(resized("3"), False, id="within-what-is-free"),
        pytest.param(resized("1"), False, id="smaller"),
        pytest.param(
            resized("6", conditions=[{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]),
            False,
            id="refused-by-the-kubelet",
        ),
    ],
)
def test_a_pod_that_grows_in_place_into_what_is_held_is_reported_once(cache, after, reported):
    cache.observe_node(NODE)
    cache.observe_reservation(reservation())
    cache.replace_pods((), "1")
    assert cache.observe_pod(resized("2")) == ""
    text = cache.observe_pod(after)
    assert ("was resized on node n1, beyond what is free there" in text) is reported
    assert cache.observe_pod(after) == ""


@pytest.mark.parametrize(
    ("cpu", "annotation", "short"),
    [
        pytest.param("7", None, "", id="of-nothing"),
        pytest.param("6", None, "cpu 1", id="allocatable"),
        pytest.param("8", '{"resources":{"cpu":"4"}}', "cpu 3", id="annotation"),
    ],
)
def test_a_node_that_has_less_than_is_held_there_is_reported_once(cache, cpu, annotation, short):
    cache.observe_node(NODE)
    cache.observe_reservation(reservation())
    cache.observe_pod(resized("2"))
    annotations = {"node.koordinator.sh/reservation": annotation} if annotation else None
    metadata = msgspec.structs.replace(NODE.metadata, annotations=annotations)
    status = msgspec.structs.replace(NODE.status, allocatable={**NODE.status.allocatable, "cpu": cpu})
    after = msgspec.structs.replace(NODE, metadata=metadata, status=status)
    text = cache.observe_node(after).shortage
    assert text.startswith("node n1: has less than its pods and Reservations take") is bool(short)
    assert f"short of {short}." in text or not short
    assert cache.observe_node(after).shortage == ""


@pytest.mark.parametrize(("node", "charged"), [pytest.param("n1", True, id="bound"), pytest.param("", False, id="not")])
def test_a_pod_of_a_live_list_counts_once_it_is_bound_and_ends_with_a_list_that_lacks_it(cache, node, charged):
    cache.observe_node(NODE)
    cache.observe_read_pod(pod(node=node), is_watched=False)
    assert (free(cache) == of(2)["cpu"]) is charged
    cache.replace_pods((), "9")
    assert free(cache) == of(8)["cpu"]


def test_another_reservation_of_the_name_means_that_the_first_is_gone(cache):
    cache.observe_node(NODE)
    cache.observe_reservation(reservation())
    cache.observe_read_reservation(reservation(uid="other"), Uid("uid-r"))
    assert cache.reservation(Uid("uid-r")) is None
    assert cache.reservation(Uid("other")) is not None


@pytest.mark.parametrize(
    ("before", "after", "frees"),
    [
        pytest.param([], {"phase": "Available"}, True, id="becomes-available"),
        pytest.param([{"phase": "Available"}], {"phase": "Failed"}, True, id="ends"),
        pytest.param([{"phase": "Available"}], {"currentOwners": [OWNER]}, False, id="a-pod-enters"),
        pytest.param([{"currentOwners": [OWNER]}], {"phase": "Available"}, True, id="a-pod-leaves"),
        pytest.param([{"phase": "Available"}], {"allocatable": {"cpu": "4"}}, True, id="shrinks"),
        pytest.param([{"phase": "Available"}], {"phase": "Available"}, False, id="nothing-changes"),
    ],
)
def test_capacity_is_freed_where_a_pod_may_fit_that_did_not(cache, before, after, frees):
    for number, status in enumerate([*before, after]):
        made = version(5 + number)
        made.content["status"] |= status
        freed = cache.observe_reservation(made)
    assert freed is frees
