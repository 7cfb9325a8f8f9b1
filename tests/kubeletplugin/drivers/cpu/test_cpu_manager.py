import json

import pytest

from kubeletplugin.drivers.cpu.cpu_manager import KubeletCpuManager


def state(tmp_path, **content):
    (tmp_path / "cpu_manager_state").write_text(json.dumps(content))


def test_before_the_kubelets_first_start_nobody_manages_cpus(tmp_path):
    assert KubeletCpuManager(tmp_path).active() is None


def test_policy_none_leaves_cpus_to_us(tmp_path):
    state(tmp_path, policyName="none", defaultCpuSet="", checksum=1)
    assert KubeletCpuManager(tmp_path).active() is None


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param({"policyName": "static", "defaultCpuSet": "0-7"}, "policy static", id="static"),
        pytest.param(
            {"policyName": "static", "entries": {"pod-uid": {"main": "2-3"}}}, "1 pods have CPUs", id="with-entries"
        ),
        pytest.param({"policyName": "none", "entries": {"pod-uid": {"main": "2"}}}, "1 pods have CPUs", id="left-over"),
        pytest.param({"policyName": "of-the-future"}, "policy of-the-future", id="unknown-policy"),
        pytest.param({}, "cannot be parsed", id="no-policy"),
    ],
)
def test_a_kubelet_that_manages_cpus_is_seen(tmp_path, content, text):
    state(tmp_path, **content)
    aside = KubeletCpuManager(tmp_path).active()
    assert text in aside.why
    assert str(tmp_path / "cpu_manager_state") in aside.why
    assert aside.written


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'"none"', b'{"policyName": "none", "entries": 3}'])
def test_what_cannot_be_understood_may_be_a_manager(tmp_path, content):
    (tmp_path / "cpu_manager_state").write_bytes(content)
    assert KubeletCpuManager(tmp_path).active()


def test_a_change_of_policy_is_seen(tmp_path):
    state(tmp_path, policyName="static")
    manager = KubeletCpuManager(tmp_path)
    assert manager.active()
    (tmp_path / "cpu_manager_state").unlink()
    assert manager.active() is None
    state(tmp_path, policyName="none")
    assert manager.active() is None


@pytest.mark.parametrize(
    ("policy", "written"),
    [
        pytest.param("none", False, id="none-so-claims-keep-their-cpus"),
        pytest.param("static", True, id="static-so-cpusets-stay-the-kubelets"),
    ],
)
def test_a_file_that_is_mounted_alone_and_was_replaced_gives_nothing_new_away(tmp_path, policy, written):
    state(tmp_path, policyName=policy)
    aside = replaced(tmp_path)
    assert "has been removed or replaced" in aside.why
    assert aside.written is written


def replaced(folder, **more):
    """Return what is known of a kubelet whose state file is mounted alone, and was replaced."""
    path = folder / "cpu_manager_state"
    with path.open() as mounted:
        path.unlink()
        path.symlink_to(f"/proc/self/fd/{mounted.fileno()}")  # a file without a name, as in a mount of it
        return KubeletCpuManager(folder, **more).active()


def test_where_cpus_are_counted_beside_static_the_text_names_the_mount_that_is_missing(tmp_path):
    state(tmp_path, policyName="static", defaultCpuSet="0-3")
    aside = replaced(tmp_path, counts_beside_static=True)
    assert "mount the folder of the file, as component kubelet-plugin-static does" in aside.why
    assert (aside.written, aside.allocations) == (True, None)
