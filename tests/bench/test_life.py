import pytest

from bench.life import BOUND, SUCCEEDED, Held, Life, MarkedPods
from localplane.plane.supervisor import ComponentDiedError
from localplane.store import ObjectKey, Store


async def test_the_bench_of_the_whole_plane_comes_to_its_end():
    found = await Life(20).measure()
    assert {"created, s", "bound, s", "running, s", "ended, s", "counted, s", "whole life, s"} <= found.keys()


async def test_a_plane_that_dies_ends_the_bench_at_once(monkeypatch):
    def start(_self, _pod, _container, _ended):
        """As it was before containers had devices."""

    monkeypatch.setattr(Held, "start", start)
    with pytest.raises(BaseExceptionGroup) as failed:
        await Life(2).measure()
    assert failed.group_contains(ComponentDiedError, match="kubelets failed .TypeError", depth=1)


def test_pods_with_a_mark_are_counted_as_they_are_written():
    store, first, second = Store(), ObjectKey("pods", "default", "a"), ObjectKey("pods", "default", "b")
    store.start_history("pods")
    pods = MarkedPods(store, BOUND, SUCCEEDED)
    for key, raw in ((first, b"{}"), (first, BOUND), (second, BOUND), (second, BOUND + SUCCEEDED)):
        store.put(key, raw)
    assert (pods.count(BOUND), pods.count(SUCCEEDED)) == (2, 1)
    store.remove(second, BOUND + SUCCEEDED)
    store.put(first, BOUND)
    assert (pods.count(BOUND), pods.count(SUCCEEDED)) == (1, 0)
