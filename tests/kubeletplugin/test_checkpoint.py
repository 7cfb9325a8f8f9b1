import errno
import hashlib
import json
import os
import resource
import stat
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeletplugin.checkpoint import Checkpoint, CheckpointError
from kubeletplugin.contract import PreparedClaim
from tests.kubeletplugin.fakes import prepared, request

FIELDS = ["version", "checksum", "content", "claim", "driver", "devices", "key", "uid", "edits", "env"]

A, B = prepared(request("a", "gpu-0")), prepared(request("b", "gpu-1"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "checkpoint.json"


@pytest.fixture
def checkpoint(path):
    return Checkpoint(path, PreparedClaim)


def reread(path):
    return Checkpoint(path, PreparedClaim).read()


def test_what_was_never_written_is_empty(checkpoint, path):
    assert checkpoint.read() == ()
    assert not path.exists()


def test_what_was_written_is_read_and_the_state_before_it_is_kept(checkpoint, path):
    checkpoint.write((A,))
    checkpoint.write((A, B))
    assert reread(path) == (A, B)
    assert reread(checkpoint.previous) == (A,)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {p.name for p in path.parent.iterdir()} == {"checkpoint.json", "checkpoint.json.previous"}


def test_file_and_folder_are_synced_in_this_order(path, monkeypatch):
    done = []
    sync, rename = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append(str(Path(f"/proc/self/fd/{fd}").readlink())), sync(fd)))
    monkeypatch.setattr(
        os, "replace", lambda old, new: (done.append(f"{Path(old).name} → {Path(new).name}"), rename(old, new))[1]
    )
    draft, renamed = str(path.with_name(".checkpoint.json.tmp")), ".checkpoint.json.tmp → checkpoint.json"
    Checkpoint(path, PreparedClaim).write((A,))
    assert done == [draft, renamed, str(path.parent)]
    done.clear()
    Checkpoint(path, PreparedClaim, sync=False).write((A, B))
    assert done == [".checkpoint.json.previous.tmp → checkpoint.json.previous", renamed]
    assert reread(path) == (A, B)


def test_another_instance_that_writes_is_noticed(checkpoint, path):
    assert checkpoint.changed
    assert checkpoint.read() == ()
    assert not checkpoint.changed
    checkpoint.write((A,))
    assert not checkpoint.changed
    other = Checkpoint(path, PreparedClaim)
    other.read()
    other.write((B,))
    assert checkpoint.changed
    assert not other.changed
    assert checkpoint.read() == (B,)
    assert not checkpoint.changed
    path.unlink()
    assert checkpoint.changed


def flawed(path):
    with pytest.raises(CheckpointError) as caught:
        reread(path)
    text = str(caught.value)
    assert text.startswith(f"checkpoint {path} ")
    return text


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        pytest.param(lambda _: b"", "is damaged (0 bytes: ", id="empty"),
        pytest.param(lambda body: body[: len(body) // 2], "is damaged (", id="truncated"),
        pytest.param(lambda body: b"\0" * len(body), "is damaged (", id="zeros"),
        pytest.param(lambda _: b'{"version": 1}', "is damaged (", id="incomplete"),
        pytest.param(lambda body: body.replace(b"gpu-0", b"gpu-9"), "has been changed or damaged (", id="edited"),
        pytest.param(
            lambda body: json.dumps(json.loads(body), indent=1).encode(),
            "has been changed or damaged (",
            id="formatted",
        ),
        pytest.param(
            lambda body: body.replace(b'"version":1', b'"version":0'), "is damaged (document version 0", id="version-0"
        ),
        pytest.param(
            lambda body: body.replace(b'"version":1', b'"version":7'),
            "was written by a newer version of this plugin (document version 7, supported: 1); "
            "install that version again",
            id="newer",
        ),
    ],
)
def test_what_cannot_be_read_names_the_file_and_the_way_out(checkpoint, path, damage, said):
    checkpoint.write((A,))
    checkpoint.write((A, B))
    path.write_bytes(damage(path.read_bytes()))
    text = flawed(path)
    assert said in text
    assert "Its previous version (1 claims, written 2" in text
    assert f"stop the plugin, mv {checkpoint.previous} {path}, and delete the pods" in text
    checkpoint.previous.write_text("x")
    assert "Its previous version cannot be read. To start with an empty checkpoint, once no pod on" in flawed(path)
    assert f"rm -f {path} {checkpoint.previous}" in flawed(path)


def test_the_way_out_leads_out(checkpoint, path):
    checkpoint.write((A,))
    checkpoint.write((A, B))
    path.write_bytes(b"")
    checkpoint.previous.rename(path)
    assert reread(path) == (A,)


def test_a_state_that_is_missing_is_not_taken_for_empty(checkpoint, path):
    checkpoint.write((A,))
    checkpoint.write((A, B))
    path.unlink()
    assert "is missing, but its previous version exists" in flawed(path)


def test_a_file_that_cannot_be_opened_is_no_empty_one(path):
    path.mkdir()
    with pytest.raises(CheckpointError, match="cannot be read: Is a directory"):
        reread(path)


def test_a_disk_that_is_full_leaves_the_old_state(checkpoint, path):
    checkpoint.write((A,))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))  # as near to ENOSPC as a test gets without a disk
    try:
        with pytest.raises(CheckpointError, match="cannot be written: File too large; its content is unchanged"):
            checkpoint.write((A, B))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert reread(path) == (A,)
    assert [p.name for p in path.parent.iterdir()] == ["checkpoint.json"]
    assert checkpoint.read() == (A,)


def test_a_folder_that_cannot_be_synced_is_an_error_until_what_is_there_is_durable(path, monkeypatch):
    checkpoint = Checkpoint(path, PreparedClaim)
    checkpoint.write((A,))

    def broken(_):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("kubeletplugin.atomic_files.fsync_directory", broken)
        for use in (lambda: checkpoint.write((A, B)), checkpoint.read):
            with pytest.raises(CheckpointError, match="Input/output error"):
                use()
            assert checkpoint.changed
    assert checkpoint.read() == (A, B)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("damage") / "checkpoint.json"
    Checkpoint(path, PreparedClaim, sync=False).write((A, B))
    return path, path.read_bytes()


@given(data=st.data())
def test_no_damage_of_a_byte_goes_unseen(data, written):
    path, whole = written
    body = bytearray(whole)
    at = data.draw(st.integers(0, len(body) - 2))  # the last one ends the line
    body[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(body)
    with pytest.raises(CheckpointError):
        reread(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.sampled_from(FIELDS), inner, max_size=6),
    max_leaves=12,
)


def refused_or_whole(path, body):
    """Read what may be anything; a refusal names the file and a way out, and leaves all as it is."""
    path.write_bytes(body)
    before = sorted((each.name, each.read_bytes()) for each in path.parent.iterdir())
    try:
        found = reread(path)
    except CheckpointError as error:
        text = str(error)
        assert text.startswith(f"checkpoint {path} ")
        assert "rm -f" in text or "install that version" in text
        assert len(text) < 2000
        found = None
    assert sorted((each.name, each.read_bytes()) for each in path.parent.iterdir()) == before
    return found


@given(body=st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_whatever_is_in_the_file_is_refused_with_a_way_out(body, written):
    assert refused_or_whole(written[0], body) is None


@given(content=JSON, version=st.sampled_from([1, 1, 1, 0, 2, -1, 10**30]))
def test_well_made_documents_of_anything_are_refused_or_what_they_say(content, version, written):
    raw = json.dumps(content).encode()
    checksum = f"sha256:{hashlib.sha256(raw).hexdigest()}"
    body = b'{"version":%d,"checksum":"%s","content":%s}' % (version, checksum.encode(), raw)
    found = refused_or_whole(written[0], body)
    if found is not None:
        assert version == 1
        assert msgspec.json.decode(msgspec.json.encode(found), type=tuple[PreparedClaim, ...]) == found


@given(data=st.data())
def test_a_field_of_another_shape_is_refused(data, written):
    """One value of a good document is another one, and the checksum is right."""
    path, whole = written
    content = json.loads(whole)["content"]
    at, key = content, data.draw(st.sampled_from([0, 1]))
    while isinstance(at[key], dict | list) and at[key] and data.draw(st.booleans()):
        at = at[key]
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
    at[key] = data.draw(JSON)
    raw = json.dumps(content).encode()
    checksum = f"sha256:{hashlib.sha256(raw).hexdigest()}"
    found = refused_or_whole(path, b'{"version":1,"checksum":"%s","content":%s}' % (checksum.encode(), raw))
    assert found is None or all(isinstance(each, PreparedClaim) for each in found)
