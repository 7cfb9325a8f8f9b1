import pytest

from kubeletplugin.cgroups.cgroup_names import (
    CgroupLevel,
    cgroup_level,
    is_best_effort,
    is_kubepods,
    pod_uid,
    pod_uid_of_process,
)
from tests.violations import for_each_case


@for_each_case(
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


@for_each_case(
    [
        pytest.param("pod6f1d-11", "6f1d-11", id="cgroupfs"),
        pytest.param("kubepods-burstable-pod6f1d_11.slice", "6f1d-11", id="systemd-writes-dashes-as-underscores"),
        pytest.param("kubelet-kubepods-pod6f1d_11.slice", "6f1d-11", id="systemd-below-a-parent"),
        pytest.param("pod0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef", id="static-pod"),
        pytest.param("burstable", None, id="class"),
        pytest.param("crio-conmon-0123abcd.scope", None, id="monitor-of-cri-o"),
        pytest.param("kubepods-pod1.slice:cri-containerd:0123", None, id="stray-container"),
    ]
)
def test_the_uid_of_a_pod_is_in_the_name_of_its_cgroup(name, uid):
    assert pod_uid(name) == uid


@for_each_case(
    [
        pytest.param("12:memory:/kubepods/burstable/pod6f1d-11/0123\n3:cpu:/x\n", "6f1d-11", id="v1"),
        pytest.param(
            "5:devices:/\n4:cpu:/kubepods/pod6f1d-11/0123/nested\n0::/\n", "6f1d-11", id="first-that-names-one"
        ),
        pytest.param(
            "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod6f1d_11.slice/crio-01.scope\n",
            "6f1d-11",
            id="v2-systemd",
        ),
        pytest.param("0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod1.slice/a.scope\n", "1", id="kind"),
        pytest.param("0::/system.slice/sshd.service\n", None, id="no-pod"),
        pytest.param("0::/system.slice/pod6f1d-11\n", None, id="pod-outside-of-kubepods"),
        pytest.param("0::/kubepods/pod1/c/kubepods/pod2\n", "1", id="a-container-names-its-own-as-it-likes"),
        pytest.param("0::/kubepods/burstable\n", None, id="class"),
        pytest.param("0::/../../burstable/pod6f1d-11/0123\n", "6f1d-11", id="own-cgroup-namespace"),
        pytest.param("0::/../../pod6f1d-11/0123\n", "6f1d-11", id="own-cgroup-namespace-same-class"),
        pytest.param(
            "0::/../../../kubepods-burstable.slice/kubepods-burstable-pod6f1d_11.slice/crio-01.scope\n",
            "6f1d-11",
            id="own-cgroup-namespace-systemd",
        ),
        pytest.param("0::/../../../../kubepods/pod1/c\n", "1", id="own-cgroup-namespace-outside-of-kubepods"),
        pytest.param("0::/../../../system.slice/pod1\n", None, id="own-cgroup-namespace-no-pod"),
        pytest.param("0::/../0123\n", None, id="sibling-container"),
        pytest.param("0::/\n", None, id="another-cgroup-namespace"),
        pytest.param("", None, id="ended"),
    ],
)
def test_the_pod_of_a_process_is_in_its_cgroup_file(text, uid):
    assert pod_uid_of_process(text) == uid
