import pytest

from bench.life import Held, Life
from localplane.plane.supervisor import ComponentDiedError


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
