"""The resctrl filesystem as recorded files: what is read, and how it is written."""

import errno
import os

import pytest

from dra.engine.resctrl.groups import ResctrlGroup
from kubeletplugin.colocation.resctrl.resctrl_files import ResctrlFiles
from tests.dra.engine.resctrl import machines
from tests.dra.engine.resctrl.fake_kernel import FakeKernel

BE = ResctrlGroup.BE


@pytest.fixture
def install(tmp_path):
    def make(machine=machines.INTEL, **how):
        root, proc = machines.install(machine, tmp_path, **how)
        return root, ResctrlFiles(root, proc=proc)

    return make


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param(machines.INTEL, id="intel"),
        pytest.param(machines.AMD, id="amd"),
        pytest.param(machines.AMD_SPARSE, id="amd-with-sparse-ids"),
        pytest.param(machines.CDP, id="code-and-data-apart"),
        pytest.param(machines.MEGABYTES, id="megabytes"),
        pytest.param(machines.L2_ONLY, id="l2-only"),
    ],
)
def test_a_machine_reads_as_its_files_say(install, machine):
    _, files = install(machine)
    tree = files.read_tree()
    assert tree.info == FakeKernel(machine).info()
    assert tree.root_schemata == machine.files["schemata"]
    assert (tree.vendor, ",".join(tree.mount_options)) == (machine.vendor, machine.options)
    assert (tree.mounted, tree.groups, tree.foreign_groups) == (True, {}, ())


def test_groups_of_ours_and_of_others_are_told_apart(install):
    root, files = install()
    for name, tasks in (("BE", "7\n8\n"), ("COS1", "9\n"), ("mon_groups", ""), ("mon_data", "")):
        (root / name).mkdir()
        (root / name / "tasks").write_text(tasks)
    (root / "BE/schemata").write_text("    L3:0=007\n")
    (root / "BE/mode").write_text("exclusive\n")
    tree = files.read_tree()
    assert (tree.groups[BE].schemata, tree.groups[BE].mode) == ("    L3:0=007\n", "exclusive")
    assert tree.groups[BE].tasks == {7, 8}
    assert (tree.foreign_groups, tree.foreign_tasks) == (("COS1",), {9})


def test_a_machine_without_the_mount_is_not_read(install):
    _, files = install(mounted=False)
    tree = files.read_tree()
    assert (tree.mounted, tree.supported) == (False, True)


def test_a_kernel_without_resctrl_has_no_files_at_all(tmp_path):
    (tmp_path / "proc").mkdir()
    tree = ResctrlFiles(tmp_path / "resctrl", proc=tmp_path / "proc").read_tree()
    assert (tree.mounted, tree.supported) == (False, False)


@pytest.mark.parametrize("host", [True, False])
def test_the_hosts_pid_namespace_is_known_by_its_number(install, host):
    _, files = install(host_pids=host)
    assert files.sees_host_pids() is host


def test_a_group_is_made_once(install):
    root, files = install()
    files.make_group(BE)
    files.make_group(BE)
    assert (root / "BE").is_dir()


def test_a_line_is_one_write_and_so_is_each_thread(install, monkeypatch):
    root, files = install()
    files.make_group(BE)
    for name in ("schemata", "tasks"):
        (root / "BE" / name).touch()
    writes = []
    monkeypatch.setattr(os, "write", lambda _, data: writes.append(data))
    files.write_line(BE, "L3:0=7\n")
    assert files.move_tasks(BE, [7, 8]) == 2
    assert writes == [b"L3:0=7\n", b"7\n", b"8\n"]


def test_a_thread_that_has_ended_keeps_no_other_thread_from_its_place(install, monkeypatch):
    root, files = install()
    files.make_group(BE)
    (root / "BE/tasks").touch()

    def write(_, data):
        if data == b"7\n":
            raise ProcessLookupError(errno.ESRCH, "No such process")

    monkeypatch.setattr(os, "write", write)
    assert files.move_tasks(BE, [7, 8]) == 1


def test_a_refused_thread_is_told_after_all_were_tried(install, monkeypatch):
    root, files = install()
    files.make_group(BE)
    (root / "BE/tasks").touch()
    tried = []

    def write(_, data):
        tried.append(data)
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(OSError, match="Invalid argument"):
        files.move_tasks(BE, [7, 8])
    assert tried == [b"7\n", b"8\n"]


def test_a_group_that_is_gone_is_said_by_its_errno(install):
    _, files = install()
    with pytest.raises(FileNotFoundError):
        files.write_line(BE, "L3:0=7\n")


@pytest.mark.parametrize(
    ("text", "status"),
    [
        pytest.param("ok\n", "", id="nothing-happened"),
        pytest.param("Mask out of range\n", "Mask out of range", id="refused"),
        pytest.param("x" * 5000, "x" * 200, id="long"),
    ],
)
def test_the_kernels_last_words_are_short(install, text, status):
    root, files = install()
    (root / "info/last_cmd_status").write_text(text)
    assert files.last_status() == status
