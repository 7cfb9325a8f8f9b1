"""Walks of pods' cgroups: their order, their bounds, and the turns that pods take."""

import os
import shutil

import pytest

from kubeletplugin.cgroups.cgroup_tree import CGROUPS_MAX, LEVELS_MAX, POD_CGROUPS_MAX, PodWalk, child_names, take_turns
from tests.kubeletplugin.cgroups.greedy import GREEDY, greedy_pod
from tests.kubeletplugin.cgroups.trees import path


def make(top, *paths):
    for each in paths:
        (top / each).mkdir(parents=True)
    return str(top)


def test_containers_come_before_what_is_below_them(tmp_path):
    top = make(tmp_path, "pod1/c1/a/b", "pod1/c2", "pod1/c1/c")
    walk = PodWalk(top, ("pod1",))
    assert list(walk) == [
        path(name) for name in ("pod1", "pod1/c1", "pod1/c2", "pod1/c1/a", "pod1/c1/c", "pod1/c1/a/b")
    ]
    assert walk.is_whole


@pytest.mark.parametrize(
    ("bounds", "walked", "is_whole"),
    [
        pytest.param({"levels": 1}, 3, False, id="one-level-too-few"),
        pytest.param({"levels": 2}, 4, True, id="as-many-levels-as-there-are"),
        pytest.param({"cgroups": 3}, 3, False, id="one-cgroup-too-few"),
        pytest.param({"cgroups": 4}, 4, True, id="as-many-cgroups-as-there-are"),
        pytest.param({"cgroups": 2}, 2, False, id="not-even-all-containers"),
    ],
)
def test_a_walk_knows_whether_it_is_whole(tmp_path, bounds, walked, is_whole):
    walk = PodWalk(make(tmp_path, "pod1/c1/a", "pod1/c2"), ("pod1",), **bounds)
    assert len(list(walk)) == walked
    assert walk.is_whole is is_whole


@pytest.mark.parametrize("shape", GREEDY)
def test_a_pod_with_any_number_of_cgroups_to_any_depth_is_walked_up_to_a_bound(tmp_path, shape):
    with greedy_pod(tmp_path / "pod1/c1", shape):
        walk = PodWalk(make(tmp_path, "pod1/c2"), ("pod1",))
        walked = list(walk)
        assert walked[:3] == [("pod1",), ("pod1", "c1"), ("pod1", "c2")]
        assert len(walked) == (POD_CGROUPS_MAX if shape == "wide" else LEVELS_MAX + 2)
        assert not walk.is_whole


def test_what_is_made_below_a_cgroup_while_the_caller_has_it_is_walked(tmp_path):
    walk = iter(PodWalk(make(tmp_path, "pod1"), ("pod1",)))
    next(walk)
    make(tmp_path, "pod1/c1")
    assert list(walk) == [("pod1", "c1")]


def test_a_pod_that_vanishes_ends_its_walk(tmp_path):
    walk = PodWalk(make(tmp_path, "pod1/c1/a"), ("pod1",))
    cgroups = iter(walk)
    next(cgroups)
    shutil.rmtree(tmp_path / "pod1")
    assert list(cgroups) == []
    assert walk.is_whole


def test_pods_take_turns_so_that_one_hides_none_of_the_others(tmp_path):
    make(tmp_path, *(f"greedy/c/{number}" for number in range(20)), "pod1/c1", "pod2/c2/a")
    walks = [PodWalk(str(tmp_path), (name,)) for name in ("greedy", "pod1", "pod2")]
    walked = list(take_turns(walks, most=10))
    assert len(walked) == 10
    assert {path("pod1"), path("pod1/c1"), path("pod2"), path("pod2/c2"), path("pod2/c2/a")} < set(walked)
    assert [walk.is_whole for walk in walks] == [False, True, True]


def test_the_bound_of_all_pods_is_far_above_the_containers_of_a_node():
    pods, containers = 500, 10
    assert pods * (containers + 1) < CGROUPS_MAX


def test_no_more_children_are_looked_at_than_asked_for(tmp_path, monkeypatch):
    make(tmp_path, *map(str, range(20)))
    looked = []
    scandir = os.scandir

    class Entries:
        def __init__(self, folder):
            self._entries = scandir(folder)

        def __enter__(self):
            return (looked.append(entry.name) or entry for entry in self._entries)

        def __exit__(self, *_):
            self._entries.close()

    monkeypatch.setattr(os, "scandir", Entries)
    assert len(child_names(str(tmp_path), most=3)) == len(looked) == 3
