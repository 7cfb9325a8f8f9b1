"""Seeds are compared between two trees: what differs is told, and what only looks different is not."""

import pytest

from tests.simulation.comparison import (
    Cause,
    FirstDifference,
    Play,
    changes,
    compare,
    differences,
    extract,
    first_difference,
)
from tests.simulation.recording import OwnSequences

RECORD = {
    "seed": 1,
    "scenario": "a",
    "violation": "",
    "writes": {"controller patch pods": 1},
    "rests": [{"pods/ml/p": {"spec": {"nodeName": "n1"}}}, {}],
}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        pytest.param({}, [], id="equal"),
        pytest.param({"scenario": "b"}, ["scenario: "], id="another-scenario"),
        pytest.param({"violation": "a\nb"}, ["violation: none → a"], id="violation"),
        pytest.param(
            {"writes": {"controller patch pods": 2, "controller create pods": 1}},
            ["writes: controller create pods: 0 → 1", "writes: controller patch pods: 1 → 2"],
            id="writes",
        ),
        pytest.param(
            {"rests": [{"pods/ml/p": {"spec": {"nodeName": "n2"}}}, {}]},
            ['state at rest 1: pods/ml/p: spec.nodeName: "n1" → "n2"'],
            id="another-state",
        ),
        pytest.param(
            {"rests": [RECORD["rests"][0], {"pods/ml/q": {}}]},
            ["state in the end: pods/ml/q: only in the newer tree"],
            id="another-object",
        ),
        pytest.param({"rests": RECORD["rests"][:1]}, ["rests: 2 → 1"], id="fewer-rests"),
    ],
)
def test_differences_of_a_seed(changed, told):
    found = list(differences(RECORD, RECORD | changed))
    assert [each[: len(start)] for each, start in zip(found, told, strict=True)] == told


@pytest.mark.parametrize(
    ("after", "told"),
    [
        pytest.param({"a": [1, {"b": 2}]}, [], id="equal"),
        pytest.param({"a": [1, {"b": 3}]}, ["a[1].b: 2 → 3"], id="within-a-list"),
        pytest.param({"a": [{"b": 2}, 1]}, ['a[0]: 1 → {"b": 2}', 'a[1]: {"b": 2} → 1'], id="another-order"),
        pytest.param({"a": [1]}, ['a: [1, {"b": 2}] → [1]'], id="shorter-list"),
        pytest.param({}, ['a: [1, {"b": 2}] → null'], id="missing"),
    ],
)
def test_changes_of_an_object(after, told):
    assert list(changes({"a": [1, {"b": 2}]}, after)) == told


@pytest.mark.parametrize(
    ("newer", "first"),
    [
        pytest.param([[1.0, "a"], [2.0, "b"], [2.0, "c"]], None, id="equal"),
        pytest.param([[9.0, "a"], [9.0, "b"], [9.0, "c"]], None, id="other-times"),
        pytest.param([[1.0, "a"], [2.0, "d"], [2.0, "c"]], ("b", "d", Cause.DECISION), id="another-write"),
        pytest.param([[1.0, "a"]], ("b", "the end", Cause.DECISION), id="shorter"),
        pytest.param([[1.0, "a"], [2.0, "c"], [2.0, "b"]], ("b", "c", Cause.ORDER), id="another-order"),
        pytest.param([[1.0, "a"], [1.5, "c"], [2.0, "b"]], ("b", "c", Cause.DECISION), id="one-is-earlier"),
        pytest.param([[1.0, "a"], [2.0, "fault x"], [2.0, "b"]], ("b", "fault x", Cause.FAULT), id="another-fault"),
    ],
)
def test_the_first_difference_of_two_histories(newer, first):
    found = first_difference({"history": [[1.0, "a"], [2.0, "b"], [2.0, "c"]]}, {"history": newer})
    assert found == (first and FirstDifference(*first))


def test_what_one_component_draws_does_not_depend_on_others():
    name = ""
    alone, beside = (OwnSequences(1, lambda: name) for _ in range(2))
    name = "other"
    beside.random()
    name = "mine"
    assert alone.random() == beside.random()
    assert alone.getrandbits(64) == beside.getrandbits(64)


@pytest.mark.slow
@pytest.mark.parametrize("simulation", ["claims", "migrations"])
def test_a_tree_is_equal_to_itself(simulation, tmp_path):
    play = Play(tree=extract("HEAD", tmp_path), simulation=simulation)
    told = {before["seed"]: list(differences(before, after)) for before, after in compare(play, play, range(3))}
    assert told == {0: [], 1: [], 2: []}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("simulation", "mutation", "seeds"),
    [
        pytest.param("claims", "prune_unstarted_pods", range(16), id="claims"),
        pytest.param("migrations", "hold_no_devices", range(4), id="migrations"),
    ],
)
def test_a_broken_rule_makes_seeds_differ(simulation, mutation, seeds, tmp_path):
    tree = extract("HEAD", tmp_path)
    older = Play(tree=tree, simulation=simulation)
    newer = Play(tree=tree, simulation=simulation, mutation=mutation)
    plays = [played for played in compare(older, newer, seeds) if any(differences(*played))]
    assert Cause.DECISION in {found.cause for played in plays if (found := first_difference(*played)) is not None}
