import os
import shutil

import pytest

from dra.engine.cpus.cpusets import parse
from kubeletplugin.cgroups import hierarchy as module
from kubeletplugin.cgroups.cgroup_names import is_kubepods
from kubeletplugin.cgroups.cgroup_tree import POD_CGROUPS_MAX
from kubeletplugin.cgroups.cpuset_plan import CgroupVersion
from kubeletplugin.cgroups.hierarchy import CgroupsNotFoundError, find_hierarchy
from tests.kubeletplugin.cgroups.greedy import GREEDY, greedy_pod
from tests.kubeletplugin.cgroups.trees import folders, make

VERSIONS = [pytest.param(version, id=version.name) for version in CgroupVersion]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("pods", ["kubepods", "kubepods.slice", "kubelet/kubepods", "a.slice/a-kubepods.slice"])
def test_the_cgroup_of_all_pods_is_found(tmp_path, version, pods):
    root = folders(tmp_path, {pods: "0-7", "system.slice": ""}, version=version)
    hierarchy = find_hierarchy(root)
    assert hierarchy.version is version
    assert hierarchy.pods.match(f"*/{pods}")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_cgroup_that_vanishes_during_the_search_is_no_obstacle(tmp_path, version, monkeypatch):
    root = folders(tmp_path, {"a.slice/ended.service/x": "", "kubepods": "0-7"}, version=version)
    top = root / ("cpuset" if version is CgroupVersion.V1 else "")

    def end_service(name):
        if name in {"a.slice", "ended.service"}:
            shutil.rmtree(top / "a.slice", ignore_errors=True)
        return is_kubepods(name)

    monkeypatch.setattr(module, "is_kubepods", end_service)
    assert find_hierarchy(root).pods == top / "kubepods"


def test_the_search_lists_no_cgroup_without_children(tmp_path, monkeypatch):
    """Each new demand searches, and a machine has hundreds of services with dozens of files each."""
    services = dict.fromkeys((f"system.slice/{number}.service" for number in range(50)), "")
    root = folders(tmp_path, services | {"kubepods": "0-7"}, version=CgroupVersion.V2)
    listed, scandir = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: listed.append(str(folder)) or scandir(folder))
    assert find_hierarchy(root).pods == root / "kubepods"
    if (root / "kubepods").stat().st_nlink == 2:  # not all file systems count links
        assert listed == [str(root), str(root / "system.slice")]


def test_without_a_kubelet_the_refusal_says_what_to_look_at(tmp_path):
    with pytest.raises(CgroupsNotFoundError, match="check that the kubelet has started"):
        find_hierarchy(folders(tmp_path, {}, version=CgroupVersion.V2))


def test_several_kubelets_need_a_choice(tmp_path):
    root = folders(tmp_path, {"a/kubepods": "0-7", "b/kubepods": "0-7"}, version=CgroupVersion.V1)
    with pytest.raises(CgroupsNotFoundError, match=r"a/kubepods, b/kubepods.*--kubepods-cgroup"):
        find_hierarchy(root)
    assert find_hierarchy(root, pods="/b/kubepods").pods == root / "cpuset/b/kubepods"
    with pytest.raises(CgroupsNotFoundError, match="no cpuset"):
        find_hierarchy(root, pods="c/kubepods")


def test_a_machine_without_cpusets_is_refused(tmp_path):
    with pytest.raises(CgroupsNotFoundError, match="neither v1 nor v2"):
        find_hierarchy(tmp_path)


def test_a_hybrid_machine_has_its_cpusets_in_v1(tmp_path):
    folders(tmp_path, {"kubepods": "0-7"}, version=CgroupVersion.V1)
    (tmp_path / "unified").mkdir()
    (tmp_path / "unified/cgroup.controllers").write_text("memory\n")
    assert find_hierarchy(tmp_path).version is CgroupVersion.V1


@pytest.mark.parametrize("version", VERSIONS)
def test_all_cgroups_are_read_parents_first_each_folder_told_before(tmp_path, version):
    told = []
    root = folders(tmp_path, {"kubepods": "0-7", "kubepods/pod1": "0-3", "kubepods/pod1/c": "2"}, version=version)
    hierarchy = find_hierarchy(root)
    found = hierarchy.read(told.append)
    assert [(each.path, str(each.cpus)) for each in found] == [
        ((), "0-7"),
        (("pod1",), "0-3"),
        (("pod1", "c"), "2"),
    ]
    assert told == [str(hierarchy.file(each.path)) for each in found]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("shape", GREEDY)
def test_a_pod_with_any_number_of_cgroups_to_any_depth_hides_no_other(tmp_path, version, shape):
    others = {f"kubepods/besteffort/{name}": "0-3" for name in ("pod2", "pod2/c", "pod3", "pod3/c")}
    root = folders(tmp_path, {"kubepods": "0-7", "kubepods/besteffort": "0-7", **others}, version=version)
    hierarchy, told = find_hierarchy(root), []
    pod = hierarchy.pods / "besteffort/pod1"
    with greedy_pod(pod / "c", shape, {"cpuset.cpus": "0-3\n"}):
        for folder in (pod, pod / "c"):
            make(folder, "0-3", version=version, effective="0-3")
        paths = {cgroup.path for cgroup in hierarchy.read(told.append)}
    assert {("besteffort", *path) for path in (("pod1",), ("pod1", "c"), ("pod2", "c"), ("pod3", "c"))} < paths
    assert len(told) <= POD_CGROUPS_MAX + 6, "a watch of the kernel is a resource of the whole node"


def test_in_v2_all_pods_have_what_is_effective(tmp_path):
    hierarchy = find_hierarchy(folders(tmp_path, {"kubepods": ""}, version=CgroupVersion.V2, cpus="0-5"))
    assert hierarchy.read()[0].cpus == parse("0-5")


def test_what_is_written_is_read_and_what_is_gone_is_no_error(tmp_path):
    hierarchy = find_hierarchy(folders(tmp_path, {"kubepods": "0-7", "kubepods/pod1": "0-7"}, version=CgroupVersion.V1))
    assert hierarchy.write(("pod1",), parse("1,4-5"))
    assert hierarchy.own(("pod1",)) == parse("1,4-5")
    assert not hierarchy.write(("pod2",), parse("1"))
    assert hierarchy.own(("pod2",)) is None


def test_what_the_kernel_never_writes_is_refused(tmp_path):
    hierarchy = find_hierarchy(folders(tmp_path, {"kubepods": "0-7"}, version=CgroupVersion.V1))
    (hierarchy.pods / "cpuset.cpus").write_text("all of them")
    with pytest.raises(CgroupsNotFoundError, match="all of them"):
        hierarchy.read()
