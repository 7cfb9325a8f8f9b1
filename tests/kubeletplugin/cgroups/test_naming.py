import pytest

from kubeletplugin.cgroups.naming import Level, holds_all_pods, level


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("", Level.PODS, id="top"),
        pytest.param("burstable", Level.QOS, id="cgroupfs-qos"),
        pytest.param("kubepods-besteffort.slice", Level.QOS, id="systemd-qos"),
        pytest.param("kubelet-kubepods-besteffort.slice", Level.QOS, id="systemd-qos-below-a-parent"),
        pytest.param("pod6f1d-11", Level.POD, id="cgroupfs-guaranteed-pod"),
        pytest.param("besteffort/pod6f1d-11", Level.POD, id="cgroupfs-pod"),
        pytest.param("besteffort/pod0123456789abcdef0123456789abcdef", Level.POD, id="static-pod"),
        pytest.param("kubepods-pod6f1d_11.slice", Level.POD, id="systemd-guaranteed-pod"),
        pytest.param("kubepods-burstable.slice/kubepods-burstable-pod6f1d_11.slice", Level.POD, id="systemd-pod"),
        pytest.param("kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod6_1.slice", Level.POD, id="kind"),
        pytest.param("besteffort/pod1/0123abcd", Level.CONTAINER, id="cgroupfs-container"),
        pytest.param("kubepods-pod1.slice/cri-containerd-0123abcd.scope", Level.CONTAINER, id="systemd-container"),
        pytest.param("kubepods-pod1.slice/crio-0123abcd.scope", Level.CONTAINER, id="cri-o"),
        pytest.param("besteffort/pod1/0123/init.scope", Level.NESTED, id="within-a-container"),
        pytest.param("besteffort/pod1/0123/pod7/besteffort", Level.NESTED, id="a-kubelet-in-a-container"),
        pytest.param("strange", Level.CONTAINER, id="where-the-kubelet-makes-none"),
        pytest.param("besteffort/strange", Level.CONTAINER, id="likewise"),
    ],
)
def test_a_cgroup_is_known_by_its_place_and_name(path, expected):
    assert level(tuple(filter(None, path.split("/")))) is expected


@pytest.mark.parametrize("name", ["kubepods", "kubepods.slice", "kubelet-kubepods.slice"])
def test_the_cgroup_of_all_pods(name):
    assert holds_all_pods(name)


@pytest.mark.parametrize("name", ["kubepods-burstable.slice", "mykubepods", "system.slice", "kubelet.slice"])
def test_what_is_not_the_cgroup_of_all_pods(name):
    assert not holds_all_pods(name)
