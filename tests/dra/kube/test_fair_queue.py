"""Whoever fills the queue waits behind his own, and is the one to give way."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dra.kube.fair_queue import FairQueue


def taken(queue):
    return [queue.pop() for _ in range(len(queue))]


def test_namespaces_take_turns():
    queue = FairQueue(10)
    for number in range(4):
        queue.put(f"mallory-{number}", namespace="mallory")
    queue.put("alice-0", namespace="alice")
    assert taken(queue) == ["mallory-0", "alice-0", "mallory-1", "mallory-2", "mallory-3"]


def test_who_has_most_in_a_full_queue_gives_way():
    queue = FairQueue(4)
    for number in range(4):
        assert queue.put(f"mallory-{number}", namespace="mallory") is None
    assert queue.put("mallory-4", namespace="mallory") == "mallory-4"
    assert queue.put("alice-0", namespace="alice") == "mallory-3"
    assert queue.put("alice-1", namespace="alice") == "mallory-2"
    assert queue.put("alice-2", namespace="alice") == "alice-2"
    assert len(queue) == 4


@given(st.lists(st.sampled_from("aaaabc"), max_size=60), st.integers(1, 8))
def test_nothing_is_lost_or_made_up_and_the_fair_share_is_everybodys(namespaces, most):
    queue, refused = FairQueue(most), []
    for number, namespace in enumerate(namespaces):
        gone = queue.put((namespace, number), namespace=namespace)
        refused += [gone] if gone is not None else []
        assert len(queue) <= most
    left = taken(queue)
    assert sorted([*left, *refused]) == sorted((namespace, number) for number, namespace in enumerate(namespaces))
    kept, wanted = Counter(n for n, _ in left), Counter(namespaces)
    share = most // 3
    assert all(kept[name] >= min(count, share) for name, count in wanted.items())
    for name in wanted:
        mine = [number for namespace, number in left if namespace == name]
        assert mine == sorted(mine)
