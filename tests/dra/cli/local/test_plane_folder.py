import os
import subprocess
import sys

import msgspec
import pytest

from dra.cli.local.plane_folder import (
    LOCK_FILE,
    LOG_FILE,
    RECORD_FILE,
    SNAPSHOT_FILE,
    PlaneFolder,
    PlaneFolderInUseError,
    PlaneRecord,
)

RECORDED = PlaneRecord(pid=os.getpid(), url="https://127.0.0.1:1", api="kep", nodes=3, devices=8, started="now")

HOLDER = """
import sys
from pathlib import Path
from dra.cli.local.plane_folder import PlaneFolder
with PlaneFolder(Path(sys.argv[1])).lock():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path):
    return PlaneFolder(tmp_path / "state")


@pytest.fixture
def holder(folder):
    """A process that holds the folder."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_a_folder_is_made_and_goes_with_its_plane(folder):
    assert not folder.is_in_use
    with folder.lock():
        assert folder.path.is_dir()
        folder.write(RECORDED)
        assert folder.record == RECORDED
    assert not folder.path.exists()


def test_only_its_owner_may_look_into_it(folder):
    with folder.lock():
        folder.write(RECORDED)
        assert folder.path.stat().st_mode & 0o777 == 0o700
        assert (folder / RECORD_FILE).stat().st_mode & 0o777 == 0o600


def test_a_folder_that_is_held_is_refused_to_others(folder, holder):  # noqa: ARG001 - it holds
    assert folder.is_in_use
    with pytest.raises(PlaneFolderInUseError, match="it is starting"), folder.lock():
        pass
    folder.write(RECORDED)
    with pytest.raises(PlaneFolderInUseError, match=rf"pid {RECORDED.pid}, https://127.0.0.1:1"):
        folder.remove_leftovers()


def test_who_was_killed_holds_nothing(folder, holder):
    (folder / RECORD_FILE).write_bytes(msgspec.json.encode(RECORDED))
    holder.kill()
    holder.wait()
    assert not folder.is_in_use
    assert (folder / LOCK_FILE).exists()
    with folder.lock():
        assert folder.record is None


def test_what_others_put_there_and_a_saved_state_stay(folder):
    with folder.lock():
        (folder / "notes.txt").write_text("mine")
        (folder / SNAPSHOT_FILE).write_text("saved")
        (folder / LOG_FILE).write_text("log")
    assert sorted(each.name for each in folder.path.iterdir()) == ["notes.txt", SNAPSHOT_FILE]


def test_the_log_of_a_plane_that_fails_stays(folder):
    def fail():
        with folder.lock():
            (folder / LOG_FILE).write_text("why")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert [each.name for each in folder.path.iterdir()] == [LOG_FILE]


def test_a_record_that_cannot_be_read_is_none(folder):
    with folder.lock():
        (folder / RECORD_FILE).write_text("{")
        assert folder.record is None
