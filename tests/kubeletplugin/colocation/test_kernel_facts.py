"""Features of the kernel, by the files in the cgroup of all pods."""

import pytest

from dra.engine.colocation.kernel_features import FeatureName
from kubeletplugin.cgroups.cpuset_plan import CgroupVersion
from kubeletplugin.cgroups.pod_cgroups import Controller, PodHierarchies
from kubeletplugin.colocation.kernel_facts import INTERVAL, KernelFeatureReader, read_kernel_facts
from kubeletplugin.colocation.resctrl.resctrl_files import ResctrlFiles
from tests.dra.engine.resctrl import machines

V1 = {"cpu": ["cpu.cfs_quota_us", "cpu.cfs_burst_us"], "cpuset": ["cpuset.cpus"]}


@pytest.fixture
def resctrl(tmp_path):
    root, proc = machines.install(machines.AMD, tmp_path / "machine")
    return ResctrlFiles(root, proc=proc)


def hierarchies(folder, files, *, version=CgroupVersion.V1):
    for top, names in files.items():
        (folder / top / "kubepods").mkdir(parents=True)
        for name in names:
            (folder / top / "kubepods" / name).touch()
    tops = {Controller(top) if top else Controller.CPU: folder / top for top in files}
    if "" in files:
        tops[Controller.CPUSET] = folder
    return PodHierarchies(version=version, tops=tops, kubepods=("kubepods",))


@pytest.mark.parametrize(
    ("version", "files", "present"),
    [
        pytest.param(CgroupVersion.V1, V1, {"cpuQuota", "cpuBurst", "cpuset"}, id="v1"),
        pytest.param(CgroupVersion.V1, {"cpu": ["cpu.shares"]}, set(), id="v1-without-quota-burst-and-cpusets"),
        pytest.param(
            CgroupVersion.V1,
            {"cpu": ["cpu.cfs_quota_us", "cpu.pressure"]},
            {"cpuQuota"},
            id="v1-has-no-pressure-of-pods",
        ),
        pytest.param(
            CgroupVersion.V2,
            {"": ["cpu.max", "cpu.max.burst", "cpuset.cpus", "cpu.pressure"]},
            {"cpuQuota", "cpuBurst", "cpuset", "cpuPressure"},
            id="v2",
        ),
        pytest.param(CgroupVersion.V2, {"": ["cpu.max"]}, {"cpuQuota"}, id="v2-without-pressure-and-burst"),
    ],
)
def test_a_feature_is_there_if_its_file_is(tmp_path, resctrl, version, files, present):
    facts = read_kernel_facts(hierarchies(tmp_path / "cgroup", files, version=version), resctrl)
    assert {name.value for name in facts.files} == present
    assert facts.cgroups == f"v{version.value}"
    assert facts.resctrl.vendor == "AuthenticAMD"


def test_the_kernel_is_looked_at_seldom_and_a_failure_keeps_what_was_seen(tmp_path, resctrl, monkeypatch, caplog):
    trees = hierarchies(tmp_path / "cgroup", V1)
    reader = KernelFeatureReader(resctrl)
    reader.look(None, now=0.0)
    assert reader.reported == []
    reader.look(trees, now=1.0)
    seen = reader.reported
    assert [feature["name"] for feature in seen] == [name.value for name in FeatureName]
    monkeypatch.setattr(resctrl, "read_tree", (tmp_path / "absent").read_text)
    reader.look(trees, now=INTERVAL)
    assert caplog.text == ""
    reader.look(trees, now=1.0 + INTERVAL)
    assert "features of the kernel are not read" in caplog.text
    assert reader.reported == seen
