import pytest

from dra.model.meta import ObjectMeta
from dra.model.pods import Pod
from kubeletplugin.cgroups.cgroup_names import is_best_effort
from kubeletplugin.cgroups.cpuset_plan import CgroupVersion
from kubeletplugin.cgroups.hierarchy import CgroupsNotFoundError
from kubeletplugin.cgroups.pod_cgroups import (
    ANNOTATION_CONFIG_HASH,
    ANNOTATION_CONFIG_MIRROR,
    Controller,
    PodCgroup,
    find_controllers,
    find_pod_hierarchies,
    named_uids,
)
from tests.kubeletplugin.cgroups import recorded
from tests.kubeletplugin.cgroups.recorded import HASH, JOB, LAYOUTS, MIRROR, WEB, add_pod

VERSIONS = [pytest.param(recorded.v1, id="v1"), pytest.param(recorded.v2, id="v2")]


def pod(name, uid, **annotations):
    return Pod(metadata=ObjectMeta(name=name, namespace="default", uid=uid, annotations=annotations or None))


def mirror(name, uid, *, config_hash):
    return pod(name, uid, **{ANNOTATION_CONFIG_MIRROR: config_hash, ANNOTATION_CONFIG_HASH: config_hash})


@pytest.mark.parametrize("make", VERSIONS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_pods_of_every_class_are_found_by_their_uid_in_every_shape_of_names(tmp_path, make, layout):
    root, (path, container) = make(tmp_path / "cgroup"), LAYOUTS[layout]
    for qos, uid in (("", WEB), ("besteffort", JOB), ("burstable", HASH)):
        add_pod(root, path(qos, uid), container=container)
    hierarchies = find_pod_hierarchies(root)
    found = hierarchies.read_pods()
    assert found.keys() == {WEB, JOB, HASH}
    assert all(cgroup.has_containers for cgroup in found.values())
    assert {uid for uid, cgroup in found.items() if is_best_effort(cgroup.path)} == {JOB}
    for controller in Controller:
        assert hierarchies.folder(controller, found[WEB].path).is_dir()


def test_v1_has_a_hierarchy_for_each_controller_and_some_share_one(tmp_path):
    root = recorded.v1(tmp_path, shared=True)
    version, tops = find_controllers(root)
    assert version is CgroupVersion.V1
    assert {each.value: top.name for each, top in tops.items()} == {
        "cpu": "cpu,cpuacct",
        "cpuacct": "cpu,cpuacct",
        "cpuset": "cpuset",
        "memory": "memory",
    }


def test_a_v1_machine_with_an_empty_unified_tree_is_v1_and_has_no_pressure_of_pods(tmp_path):
    root = recorded.v1(tmp_path)
    (root / "unified").mkdir()
    (root / "unified/cgroup.controllers").write_text("")
    add_pod(root, recorded.cgroupfs("", WEB), container="c")
    hierarchies = find_pod_hierarchies(root)
    assert hierarchies.version is CgroupVersion.V1
    assert hierarchies.unified_folder(hierarchies.read_pods()[WEB].path) == root / f"unified/kubepods/pod{WEB}"
    assert not hierarchies.unified_folder(("x",)).exists()


def test_a_machine_without_controllers_is_refused_with_what_to_mount(tmp_path):
    with pytest.raises(CgroupsNotFoundError, match=r"no controllers cpu and memory.*mount the host's"):
        find_pod_hierarchies(tmp_path)


def test_before_the_kubelet_has_started_there_are_no_pods(tmp_path):
    with pytest.raises(CgroupsNotFoundError, match="check that the kubelet has started"):
        find_pod_hierarchies(recorded.v2(tmp_path))


def test_of_several_kubelets_the_one_with_the_nodes_pods_is_taken(tmp_path):
    """As in kind, whose nodes are containers of one machine."""
    root = recorded.v2(tmp_path)
    add_pod(root, f"a/kubelet/{recorded.cgroupfs('', WEB)}", container="c")
    add_pod(root, f"b/kubelet/{recorded.cgroupfs('', JOB)}", container="c")
    assert find_pod_hierarchies(root, uids={JOB}).kubepods == ("b", "kubelet", "kubepods")
    assert find_pod_hierarchies(root, uids={WEB}).kubepods == ("a", "kubelet", "kubepods")
    assert find_pod_hierarchies(root, pods="/b/kubelet/kubepods", uids={WEB}).kubepods == ("b", "kubelet", "kubepods")
    with pytest.raises(CgroupsNotFoundError, match=r"several kubelets.*--kubepods-cgroup"):
        find_pod_hierarchies(root)
    with pytest.raises(CgroupsNotFoundError, match="does not exist; correct --kubepods-cgroup"):
        find_pod_hierarchies(root, pods="c")


def test_a_pod_without_cgroups_of_containers_says_so_until_there_is_one(tmp_path):
    root, path = recorded.v2(tmp_path), recorded.cgroupfs("burstable", WEB)
    add_pod(root, path)
    hierarchies = find_pod_hierarchies(root)
    empty = hierarchies.read_pods()
    assert empty[WEB] == PodCgroup(path=("burstable", f"pod{WEB}"), has_containers=False)
    add_pod(root, path, container="c")
    assert hierarchies.read_pods(empty)[WEB].has_containers


def test_containers_of_a_runtime_with_another_driver_are_found_as_strays(tmp_path):
    """A kubelet with systemd and a runtime with cgroupfs (k8s#106514)."""
    root = recorded.v1(tmp_path)
    add_pod(root, recorded.systemd("burstable", WEB))
    stray = f"kubepods-burstable-pod{WEB.replace('-', '_')}.slice:cri-containerd:0123abcd"
    for parent in ("", "system.slice"):
        (root / "cpu" / parent / stray).mkdir(parents=True)
    hierarchies = find_pod_hierarchies(root)
    assert not hierarchies.read_pods()[WEB].has_containers
    assert hierarchies.read_stray_containers() == [stray, stray]


def test_a_mirror_pod_is_found_by_the_hash_of_its_static_pod():
    apiserver, web = mirror("kube-apiserver-n1", MIRROR, config_hash=HASH), pod("web", WEB)
    assert named_uids([apiserver, web])[HASH] is apiserver
    assert named_uids([apiserver, web])[WEB] is web


@pytest.mark.parametrize(
    "order", [pytest.param(1, id="forger-listed-first"), pytest.param(-1, id="forger-listed-last")]
)
def test_a_pod_whose_annotation_names_another_pod_does_not_get_that_pods_use(order):
    """Annotations are the tenant's own; uids are not."""
    forger, web = mirror("forger", JOB, config_hash=WEB), pod("web", WEB)
    assert named_uids([forger, web][::order])[WEB] is web


def test_a_hash_without_the_mark_of_a_mirror_pod_does_not_count():
    assert HASH not in named_uids([pod("forger", JOB, **{ANNOTATION_CONFIG_HASH: HASH})])
