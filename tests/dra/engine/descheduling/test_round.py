"""Rounds: in which order plugins are asked, which candidates go, and what ends what."""

# ruff: noqa: ARG001, ARG002 - a plugin need not use what it is given

import pytest

from dra.engine.descheduling.plugin import Evict, Refusal
from dra.engine.descheduling.round import Limits
from tests.dra.engine.descheduling.rounds import (
    ARGS,
    Balancing,
    Naming,
    SlotSnapshot,
    evicted,
    play,
    pod,
    profile,
    refusals,
)
from tests.dra.engine.migration.examples import NOW, at, job
from tests.violations import for_each_case

ROOM = {"n2": 100}


def pods(*names, **more):
    return [pod(name, **more) for name in names]


def test_all_deschedule_plugins_of_all_profiles_come_before_any_balance_plugin():
    first = profile(Naming("a", name="one"), name="p1", balance=[Balancing("c", name="three")])
    second = profile(Naming("b", name="two"), name="p2", balance=[Balancing("d", name="four")])
    result, _ = play(pods("a", "b", "c", "d"), first, second, slots=ROOM)
    assert [(each.profile, each.plugin) for each in result.decisions] == [
        ("p1", "one"),
        ("p2", "two"),
        ("p1", "three"),
        ("p2", "four"),
    ]


def test_a_generator_learns_what_became_of_each_candidate_before_it_yields_the_next():
    plugin = Naming("a", "b")
    result, snapshot = play(pods("a", "b"), profile(plugin), slots={"n2": 1})
    assert [(each.accepted, each.node, each.refusal) for each in plugin.verdicts] == [
        (True, "n2", None),
        (False, "", Refusal.NO_PLACE),
    ]
    assert evicted(result) == ["a"]
    assert dict(snapshot.moved) == {"uid-ns-a": "n2"}


@pytest.mark.parametrize("form", [list, tuple, iter], ids=["list", "tuple", "iterator"])
def test_a_plugin_may_return_any_iterable(form):
    class Listing(Naming):
        def deschedule(self, snapshot, args):
            return form([Evict(each, "listed") for each in snapshot.pods()])

    assert evicted(play(pods("a", "b"), profile(Listing()), slots=ROOM)[0]) == ["a", "b"]


def test_what_a_generator_returns_is_a_note_of_the_round():
    class Idle(Naming):
        def deschedule(self, snapshot, args):
            yield from ()
            return "all nodes are underutilized"

    result, _ = play([], profile(Idle(name="LowNodeUtilization")))
    assert result.notes == ["profile p: LowNodeUtilization: all nodes are underutilized"]


def six_pods():
    return [
        pod(f"{namespace}{index}", namespace=namespace, node=f"n{index % 2 + 1}")
        for namespace in ("x", "y")
        for index in range(3)
    ]


@for_each_case(
    [
        pytest.param({}, 6, id="no-limit"),
        pytest.param({"per_namespace": 2}, 4, id="vector-30-two-namespaces-of-three-pods-two-each"),
        pytest.param({"per_node": 2, "per_namespace": 3}, 4, id="two-nodes-two-each"),
        pytest.param({"total": 0}, 0, id="vector-32-total-0-is-nobody"),
        pytest.param({"total": 1}, 1, id="total-1-as-upstream-tests"),
        pytest.param({"per_node": 0}, 0, id="node-0-is-nobody"),
        pytest.param({"per_namespace": 0}, 0, id="namespace-0-is-nobody"),
        pytest.param({"total": 5, "per_node": 2}, 4, id="the-smallest-counts"),
    ]
)
def test_limits_of_a_round(limits, count):
    plugin = Naming("x0", "x1", "x2", "y0", "y1", "y2")
    result, _ = play(six_pods(), profile(plugin), limits=Limits(**limits), slots={"n3": 100})
    assert len(evicted(result)) == count


def test_vector_31_the_limit_of_the_only_namespace_stops_before_those_of_the_nodes():
    given = [pod(f"{node}-{index}", node=node) for node in ("n1", "n2") for index in range(3)]
    plugin = Naming(*(each.metadata.name for each in given))
    result, _ = play(given, profile(plugin), limits=Limits(per_node=2, per_namespace=3), slots={"n3": 100})
    assert evicted(result) == ["n1-0", "n1-1", "n2-0"]
    assert refusals(result) == {"n1-2": "NodeLimit", "n2-1": "NamespaceLimit", "n2-2": "NamespaceLimit"}


def test_at_the_total_each_plugin_is_stopped_at_its_first_candidate_and_no_place_is_looked_for():
    first, second = Naming("a", "b", "c"), Naming("b", "c", name="second")
    result, snapshot = play(pods("a", "b", "c"), profile(first, second), limits=Limits(total=1), slots=ROOM)
    assert [(each.plugin, each.pod.metadata.name) for each in result.decisions] == [
        ("Naming", "a"),
        ("Naming", "b"),
        ("second", "b"),
    ]
    assert snapshot.asked == ["a"]
    assert result.faults == []


@pytest.mark.parametrize(
    ("limits", "gone"),
    [
        pytest.param({"total": 2}, ["b"], id="total"),
        pytest.param({"per_node": 1}, [], id="node"),
        pytest.param({"per_namespace": 1}, [], id="namespace"),
        pytest.param({"per_node": 2}, ["b"], id="room-for-one"),
    ],
)
def test_jobs_in_flight_count_against_the_limits(limits, gone):
    snapshot = SlotSnapshot(pods("a", "b", "c"), slots=ROOM, jobs=(job("a", of="a"),))
    snapshot.move(snapshot.objects.pods[0], "n2")
    result, _ = play(snapshot, profile(Naming("a", "b", "c")), limits=Limits(**limits))
    assert evicted(result) == gone
    assert refusals(result)["a"] == "Moving"


def test_a_job_whose_pod_is_gone_counts_in_its_namespace_and_no_longer_on_its_node():
    jobs = (job("gone", of="gone"),)
    by_node, by_namespace = (
        evicted(play(pods("a"), profile(Naming("a")), limits=limits, slots=ROOM, jobs=jobs)[0])
        for limits in (Limits(per_node=1), Limits(per_namespace=1))
    )
    assert (by_node, by_namespace) == (["a"], [])


def test_a_pod_that_two_plugins_and_two_profiles_name_goes_once_and_counts_once():
    result, _ = play(
        pods("a", "b"),
        profile(Naming("a", "a"), Naming("a", name="second"), name="p1"),
        profile(Naming("a", "b"), name="p2"),
        limits=Limits(total=2),
        slots=ROOM,
    )
    assert evicted(result) == ["a", "b"]


def test_only_as_many_go_as_there_are_places():
    """Three pods, one place elsewhere: upstream evicts all three, each of which fits alone (D#1584)."""
    assert evicted(play(pods("a", "b", "c"), profile(Naming("a", "b", "c")), slots={"n2": 1})[0]) == ["a"]


def test_a_pod_goes_only_to_the_receivers_of_its_plugin():
    plugin = Naming("a", "b", receivers=frozenset({"n3"}))
    result, snapshot = play(pods("a", "b"), profile(plugin), slots={"n2": 9, "n3": 1})
    assert dict(snapshot.moved) == {"uid-ns-a": "n3"}
    assert result.decisions[1].verdict.message == ("pod ns/b: fits on none of n3")


@pytest.mark.parametrize(
    ("plugin", "more", "target"),
    [
        pytest.param(Naming("a"), {"requires_place": False}, "", id="profile-without-node-fit"),
        pytest.param(Naming("a", needs_place=False), {}, "", id="pod-that-has-ended"),
    ],
)
def test_without_a_place_a_pod_goes_only_if_it_needs_none(plugin, more, target):
    result, snapshot = play(pods("a"), profile(plugin, **more), slots={})
    assert evicted(result) == ["a"]
    assert dict(snapshot.moved) == {"uid-ns-a": target}


def test_a_profile_without_node_fit_counts_the_pod_where_it_is_likely_to_run():
    _, snapshot = play(pods("a"), profile(Naming("a"), requires_place=False), slots=ROOM)
    assert dict(snapshot.moved) == {"uid-ns-a": "n2"}


def test_a_profile_with_fewer_than_two_ready_nodes_is_skipped_with_a_note_and_the_others_go_on():
    given = [pod("a", node="n1"), pod("b", node="n2")]
    alone = profile(Naming("a"), name="alone", nodes=frozenset({"n1", "gone"}), requires_place=False)
    result, _ = play(given, alone, profile(Naming("b"), name="p"))
    assert evicted(result) == ["b"]
    assert result.notes == [
        "profile alone: its plugins are not asked, since 1 of its nodes are ready and a pod needs another node to go to"
    ]


def test_a_profile_evicts_no_pods_of_other_nodes():
    given = [pod("a", node="n1"), pod("b", node="n2")]
    result, _ = play(given, profile(Naming("a", "b"), nodes=frozenset({"n2", "n3"})), slots={"n3": 9})
    assert evicted(result) == ["b"]
    assert result.decisions[0].verdict.message == "node n1: is not a node of profile p"


def raising(snapshot, args):
    raise RuntimeError("no such zone")


def raising_later(snapshot, args):
    yield Evict(next(snapshot.pods()), "first")
    raise KeyError("zone")


def yielding_text(snapshot, args):
    yield "pod-a"


def yielding_a_stranger(snapshot, args):
    yield Evict(pod("nobody"), "a pod that does not exist")


def yielding_for_ever(snapshot, args):
    while True:
        yield Evict(next(iter(snapshot.objects.pods)), "again")


def returning_nothing(snapshot, args):
    return None


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        pytest.param(raising, "RuntimeError: no such zone", id="raises"),
        pytest.param(raising_later, "KeyError: 'zone'", id="raises-after-a-candidate"),
        pytest.param(yielding_text, "yields a str, not an Evict with a pod of the snapshot", id="nonsense"),
        pytest.param(yielding_a_stranger, "pod ns/nobody: is not in the snapshot", id="unknown-pod"),
        pytest.param(yielding_for_ever, "yields more than 72 candidates for 2 pods", id="for-ever"),
        pytest.param(returning_nothing, "TypeError: 'NoneType' object is not iterable", id="no-iterable"),
    ],
)
def test_a_plugin_that_misbehaves_is_skipped_and_named_and_the_others_go_on(ask, message):
    class Bad(Naming):
        deschedule = staticmethod(ask)

        def balance(self, snapshot, args):
            yield Evict(snapshot.objects.pods[1], "must not be asked any more")

    bad = Bad(name="Bad")
    result, _ = play(
        pods("a", "b"), profile(bad, name="p1", balance=[bad]), profile(Naming("b"), name="p2"), slots=ROOM
    )
    assert [each.message for each in result.faults] == [
        f"profile p1: plugin Bad is skipped for the rest of the round: {message}"
    ]
    assert "b" in evicted(result)
    assert {each.plugin for each in result.decisions if each.pod.metadata.name == "b"} == {"Naming"}


class Protecting:
    """A filter that protects pods by name."""

    name = "Protecting"
    Args = type(ARGS)

    def __init__(self, *names, error=None):
        self._names, self._error = names, error

    def filter(self, pod, snapshot, args):
        if self._error:
            raise self._error
        return f"pod {pod.metadata.name}: is protected" if pod.metadata.name in self._names else ""


def test_all_filters_of_a_profile_must_let_a_pod_go():
    filters = [Protecting("a"), Protecting("b")]
    result, _ = play(pods("a", "b", "c"), profile(Naming("a", "b", "c"), filters=filters), slots=ROOM)
    assert evicted(result) == ["c"]
    assert [each.verdict.message for each in result.decisions] == ["pod a: is protected", "pod b: is protected", ""]


def test_a_filter_that_raises_protects_all_pods_of_its_profile_and_no_others():
    bad = profile(Naming("a"), name="p1", filters=[Protecting(error=ValueError("no")), Protecting()])
    result, _ = play(pods("a", "b"), bad, profile(Naming("b"), name="p2"), slots=ROOM)
    assert evicted(result) == ["b"]
    assert refusals(result) == {"a": "Protected"}
    assert [each.plugin for each in result.faults] == ["Protecting"]


def test_the_same_round_twice_decides_the_same():
    first, second = (
        play(six_pods(), profile(Naming("x0", "x1", "y0", "y2")), limits=Limits(per_node=2), slots={"n3": 2})[0]
        for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize(
    ("limits", "refused"),
    [
        pytest.param(Limits(per_node=1), Refusal.NODE_LIMIT, id="node"),
        pytest.param(Limits(per_namespace=1), Refusal.NAMESPACE_LIMIT, id="namespace"),
        pytest.param(Limits(total=1), Refusal.TOTAL_LIMIT, id="total"),
    ],
)
def test_a_pod_that_an_evictor_without_jobs_ended_counts_in_later_rounds_until_it_is_gone(limits, refused):
    """An event starts the next round after five seconds, and the pod has a grace period of thirty."""
    memory, direct = {}, {"evictor": "DefaultEvictor", "cool_down_seconds": 0}
    first, _ = play(pods("a", "b"), profile(Naming("a"), **direct), slots=ROOM, memory=memory, limits=limits)
    assert evicted(first) == ["a"]
    leaving = pod("a", metadata={"deletionTimestamp": at(30)})
    second, _ = play(
        [leaving, pod("b")], profile(Naming("b"), **direct), slots=ROOM, memory=memory, limits=limits, now=NOW + 5
    )
    assert refusals(second) == {"b": str(refused)}
    third, _ = play([pod("b")], profile(Naming("b"), **direct), slots=ROOM, memory=memory, limits=limits, now=NOW + 40)
    assert evicted(third) == ["b"]


def ended(phase, **more):
    """Return a job that has ended, of pod a."""
    made = job("m", of="a", phase=phase, **more)
    reference = made.spec.pod_ref.model_copy(update={"uid": "uid-ns-a"})
    return made.model_copy(update={"spec": made.spec.model_copy(update={"pod_ref": reference})})


def test_a_new_leader_learns_from_jobs_which_workloads_have_moved():
    """Its memory is empty: otherwise each restart would move the same workload again."""
    replacement = pod("b", created=-50)
    result, _ = play([replacement], profile(Naming("b")), slots=ROOM, ended_jobs=(ended("Succeeded", evicted=-60),))
    assert refusals(result) == {"b": str(Refusal.PROTECTED)}
    result, _ = play([pod("b")], profile(Naming("b")), slots=ROOM, ended_jobs=(ended("Succeeded", evicted=-60),))
    assert evicted(result) == ["b"]


@pytest.mark.parametrize(
    ("phase", "seconds"), [pytest.param("Aborted", 3600, id="rejected"), pytest.param("Failed", 600, id="failed")]
)
def test_a_pod_stays_for_a_while_after_the_job_is_deleted_that_did_not_move_it(phase, seconds):
    memory = {}
    play(pods("a"), profile(Naming("a")), slots=ROOM, memory=memory, ended_jobs=(ended(phase),))
    soon, _ = play(pods("a"), profile(Naming("a")), slots=ROOM, memory=memory, now=NOW + seconds - 1)
    assert refusals(soon) == {"a": str(Refusal.PROTECTED)}
    later, _ = play(pods("a"), profile(Naming("a")), slots=ROOM, memory=memory, now=NOW + seconds)
    assert evicted(later) == ["a"]


def test_a_pod_that_a_finalizer_keeps_does_not_take_a_place_in_the_limits_for_ever():
    memory, direct = {}, {"evictor": "DefaultEvictor", "cool_down_seconds": 0}
    play(pods("a", "b"), profile(Naming("a"), **direct), slots=ROOM, memory=memory)
    there = [pod("a", metadata={"deletionTimestamp": at(30)}), pod("b")]
    for seconds, going in ((599, []), (600, ["b"])):
        result, _ = play(
            there, profile(Naming("b"), **direct), slots=ROOM, memory=memory, limits=Limits(total=1), now=NOW + seconds
        )
        assert evicted(result) == going
