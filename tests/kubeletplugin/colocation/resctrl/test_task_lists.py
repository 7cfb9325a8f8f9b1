"""Lists of threads, of control groups and of pods."""

import pytest

from kubeletplugin.cgroups.cpuset_plan import CgroupVersion
from kubeletplugin.cgroups.pod_cgroups import Controller, PodHierarchies
from kubeletplugin.colocation.resctrl import task_lists
from kubeletplugin.colocation.resctrl.task_lists import read_pod_threads, read_task_ids, read_whole
from tests.kubeletplugin.cgroups.greedy import GREEDY, greedy_pod


@pytest.mark.parametrize(
    ("version", "name"),
    [
        pytest.param(CgroupVersion.V1, "tasks", id="v1"),
        pytest.param(CgroupVersion.V2, "cgroup.threads", id="v2"),
    ],
)
def test_threads_of_nested_cgroups_belong_to_the_pod(tmp_path, version, name):
    pod = tmp_path / "kubepods/pod1"
    for path, ids in (("", ""), ("c1", "10\n11\n"), ("c1/init.scope", "12\n"), ("c1/a/b", "13\n"), ("sandbox", "14\n")):
        (pod / path).mkdir(parents=True, exist_ok=True)
        (pod / path / name).write_text(ids)
    hierarchies = PodHierarchies(version=version, tops={Controller.CPU: tmp_path}, kubepods=("kubepods",))
    assert read_pod_threads(hierarchies, ("pod1",)).ids == {10, 11, 12, 13, 14}


def test_a_pod_that_is_gone_has_no_threads(tmp_path):
    hierarchies = PodHierarchies(version=CgroupVersion.V1, tops={Controller.CPU: tmp_path}, kubepods=("kubepods",))
    assert read_pod_threads(hierarchies, ("pod1",)).ids == frozenset()


@pytest.mark.parametrize("shape", GREEDY)
def test_a_pod_with_any_number_of_cgroups_to_any_depth_is_read_up_to_a_bound(tmp_path, shape):
    with greedy_pod(tmp_path / "kubepods/pod1/c", shape):
        for path, ids in (("pod1", ""), ("pod1/c", "10\n"), ("pod1/z", "11\n")):
            (tmp_path / "kubepods" / path).mkdir(exist_ok=True)
            (tmp_path / "kubepods" / path / "tasks").write_text(ids)
        hierarchies = PodHierarchies(version=CgroupVersion.V1, tops={Controller.CPU: tmp_path}, kubepods=("kubepods",))
        threads = read_pod_threads(hierarchies, ("pod1",))
        assert threads.ids == {10, 11}
        assert not threads.is_whole


def test_a_list_longer_than_one_read_is_read_to_its_end(tmp_path):
    ids = range(1, 50_000)
    (tmp_path / "tasks").write_text("".join(f"{number}\n" for number in ids))
    assert read_task_ids(tmp_path / "tasks") == set(ids)


def test_a_list_that_is_cut_ends_with_a_whole_id(tmp_path, monkeypatch):
    monkeypatch.setattr(task_lists, "LIST_SIZE", 10)
    (tmp_path / "tasks").write_text("1001\n1002\n1003\n")
    assert read_task_ids(tmp_path / "tasks") == {1001, 1002}


def test_other_failures_are_told(tmp_path):
    with pytest.raises(IsADirectoryError):
        read_whole(tmp_path, size=10)
