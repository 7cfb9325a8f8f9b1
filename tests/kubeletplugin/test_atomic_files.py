import os
import stat
from pathlib import Path

import pytest

from kubeletplugin.atomic_files import REPLACEMENT, ReplacementStep, temporary_path, write_atomically


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.json"


def draft_of(path):
    return Path(temporary_path(os.fspath(path)))


@pytest.mark.parametrize("sync", [True, False])
def test_a_file_is_replaced_as_a_whole_and_the_last_one_kept(path, sync):
    previous = path.with_name("x.previous")
    for body in (b"one", b"two", b"three"):
        state = write_atomically(path, body, mode=0o640, sync=sync, previous=previous)
    assert (path.read_bytes(), previous.read_bytes()) == (b"three", b"two")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert (state.st_ino, state.st_mtime_ns) == (path.stat().st_ino, path.stat().st_mtime_ns)
    assert {each.name for each in path.parent.iterdir()} == {"x.json", "x.previous"}


@pytest.mark.parametrize("step", REPLACEMENT, ids=lambda step: step.name)
def test_a_crash_behind_a_step_leaves_what_the_step_says(path, step):
    previous = path.with_name("x.previous")
    write_atomically(path, b"old", mode=0o600, sync=True, previous=previous)
    done = REPLACEMENT[: REPLACEMENT.index(step) + 1]
    write_atomically(path, b"new", mode=0o600, sync=True, previous=previous, steps=done)
    content = path.read_bytes().decode()
    assert step.leaves.startswith(f"the {content} content")
    assert ("draft" in step.leaves) == draft_of(path).exists()
    assert ("both names" in step.leaves) == (previous.exists() and previous.samefile(path))


def test_a_draft_that_a_crash_left_is_taken_over(path):
    draft_of(path).write_bytes(b"a half that is longer than the whole")
    write_atomically(path, b"one", mode=0o600, sync=False)
    assert path.read_bytes() == b"one"
    assert [each.name for each in path.parent.iterdir()] == ["x.json"]


def test_a_link_in_the_place_of_a_draft_leads_nowhere(path, tmp_path):
    target = tmp_path / "precious"
    target.write_text("precious")
    draft_of(path).symlink_to(target)
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        write_atomically(path, b"one", mode=0o600, sync=False)
    assert target.read_text() == "precious"
    write_atomically(path, b"one", mode=0o600, sync=False)  # it was taken away
    assert path.read_bytes() == b"one"


def test_what_cannot_be_written_leaves_the_old_file(path):
    write_atomically(path, b"one", mode=0o600, sync=False)

    def fail(_):
        raise OSError(28, "No space left on device")

    steps = (REPLACEMENT[0], ReplacementStep("full", fail, leaves="the old content"))
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"two", mode=0o600, sync=False, steps=steps)
    assert path.read_bytes() == b"one"
    assert [each.name for each in path.parent.iterdir()] == ["x.json"]
