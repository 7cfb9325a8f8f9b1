"""Which CPUs the pods get back: those that went offline under them, and no others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.cpus.cpusets import CpuSet, parse
from kubeletplugin.cgroups.cpu_hotplug import OfflineCpuTracker
from kubeletplugin.cgroups.cpuset_plan import CgroupVersion
from kubeletplugin.cgroups.hierarchy import find_hierarchy
from tests.kubeletplugin.cgroups.trees import folders
from tests.violations import for_each_case


@for_each_case(
    [
        pytest.param([("0-7", "0-7")], "", id="nothing-happened"),
        pytest.param([("0-7", "0-7"), ("0-5,7", "0-5,7")], "", id="still-away"),
        pytest.param([("0-7", "0-7"), ("0-5,7", "0-5,7"), ("0-5,7", "0-7")], "6", id="back"),
        pytest.param([("0-7", "0-7"), ("0-5,7", "0-5,7"), ("0-5,7", "0-7"), ("0-7", "0-7")], "", id="once"),
        pytest.param([("0-7", "0-7"), ("0-5,7", "0-7")], "", id="taken-on-purpose"),
        pytest.param([("2-7", "0-7"), ("2-5,7", "0-5,7"), ("2-5,7", "0-7")], "6", id="never-had-the-others"),
        pytest.param([("0-5", "0-5"), ("0-5", "0-7")], "", id="a-cpu-that-is-new"),
    ]
)
def test_what_comes_back(looks, back):
    it = OfflineCpuTracker()
    found = [it.update(parse(cpus), online=parse(online)) for cpus, online in looks]
    assert found[-1] == (parse(back) if back else CpuSet())


@given(st.lists(st.tuples(st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5)))))
def test_only_what_was_had_and_is_online_comes_back(looks):
    it, had = OfflineCpuTracker(), set()
    for cpus, online in looks:
        back = it.update(CpuSet(cpus & online), online=CpuSet(online))
        assert set(back) <= had & online - cpus
        had |= cpus & online


def test_all_cgroups_from_the_top_to_the_pods_are_widened(tmp_path):
    tree = {"system": "0-3", "kubelet": "0-3", "kubelet/kubepods": "0-1", "kubelet/kubepods/pod1": "0-1"}
    hierarchy = find_hierarchy(folders(tmp_path, tree, version=CgroupVersion.V1))
    assert hierarchy.online() == parse("0-7")
    hierarchy.widen(parse("4"))
    cpus = {name: (tmp_path / "cpuset" / name / "cpuset.cpus").read_text().strip() for name in ("", *tree)}
    assert cpus == {"": "0-7", **tree, "kubelet": "0-4", "kubelet/kubepods": "0-1,4"}
