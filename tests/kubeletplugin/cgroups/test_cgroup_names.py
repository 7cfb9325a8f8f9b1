import pytest

from kubeletplugin.cgroups.cgroup_names import CgroupLevel, cgroup_level, is_best_effort, is_kubepods


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("", CgroupLevel.PODS, id="top"),
        pytest.param("burstable", CgroupLevel.QOS, id="cgroupfs-qos"),
        pytest.param("kubepods-besteffort.slice", CgroupLevel.QOS, id="systemd-qos"),
        pytest.param("kubelet-kubepods-besteffort.slice", CgroupLevel.QOS, id="systemd-qos-below-a-parent"),
        pytest.param("pod6f1d-11", CgroupLevel.POD, id="cgroupfs-guaranteed-pod"),
        pytest.param("besteffort/pod6f1d-11", CgroupLevel.POD, id="cgroupfs-pod"),
        pytest.param("besteffort/pod0123456789abcdef0123456789abcdef", CgroupLevel.POD, id="static-pod"),
        pytest.param("kubepods-pod6f1d_11.slice", CgroupLevel.POD, id="systemd-guaranteed-pod"),
        pytest.param("kubepods-burstable.slice/kubepods-burstable-pod6f1d_11.slice", CgroupLevel.POD, id="systemd-pod"),
        pytest.param(
            "kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod6_1.slice", CgroupLevel.POD, id="kind"
        ),
        pytest.param("besteffort/pod1/0123abcd", CgroupLevel.CONTAINER, id="cgroupfs-container"),
        pytest.param(
            "kubepods-pod1.slice/cri-containerd-0123abcd.scope", CgroupLevel.CONTAINER, id="systemd-container"
        ),
        pytest.param("kubepods-pod1.slice/crio-0123abcd.scope", CgroupLevel.CONTAINER, id="cri-o"),
        pytest.param("besteffort/pod1/0123/init.scope", CgroupLevel.NESTED, id="within-a-container"),
        pytest.param("besteffort/pod1/0123/pod7/besteffort", CgroupLevel.NESTED, id="a-kubelet-in-a-container"),
        pytest.param("strange", CgroupLevel.CONTAINER, id="where-the-kubelet-makes-none"),
        pytest.param("besteffort/strange", CgroupLevel.CONTAINER, id="likewise"),
    ],
)
def test_a_cgroup_is_known_by_its_place_and_name(path, expected):
    assert cgroup_level(tuple(filter(None, path.split("/")))) is expected


@pytest.mark.parametrize("name", ["kubepods", "kubepods.slice", "kubelet-kubepods.slice"])
def test_the_cgroup_of_all_pods(name):
    assert is_kubepods(name)


@pytest.mark.parametrize("name", ["kubepods-burstable.slice", "mykubepods", "system.slice", "kubelet.slice"])
def test_what_is_not_the_cgroup_of_all_pods(name):
    assert not is_kubepods(name)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("besteffort", True, id="cgroupfs"),
        pytest.param("besteffort/pod1/c", True, id="a-container-in-the-class"),
        pytest.param("kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod1.slice", True, id="systemd"),
        pytest.param("burstable/pod1/besteffort", False, id="a-name-that-a-container-chose"),
        pytest.param("pod1", False, id="guaranteed"),
        pytest.param("", False, id="all-pods"),
    ],
)
def test_the_cgroups_of_best_effort_pods(path, expected):
    assert is_best_effort(tuple(filter(None, path.split("/")))) is expected
