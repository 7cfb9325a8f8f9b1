import asyncio

import pytest

from localplane import snapshots
from localplane.private_files import write_private_file
from localplane.snapshots import MalformedSnapshotError
from localplane.store import CompactedError, ObjectKey, Store

VIRTUAL_TIME = True


def raw(name, revision):
    return f'{{"metadata":{{"name":"{name}","uid":"uid of {name}","resourceVersion":"{revision}"}}}}'.encode()


def filled(*names, collection="pods"):
    store = Store()
    for name in names:
        store.put(ObjectKey(collection, "ml", name), raw(name, store.next_revision))
    return store


def contents(store, collection="pods"):
    return [(each.key, each.revision, each.raw) for each in store.snapshot(collection)]


def test_what_was_saved_comes_back_with_its_uids_and_versions():
    saved, store = filled("a", "ü"), Store()
    header = snapshots.load(snapshots.dump(saved, api="kep"), store)
    assert contents(store) == contents(saved)
    assert (header.api, header.objects, header.revision) == ("kep", 2, saved.revision)


def test_the_counter_goes_on_above_everything_that_anybody_has_seen():
    saved = filled("a", "b")
    raw_ = snapshots.dump(saved)
    behind, ahead = Store(), filled(*"abcdef")
    snapshots.load(raw_, behind)
    assert behind.next_revision > saved.revision
    before = ahead.revision
    snapshots.load(raw_, ahead)
    assert ahead.next_revision > before


def test_objects_made_since_are_gone():
    store = filled("a")
    raw_ = snapshots.dump(store)
    store.put(ObjectKey("nodes", "", "n"), raw("n", store.next_revision))
    store.put(ObjectKey("pods", "ml", "b"), raw("b", store.next_revision))
    snapshots.load(raw_, store)
    assert [key.name for key, _, _ in contents(store)] == ["a"]
    assert contents(store, "nodes") == []


async def test_who_watches_is_told_to_list_anew():
    store = filled("a")
    raw_ = snapshots.dump(store)
    position = store.revision
    waiting = asyncio.create_task(store.wait_for_change("pods", position))
    await asyncio.sleep(1)
    snapshots.load(raw_, store)
    await waiting
    for collection in ("pods", "never.heard.of"):
        with pytest.raises(CompactedError):
            store.events_since(collection, position)
    assert store.events_since("pods", store.revision) == []


@pytest.mark.parametrize(
    ("harm", "expected"),
    [
        pytest.param(lambda _: b"", "the first line", id="empty"),
        pytest.param(lambda _: b"\x00\xff\n", "the first line", id="no-json"),
        pytest.param(lambda good: good.replace(b'"version":1', b'"version":2', 1), "version 2", id="another-version"),
        pytest.param(lambda good: b"\n".join(good.splitlines()[:-1]), "1 of 2 objects", id="cut-off"),
        pytest.param(lambda good: good[:-9], "malformed", id="cut-off-in-a-line"),
    ],
)
def test_a_broken_file_is_refused_and_changes_nothing(harm, expected):
    store = filled("z")
    before = contents(store), store.revision
    with pytest.raises(MalformedSnapshotError, match=expected):
        snapshots.load(harm(snapshots.dump(filled("a", "b"))), store)
    assert (contents(store), store.revision) == before


def test_a_file_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "snapshot"
    write_private_file(path, b"one")
    write_private_file(path, b"two")
    assert path.read_bytes() == b"two"
    assert [each.name for each in tmp_path.iterdir()] == ["snapshot"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "snapshot"
    write_private_file(path, b"one")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_private_file(path, b"two")
    assert path.read_bytes() == b"one"
    assert [each.name for each in tmp_path.iterdir()] == ["snapshot"]
