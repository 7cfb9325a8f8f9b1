"""What a claim's record remembers from one version of the claim to the next."""

from tests.dra.engine.examples import KEY, NOON, allocation, claim, pod, told


def test_how_often_an_allocation_was_taken_back_from_pods_that_wait_counts_until_one_is_bound(world):
    def revocations():
        return world.view(KEY, now=NOON).history.revocations

    told(world, claim(version=1, allocation=allocation()), pod("a"))
    counts = []
    for version in (2, 4):
        told(world, claim(version=version, allocation=None), claim(version=version + 1, allocation=allocation()))
        counts.append(revocations())
    told(world, pod("a", version=2, node="n1"))
    assert (counts, revocations()) == ([1, 2], 0)
