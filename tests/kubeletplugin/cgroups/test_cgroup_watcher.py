import select

import pytest

from kubeletplugin.cgroups.cgroup_watcher import CgroupWatcher


@pytest.fixture
def watch():
    it = CgroupWatcher("cpuset.cpus")
    yield it
    it.close()


def test_new_folders_and_writes_into_the_file_are_told(tmp_path, watch):
    watch.add(str(tmp_path))
    assert not watch.changed()
    (tmp_path / "pod1").mkdir()
    assert select.select([watch], [], [], 1)[0]
    assert watch.changed()
    assert not watch.changed()
    (tmp_path / "cpuset.cpus").write_text("1")
    assert watch.changed()


def test_a_folder_with_a_new_name_is_told(tmp_path, watch):
    (tmp_path / "pod1").mkdir()
    watch.add(str(tmp_path))
    (tmp_path / "pod1").rename(tmp_path / "pod2")
    assert watch.changed()


def test_other_files_do_not_concern_us(tmp_path, watch):
    watch.add(str(tmp_path))
    (tmp_path / "cgroup.procs").write_text("1")
    assert not watch.changed()


def test_a_folder_that_was_made_anew_is_watched_anew(tmp_path, watch):
    folder = tmp_path / "pod1"
    folder.mkdir()
    watch.add(str(folder))
    watch.add(str(folder))
    folder.rmdir()
    watch.changed()
    folder.mkdir()
    watch.add(str(folder))
    (folder / "c").mkdir()
    assert watch.changed()


def test_a_folder_that_is_gone_is_passed_over(tmp_path, watch):
    watch.add(str(tmp_path / "none"))
    assert not watch.changed()
