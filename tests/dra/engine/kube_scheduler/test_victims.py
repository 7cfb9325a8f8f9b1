"""Who is evicted: tables of pods that are put back on a node in the order of kube-scheduler."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.kube_scheduler.victims import PotentialVictim, choose_victims
from dra.model.preemption import PodDisruptionBudget
from tests.violations import for_each_case

EARLY, LATE = "2026-11-20T10:00:00Z", "2026-11-20T11:00:00Z"


def candidate(name, cpu, priority=0, *, start_time=EARLY, **labels):
    victim = PotentialVictim(
        key=("ml", name), uid=name, priority=priority, start_time=start_time, labels=labels or {"name": name}
    )
    return victim, cpu


def budget(allowed, *, disrupted=(), namespace="ml", **labels):
    content = {
        "metadata": {"name": "-".join(labels), "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed, "disruptedPods": dict.fromkeys(disrupted, EARLY)},
    }
    return msgspec.convert(content, PodDisruptionBudget)


def evicted(free, candidates, budgets=(), required=()):
    """Return who leaves a node on which `free` CPUs are left once the preemptor has its own, and the violations."""
    amounts = {victim.uid: cpu for victim, cpu in candidates}

    def reprieve(uid):
        nonlocal free
        if amounts[uid] > free:
            return False
        free -= amounts[uid]
        return True

    victims = [victim for victim, _ in candidates]
    chosen = choose_victims(victims, budgets, reprieve=reprieve, required=frozenset(required))
    return [*chosen.uids], sorted(chosen.pdb_violations)


@for_each_case(
    [
        pytest.param(2, [candidate("a", 2), candidate("b", 2, 5)], [], (["a"], []), id="priority"),
        pytest.param(2, [candidate("a", 2, start_time=LATE), candidate("b", 2)], [], (["a"], []), id="age"),
        pytest.param(2, [candidate("a", 2, start_time=""), candidate("b", 2)], [], (["a"], []), id="not-started"),
        pytest.param(
            2, [candidate("a", 2, x="1"), candidate("b", 2, 5)], [budget(0, x="1")], (["b"], []), id="a-budget-first"
        ),
        pytest.param(
            2, [candidate("a", 2, x="1"), candidate("b", 2, 5)], [budget(1, x="1")], (["a"], []), id="an-unused-budget"
        ),
        pytest.param(0, [candidate("a", 2, x="1")], [budget(0, x="1")], (["a"], ["a"]), id="never-a-bar"),
        pytest.param(
            2,
            [candidate("a", 2, 9, x="1"), candidate("b", 2, x="1")],
            [budget(1, x="1")],
            (["a"], []),
            id="the-important-use-up-the-budget",
        ),
        pytest.param(
            2,
            [candidate("a", 2, x="1"), candidate("b", 2, 5)],
            [budget(0, x="1", disrupted=["a"])],
            (["a"], []),
            id="evicted-already",
        ),
        pytest.param(
            2,
            [candidate("a", 2, x="1"), candidate("b", 2, 5)],
            [budget(0, x="1", namespace="other")],
            (["a"], []),
            id="of-another-namespace",
        ),
        pytest.param(
            0,
            [candidate("a", 2, 9, x="1", y="1"), candidate("b", 2, y="1")],
            [budget(0, x="1"), budget(1, y="1")],
            (["a", "b"], ["a"]),
            id="a-violated-budget-ends-the-search",
        ),
    ]
)
def test_who_is_evicted_and_against_which_budgets(free, candidates, budgets, outcome):
    assert evicted(free, candidates, budgets) == outcome
    assert evicted(free, candidates[::-1], budgets) == outcome


def test_a_required_victim_is_evicted_though_there_is_room():
    assert evicted(9, [candidate("a", 2, 9), candidate("b", 2)], required=["a"]) == (["a"], [])


AMOUNTS = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2), st.booleans()), max_size=7)


@given(free=st.integers(0, 9), pods=AMOUNTS, allowed=st.integers(0, 2))
def test_no_victim_can_be_put_back(free, pods, allowed):
    candidates = [candidate(str(i), cpu, prio, x=str(guarded)) for i, (cpu, prio, guarded) in enumerate(pods)]
    uids, violations = evicted(free, candidates, [budget(allowed, x="True")])
    left = free - sum(cpu for victim, cpu in candidates if victim.uid not in uids)
    assert left >= 0
    assert all(cpu > left for victim, cpu in candidates if victim.uid in uids)
    assert set(violations) <= set(uids)
    guarded = sum(victim.labels["x"] == "True" for victim, _ in candidates)
    assert len(violations) <= max(0, guarded - allowed)
