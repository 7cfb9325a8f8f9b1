"""Pods that were moved a short while ago stay."""

import pytest

from dra.engine.descheduling.cool_down import cool_down_of
from tests.dra.engine.descheduling.rounds import Naming, evicted, play, pod, profile, refusals
from tests.dra.engine.migration.examples import NOW, job
from tests.violations import for_each_case

ROOM = {"n2": 100}


def second_round(*pods, after, **more):
    """Play a round in which pod old of web goes, and a later one over other pods; returns the second result."""
    memory = {}
    first, _ = play([pod("old")], profile(Naming("old")), slots=ROOM, memory=memory)
    assert evicted(first) == ["old"]
    names = [each.metadata.name for each in pods]
    return play(list(pods), profile(Naming(*names), **more), slots=ROOM, memory=memory, now=NOW + after)[0]


@for_each_case(
    [
        pytest.param(
            pod("new", created=5),
            65,
            {},
            "pod ns/new: replaces a pod that was moved, 60 s ago; it stays for 600 s (cool-down)",
            id="the-replacement-is-left-alone",
        ),
        pytest.param(
            pod("new", created=5, ready=False),
            905,
            {},
            "pod ns/new: replaces a pod that was moved, 900 s ago, and is not ready yet",
            id="moved-and-not-ready-is-no-candidate",
        ),
        pytest.param(pod("new", created=5), 606, {}, "", id="after-the-cool-down"),
        pytest.param(pod("new", created=5, ready=False), 3605, {}, "", id="never-ready-for-an-hour"),
        pytest.param(pod("new", created=5), 10, {"cool_down_seconds": 0}, "", id="no-cool-down"),
        pytest.param(
            pod("new", created=5, ready=False),
            10,
            {"cool_down_seconds": 0},
            "pod ns/new: replaces a pod that was moved, 5 s ago, and is not ready yet",
            id="no-cool-down-and-not-ready",
        ),
        pytest.param(pod("sibling"), 10, {}, "", id="older-pods-of-the-workload-may-go"),
        pytest.param(pod("other", owner="db", created=5), 10, {}, "", id="other-workload"),
        pytest.param(pod("new", owner="", created=5), 10, {}, "", id="bare"),
        pytest.param(pod("new", namespace="elsewhere", created=5), 10, {}, "", id="same-uid-in-another-namespace"),
        pytest.param(
            pod("new", created=65),
            60,
            {},
            "pod ns/new: replaces a pod that was moved, 0 s ago; it stays for 600 s (cool-down)",
            id="from-the-future",
        ),
    ]
)
def test_the_replacement_of_a_moved_pod_stays_for_a_while(given, after, more, message):
    assert second_round(given, after=after, **more).decisions[0].verdict.message == message


def test_young_pods_of_a_workload_may_go_in_the_same_round():
    given = [pod("a", created=0), pod("b", created=0)]
    assert evicted(play(given, profile(Naming("a", "b")), slots=ROOM)[0]) == ["a", "b"]


def test_a_replacement_stays_though_another_pod_of_the_workload_was_moved_since():
    memory = {}
    for seconds, name, created in [(0, "old", -99), (10, "sibling", -99), (20, "new", 5)]:
        given = [pod(name, created=created)]
        result, _ = play(given, profile(Naming(name)), slots=ROOM, memory=memory, now=NOW + seconds)
    assert evicted(result) == []


def test_the_same_pod_may_be_proposed_again_after_a_dry_run():
    memory = {}
    for _ in range(2):
        result, _ = play([pod("a")], profile(Naming("a")), slots=ROOM, memory=memory)
        assert evicted(result) == ["a"]


def test_the_replacement_that_a_job_waits_for_is_no_candidate():
    waiting = job("j", of="old", phase="Running")
    waiting = waiting.model_copy(
        update={
            "status": waiting.status.model_copy(
                update={"pod_ref": waiting.spec.pod_ref.model_copy(update={"name": "new"})}
            )
        }
    )
    result, _ = play([pod("new")], profile(Naming("new")), slots=ROOM, jobs=(waiting,))
    assert refusals(result) == {"new": "Moving"}
    assert result.decisions[0].verdict.message == "pod ns/new: podmigrationjob j waits until it is ready"


@pytest.mark.parametrize(
    ("phase", "where"), [("Running", "jobs"), ("Succeeded", "ended_jobs")], ids=["it-waits", "it-has-ended"]
)
def test_a_new_leader_learns_from_a_job_that_its_replacement_is_new(phase, where):
    """The replacement is created in the second of the eviction."""
    moved = job("j", of="old", created=0, evicted=5, phase=phase)
    result, _ = play([pod("new", created=5)], profile(Naming("new")), slots=ROOM, now=NOW + 65, **{where: (moved,)})
    assert result.decisions[0].verdict.message == (
        "pod ns/new: replaces a pod that was moved, 60 s ago; it stays for 600 s (cool-down)"
    )


def test_a_pod_whose_migration_failed_stays_while_the_job_exists():
    ended = job("j", of="a", phase="Failed")
    status = ended.status.model_copy(update={"reason": "Unschedulable"})
    spec = ended.spec.model_copy(update={"pod_ref": ended.spec.pod_ref.model_copy(update={"uid": "uid-ns-a"})})
    ended = ended.model_copy(update={"status": status, "spec": spec})
    result, _ = play([pod("a"), pod("b")], profile(Naming("a", "b")), slots=ROOM, ended_jobs=(ended,))
    assert evicted(result) == ["b"]
    assert result.decisions[0].verdict.message == (
        "pod ns/a: podmigrationjob j ended as Failed (Unschedulable); no other one is made while it exists"
    )


def test_a_pod_that_is_held_stays_until_its_time():
    memory = {}
    cool_down_of(memory).hold("uid-ns-a", until=NOW + 60, reason="its migration was rejected")
    before, _ = play([pod("a")], profile(Naming("a")), slots=ROOM, memory=memory, now=NOW + 50)
    after, _ = play([pod("a")], profile(Naming("a")), slots=ROOM, memory=memory, now=NOW + 60)
    assert before.decisions[0].verdict.message == "pod ns/a: its migration was rejected; it stays for 10 s more"
    assert evicted(after) == ["a"]


def test_what_concerns_no_pod_any_more_is_forgotten():
    memory = {}
    cool_down = cool_down_of(memory)
    cool_down.hold("uid-ns-a", until=NOW + 60, reason="")
    play([pod("b")], profile(Naming("b")), slots=ROOM, memory=memory)
    play([], profile(), memory=memory, now=NOW + 3601)
    assert (cool_down.moves, cool_down.holds) == ({}, {})
