"""What one namespace may have watched, and that it costs nobody else."""

from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.claims.codes import Code
from dra.engine.claims.view import WorkloadPhase
from dra.engine.claims.workload_index import WorkloadIndex, WorkloadKey
from dra.engine.claims.workload_kinds import KINDS_PER_NAMESPACE, WatchedKinds
from dra.engine.dirty_keys import DirtyKeys
from dra.model.meta import Key, Uid
from dra.model.references import ConsumerReference, GroupResource
from tests.dra.engine.examples import JOBS


def kind(number):
    return GroupResource(resource="things", group=f"g{number}.example.com")


def followed_of(namespaces):
    found = WatchedKinds()
    for namespace, numbers in namespaces.items():
        for number in numbers:
            found.add(namespace, kind(number))
    return found


def test_a_namespace_that_names_8000_kinds_has_the_first_of_them_watched():
    found = followed_of({"mallory": range(8000)})
    assert found.all() == {kind(number) for number in range(KINDS_PER_NAMESPACE)}


def test_the_surplus_of_one_namespace_is_not_another_ones():
    found = followed_of({"mallory": range(8000), "alice": [7500]})
    assert kind(7500) in found.all()


def test_kinds_with_release_rules_count_against_no_bound():
    found = WatchedKinds()
    found.exempt(frozenset({kind(9000)}))
    for number in (*range(8000), 9000):
        found.add("mallory", kind(number))
    found.add("mallory", JOBS)
    assert {kind(9000), JOBS} <= found.all()


def test_a_kind_that_goes_makes_room_for_the_oldest_of_the_surplus():
    found = followed_of({"alice": range(KINDS_PER_NAMESPACE + 2)})
    found.remove("alice", kind(3))
    assert kind(KINDS_PER_NAMESPACE) in found.all()
    assert kind(3) not in found.all()
    assert kind(KINDS_PER_NAMESPACE + 1) not in found.all()


def test_a_kind_that_has_taken_the_room_of_another_fills_it():
    found = followed_of({"alice": range(KINDS_PER_NAMESPACE + 1)})
    found.remove("alice", kind(3))
    found.add("alice", kind(9000))
    assert kind(KINDS_PER_NAMESPACE) in found.all()
    assert kind(9000) not in found.all()


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 40), st.booleans()), max_size=300))
def test_the_watched_kinds_are_the_first_of_each_namespace_whatever_comes_and_goes(steps):
    """Against a slow model: of each namespace, the kinds in the order in which they came, the first of them watched."""
    found, model = WatchedKinds(), {}
    for namespace, number, comes in steps:
        there = model.setdefault(namespace, OrderedDict())
        if comes:
            there[number] = there.get(number, 0) + 1
            found.add(namespace, kind(number))
        elif there.get(number):
            there[number] -= 1
            if not there[number]:
                del there[number]
            found.remove(namespace, kind(number))
        wanted = {kind(n) for each in model.values() for n in list(each)[:KINDS_PER_NAMESPACE]}
        assert found.all() == wanted
    for namespace, there in model.items():
        for number, count in there.items():
            for _ in range(count):
                found.remove(namespace, kind(number))
    assert found.all() == frozenset()
    assert not found._namespaces


class Counted(dict):
    """A dictionary that counts how many of its items somebody walks through."""

    walked = 0

    def items(self):
        for item in super().items():
            self.walked += 1
            yield item


def test_what_is_learned_of_one_kind_costs_nothing_for_claims_of_others():
    dirty: DirtyKeys[Key] = DirtyKeys()
    index = WorkloadIndex(dirty=dirty)
    for number in range(1000):
        reference = ConsumerReference.parse(f"things.g{number}.example.com/x", uid=Uid("1"))
        index.set_references(("mallory", f"claim-{number}"), [reference])
    index._referrers = Counted(index._referrers)
    index.observe_kind(kind(5), WorkloadPhase.NO_KIND)
    assert set(dirty.take()) == {("mallory", "claim-5")}
    index.forget_kind(kind(5))
    assert set(dirty) == {("mallory", "claim-5")}
    assert index._referrers.walked == 0


@pytest.mark.parametrize(
    ("number", "phase"),
    [
        pytest.param(0, WorkloadPhase.UNKNOWN, id="within-the-bound-it-is-looked-for"),
        pytest.param(KINDS_PER_NAMESPACE, WorkloadPhase.OVER_LIMIT, id="beyond-it-nobody-looks"),
    ],
)
def test_a_kind_beyond_the_bound_is_in_doubt(number, phase):
    index = WorkloadIndex(dirty=DirtyKeys())
    for each in range(KINDS_PER_NAMESPACE + 1):
        reference = ConsumerReference.parse(f"things.g{each}.example.com/x", uid=Uid("1"))
        index.set_references(("mallory", f"claim-{each}"), [reference])
    assert index.get(WorkloadKey(kind(number), "mallory", "x")).phase is phase
    assert Code.WORKLOAD_KINDS_EXCEEDED.value == "WorkloadKindsExceeded"
