"""Budgets during a round: asked before a pod is accepted, less what moves already."""

import msgspec
import pytest

from dra.api.migration.model import EvictionPolicy
from dra.model.preemption import PodUnavailableBudget
from tests.dra.engine.descheduling.rounds import Naming, SlotSnapshot, evicted, play, pod, profile
from tests.dra.engine.migration.examples import budget, job

ROOM = {"n2": 100}


def web(*names, **more):
    return [pod(name, **{"metadata": {"labels": {"app": "web"}}, **more}) for name in names]


def unavailable_budget(*, allowed, desired=1):
    content = {
        "metadata": {"name": "pub", "namespace": "ns"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"unavailableAllowed": allowed, "desiredAvailable": desired, "currentAvailable": 3},
    }
    return msgspec.convert(content, PodUnavailableBudget)


@pytest.mark.parametrize(
    ("allowed", "gone"),
    [
        pytest.param(0, [], id="dry-run-shows-no-pod-that-its-budget-keeps"),
        pytest.param(1, ["a"], id="one"),
        pytest.param(9, ["a", "b", "c"], id="all"),
    ],
)
def test_no_more_go_than_a_disruption_budget_allows(allowed, gone):
    given = budget("b", allowed=allowed, desired=0)
    result, _ = play(web("a", "b", "c"), profile(Naming("a", "b", "c")), slots=ROOM, disruption_budgets=(given,))
    assert evicted(result) == gone


def test_the_budget_that_keeps_a_pod_is_named():
    given = budget("b", allowed=0)
    result, snapshot = play(web("a"), profile(Naming("a")), slots=ROOM, disruption_budgets=(given,))
    assert result.decisions[0].verdict.message.startswith("poddisruptionbudget ns/b: allows 0 disruptions")
    assert snapshot.asked == [], "no place is looked for"


def test_a_migration_in_flight_uses_what_the_budget_allows():
    given = budget("b", allowed=1, desired=1)
    snapshot = SlotSnapshot(web("a", "b"), slots=ROOM, jobs=(job("a"),), disruption_budgets=(given,))
    assert evicted(play(snapshot, profile(Naming("a", "b")))[0]) == []


def test_a_pod_that_breaks_its_budget_itself_stays_unless_the_budget_lets_unhealthy_pods_go():
    """D#1170: the pod restarts, so that the budget has fewer healthy pods than it wants."""
    sick = web("a", ready=False)
    keeps = budget("b", allowed=0, healthy=0, desired=1)
    lets = budget("b", allowed=0, healthy=0, desired=1, policy="AlwaysAllow")
    assert evicted(play(sick, profile(Naming("a")), slots=ROOM, disruption_budgets=(keeps,))[0]) == []
    assert evicted(play(sick, profile(Naming("a")), slots=ROOM, disruption_budgets=(lets,))[0]) == ["a"]


@pytest.mark.parametrize(
    ("policy", "gone"),
    [
        pytest.param(EvictionPolicy.EVICTION, [], id="eviction-heeds-both"),
        pytest.param(EvictionPolicy.DELETE, ["a"], id="deletion-heeds-no-disruption-budget"),
        pytest.param(EvictionPolicy.SOFT_EVICTION, ["a"], id="an-annotation-ends-no-pod"),
    ],
)
def test_the_request_of_the_profile_decides_which_budgets_are_asked(policy, gone):
    budgets = {"disruption_budgets": (budget("b", allowed=0),)}
    result, _ = play(web("a"), profile(Naming("a"), eviction_policy=policy), slots=ROOM, **budgets)
    assert evicted(result) == gone


@pytest.mark.parametrize("policy", [EvictionPolicy.EVICTION, EvictionPolicy.DELETE])
def test_no_more_go_than_a_budget_of_openkruise_allows(policy):
    given = unavailable_budget(allowed=1)
    more = {"slots": ROOM, "unavailable_budgets": (given,)}
    result, _ = play(web("a", "b", "c"), profile(Naming("a", "b", "c"), eviction_policy=policy), **more)
    assert evicted(result) == ["a"]


def test_budgets_of_other_namespaces_keep_nobody():
    given = budget("b", allowed=0)
    pods = [pod("a", namespace="other", metadata={"labels": {"app": "web"}})]
    assert evicted(play(pods, profile(Naming("a")), slots=ROOM, disruption_budgets=(given,))[0]) == ["a"]
