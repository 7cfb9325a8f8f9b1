"""What kube-scheduler is told when it asks whom to end for a pod."""

import msgspec
import pytest

from dra.engine.scheduling import bindings, verbs
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.model.extender_protocol import MetaPod, MetaVictims
from dra.model.scheduling import SchedulerPod
from tests.dra.engine.scheduling.examples import NODE, owner, placeholder, pod, reservation

VICTIM = pod("victim")


def asked():
    """The scheduler would end the pod on its node."""
    return {"n1": MetaVictims(pods=[MetaPod(uid=VICTIM.metadata.uid)])}


def seen(*others):
    cache = SchedulerCache()
    cache.observe_node(NODE)
    cache.observe_pod(VICTIM)
    for each in others:
        cache.observe_reservation(each)
    return cache


def test_nobody_is_ended_for_room_that_is_held_for_others():
    assert verbs.process_preemption(seen(reservation()), pod("urgent", node=""), asked()) == {}


def waiting(policy=None):
    container = {"name": "c", "resources": {"requests": {"cpu": "6"}}}
    spec = {"containers": [container], **({"preemptionPolicy": policy} if policy else {})}
    content = reservation(template={"spec": spec}).content | {"status": {}}
    return msgspec.structs.replace(reservation(), content=content)


@pytest.mark.parametrize("policy", [pytest.param(None, id="unasked"), pytest.param("Never", id="never")])
def test_nobody_is_ended_for_a_reservation_that_does_not_ask_for_that(policy):
    cache = seen(waiting(policy))
    assert verbs.process_preemption(cache, placeholder(), asked()) == {}
    told = verbs.filter_nodes(cache, placeholder(), ["n1"])
    assert told.failed_and_unresolvable_nodes == {"n1": "Insufficient cpu by node"}


def test_a_reservation_that_asks_ends_pods():
    cache = seen(waiting("PreemptLowerPriority"))
    assert verbs.process_preemption(cache, placeholder(), asked()) == asked()
    assert verbs.filter_nodes(cache, placeholder(), ["n1"]).failed_nodes == {"n1": "Insufficient cpu by node"}


def test_of_victims_without_a_number_of_violated_budgets_none_is_counted():
    told = {"Pods": [{"UID": VICTIM.metadata.uid}]}
    assert msgspec.to_builtins(msgspec.convert(told, MetaVictims)) == {**told, "NumPDBViolations": 0}


def test_what_they_free_is_the_pod_s_as_soon_as_it_is_nominated():
    cache = seen()
    assert verbs.process_preemption(cache, pod("urgent", node=""), asked()) == asked()
    cache.observe_pod(pod("urgent", node="", nominatedNodeName="n1"))
    cache.forget_pod(VICTIM)
    assert cache.accounting.filter_nodes(cache.pod_info(pod("thief", node=""))).feasible == ()
    assert cache.accounting.filter_nodes(cache.pod_info(pod("urgent", node=""))).feasible == ("n1",)


@pytest.mark.parametrize("touched", [True, False], ids=["placeholder", "reservation"])
def test_nothing_is_kept_for_the_placeholder_beside_its_reservation_on_the_node(touched):
    nominated = msgspec.structs.replace(
        placeholder(), status=msgspec.structs.replace(placeholder().status, nominated_node_name="n1")
    )
    cache = seen(waiting("PreemptLowerPriority"))
    assert verbs.process_preemption(cache, placeholder(), asked()) == asked()
    cache.observe_pod(nominated)
    cache.forget_pod(VICTIM)
    if touched:  # by the bind that places the reservation, and the pod is changed after it
        bindings.reservation_to_place(cache, nominated, "n1")
    placed = reservation()
    placed.content["status"]["allocatable"] = {"cpu": "2"}
    cache.observe_reservation(
        msgspec.structs.replace(placed, metadata=msgspec.structs.replace(placed.metadata, resource_version="6"))
    )
    if touched:
        cache.observe_pod(nominated)
    assert cache.accounting.filter_nodes(cache.pod_info(owner(app="other", cpu="7"))).feasible == ()
    other = cache.pod_info(owner(app="other", cpu="6"))
    assert cache.accounting.filter_nodes(other).feasible == ("n1",)


def test_a_pod_that_has_its_place_goes_nowhere_else():
    told = verbs.filter_nodes(seen(), VICTIM, ["n1", "n2"])
    assert (told.node_names, told.failed_and_unresolvable_nodes.keys()) == (["n1"], {"n2"})


def test_a_reservation_that_an_owner_overflows_does_not_speak_for_its_node():
    """Koordinator scores 0, so that other scores decide; an owner that is pinned to the node may enter."""
    owner = pod("pod-demo-0", node="")
    cache = seen(reservation())
    cache.forget_pod(VICTIM)
    assert verbs.filter_nodes(cache, owner, ["n1"]).node_names == ["n1"]
    assert verbs.prioritize_nodes(cache, owner, ["n1"]) == []


def test_a_reservation_of_which_an_owner_uses_little_speaks_for_its_node():
    owner = msgspec.convert(
        {
            "metadata": {"name": "pod-demo-0", "namespace": "default", "uid": "u"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1m"}}}]},
        },
        SchedulerPod,
    )
    (told,) = verbs.prioritize_nodes(seen(reservation()), owner, ["n1"])
    assert (told.host, told.score) == ("n1", 10)


@pytest.fixture
def vacating():
    """A reservation on n1 whose placeholder is bound, and the empty node n2."""
    cache = SchedulerCache()
    for name in ("n1", "n2"):
        cache.observe_node(msgspec.structs.replace(NODE, metadata=msgspec.structs.replace(NODE.metadata, name=name)))
    cache.observe_reservation(reservation(owners=[{"labelSelector": {"matchLabels": {"app": "web"}}}]))
    cache.observe_pod(placeholder(node="n1"))
    return cache


@pytest.mark.parametrize(
    ("app", "names", "after", "waits"),
    [
        pytest.param("web", ["n2"], 0.0, True, id="owner"),
        pytest.param("web", ["n2"], verbs.VACATE_TIMEOUT - 0.1, True, id="owner-until-the-timeout"),
        pytest.param("web", ["n2"], verbs.VACATE_TIMEOUT, False, id="owner-after-the-timeout"),
        pytest.param("web", ["n1", "n2"], 0.0, False, id="owner-with-room-for-both"),
        pytest.param("other", ["n2"], 0.0, False, id="no-owner"),
    ],
)
def test_an_owner_waits_until_the_placeholder_has_left(vacating, app, names, after, waits):
    verbs.filter_pod(vacating, owner(), ["n2"], now=100.0)
    decision = verbs.filter_pod(vacating, owner(app=app), names, now=100.0 + after)
    assert (decision.result.failed_nodes.keys() == set(names)) == waits


def test_an_owner_that_waits_is_requeued_after_the_timeout_in_case_the_placeholder_stays(vacating):
    verbs.filter_pod(vacating, owner(), ["n2"], now=100.0)
    due = 100.0 + verbs.VACATE_TIMEOUT
    assert vacating.unschedulable.next_batch(now=due - 0.1) == []
    assert vacating.unschedulable.next_batch(now=due) == [("uid-owner", ("default", "owner"))]


def test_an_owner_waits_again_for_the_next_placeholder(vacating):
    verbs.filter_pod(vacating, owner(), ["n2"], now=0.0)
    vacating.forget_pod(placeholder())
    assert verbs.filter_pod(vacating, owner(), ["n2"], now=50.0).result.node_names == ["n2"]
    vacating.observe_pod(placeholder(uid="second", node="n1"))
    assert verbs.filter_pod(vacating, owner(), ["n2"], now=100.0).result.node_names == []


@pytest.mark.parametrize(
    ("made", "names", "rejected"),
    [
        pytest.param(owner(), ["n1", "n2"], False, id="all-nodes-fit"),
        pytest.param(owner(app="other"), ["n1", "unknown"], True, id="a-node-does-not"),
    ],
)
def test_a_pod_with_a_rejected_node_is_requeued(made, names, rejected):
    cache = SchedulerCache()
    for name in ("n1", "n2"):
        cache.observe_node(msgspec.structs.replace(NODE, metadata=msgspec.structs.replace(NODE.metadata, name=name)))
    verbs.filter_pod(cache, made, names, now=0.0)
    assert len(cache.unschedulable) == rejected
