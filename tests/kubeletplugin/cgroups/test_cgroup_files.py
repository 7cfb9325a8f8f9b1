import errno
import os
from pathlib import Path

import pytest

from kubeletplugin.cgroups.cgroup_files import OpenFile, read_file, write_file

V1_CPU = Path("/sys/fs/cgroup/cpu")


@pytest.fixture
def real_group():
    """A cgroup of the kernel's own v1 hierarchy of CPUs."""
    folder = V1_CPU / f"dra-test-{os.getpid()}"
    if not (V1_CPU / "cgroup.procs").exists():
        pytest.skip("needs cgroup v1 with the controller cpu")
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"needs the right to create cgroups: {error}")
    yield folder
    if folder.exists():
        folder.rmdir()


def test_a_quota_that_the_kernel_refuses_raises_with_its_errno_and_the_file(real_group):
    with pytest.raises(OSError, match="cfs_quota_us") as refused:
        write_file(real_group / "cpu.cfs_quota_us", "999")
    assert refused.value.errno == errno.EINVAL
    assert read_file(real_group / "cpu.cfs_quota_us") == b"-1\n"


def test_a_quota_that_the_kernel_accepts_is_read_back(real_group):
    assert write_file(real_group / "cpu.cfs_quota_us", "1000\n")
    assert read_file(real_group / "cpu.cfs_quota_us") == b"1000\n"


def test_an_open_file_is_read_again_and_tells_when_its_cgroup_is_removed(real_group):
    opened = OpenFile.open(real_group / "cpu.shares")
    assert opened.read() == b"1024\n"
    write_file(real_group / "cpu.shares", "2")
    assert opened.read() == b"2\n"
    real_group.rmdir()
    assert opened.read() is None  # ENODEV
    assert OpenFile.open(real_group / "cpu.shares") is None  # ENOENT
    assert not write_file(real_group / "cpu.shares", "2")
    assert read_file(real_group / "cpu.shares") is None
    opened.close()
    opened.close()


def test_a_shorter_value_replaces_a_longer_one_in_a_recorded_tree(tmp_path):
    (tmp_path / "cpu.max").write_text("200000 100000\n")
    assert write_file(tmp_path / "cpu.max", "max 100000")
    assert read_file(tmp_path / "cpu.max") == b"max 100000"


def test_a_file_that_may_not_be_read_is_no_missing_file(tmp_path):
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path)
