"""What a claim's record remembers from one version of the claim to the next."""

import pytest

from tests.dra.engine.examples import FOREIGN, GUARD, JOB, KEY, NOON, allocation, claim, observe_all, pod


def test_how_often_an_allocation_was_taken_back_from_pods_that_wait_counts_until_one_is_bound(world):
    def revocations():
        return world.view(KEY, now=NOON).history.revocations

    observe_all(world, claim(version=1, allocation=allocation()), pod("a"))
    counts = []
    for version in (2, 4):
        observe_all(world, claim(version=version, allocation=None), claim(version=version + 1, allocation=allocation()))
        counts.append(revocations())
    observe_all(world, pod("a", version=2, node="n1"))
    assert (counts, revocations()) == ([1, 2], 0)


LISTED = {"workload": JOB, "list": [JOB, FOREIGN, GUARD]}


@pytest.mark.parametrize(
    ("after", "ours", "entered"),
    [
        pytest.param({"workload": JOB}, False, {JOB.uid, FOREIGN.uid}, id="removed-by-its-owner"),
        pytest.param({"workload": JOB}, True, set(), id="removed-by-this-controller"),
        pytest.param(LISTED | {"entered": True}, True, {JOB.uid, FOREIGN.uid}, id="recorded-by-annotations"),
        pytest.param({"workload": JOB, "allocation": allocation("gpu-9")}, False, set(), id="another-allocation"),
        pytest.param({"workload": JOB, "allocation": None}, False, set(), id="deallocated"),
        pytest.param(LISTED | {"list": [], "identity": "another"}, False, set(), id="another-claim"),
    ],
)
def test_the_workloads_that_an_allocation_listed_are_known_until_it_ends(world, after, ours, entered):
    observe_all(world, claim(version=1, **LISTED))
    world.observe_claim(claim(version=2, **after), now=NOON, ours=ours)
    assert world.view(KEY, now=NOON).history.entered == entered


def test_a_workload_whose_annotations_were_removed_before_its_entry_may_be_entered_again(world):
    observe_all(
        world,
        claim(version=1, **LISTED, entered=True),
        claim(version=2, **LISTED),
        claim(version=3, workload=JOB),
    )
    assert world.view(KEY, now=NOON).history.entered == set()
