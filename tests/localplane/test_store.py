"""The revisioned map: versions, history, the past."""

import pytest

from localplane.store import CompactedError, ObjectKey, Store, WatchEventType

POD = ObjectKey("pods", "ml", "a")


def put(store, key=POD, text="x"):
    return store.put(key, f"{text}{store.next_revision}".encode())


def test_each_write_gets_the_next_revision():
    store = Store()

    assert [put(store).revision, put(store, ObjectKey("nodes", "", "n")).revision] == [2, 3]


def test_the_history_of_a_collection_tells_what_was_before():
    store = Store()
    first = put(store)
    second = put(store)
    last = store.remove(POD, b"gone")

    assert [(e.type, e.object, e.previous) for e in store.events_since("pods", 1)] == [
        (WatchEventType.ADDED, first, None),
        (WatchEventType.MODIFIED, second, first),
        (WatchEventType.DELETED, last, second),
    ]
    assert store.events_since("pods", second.revision)[0].object is last


def test_a_snapshot_of_the_past_shows_what_was_then():
    store = Store()
    first = put(store)
    put(store)
    store.remove(POD, b"gone")

    assert store.snapshot("pods") == []
    assert store.snapshot("pods", at=first.revision) == [first]
    assert store.snapshot("pods", at=1) == []


def test_a_scan_of_the_past_continues_after_a_key():
    store = Store()
    keys = [ObjectKey("pods", namespace, name) for namespace in ("dl", "ml", "ml-2") for name in "dbca"]
    for key in keys:
        put(store, key)
    then = store.revision
    put(store, ObjectKey("pods", "ml", "e"))
    store.remove(ObjectKey("pods", "ml", "c"), b"gone")
    changed = put(store, ObjectKey("pods", "ml", "d"))

    assert [stored.key.name for stored in store.scan("pods", namespace="ml", after=("ml", "a"))] == ["b", "d", "e"]
    past = store.scan("pods", namespace="ml", at=then, after=("ml", "b"))
    assert [stored.key.name for stored in past] == ["c", "d"]
    assert changed not in past
    assert len(past) == 2
    assert [stored.key for stored in store.scan("pods", at=then)] == sorted(keys)


def test_what_the_history_has_forgotten_is_expired():
    store = Store(event_capacity=2)
    for _ in range(4):
        put(store)

    with pytest.raises(CompactedError, match=r"too old resource version: 2 \(3\)"):
        store.events_since("pods", 2)
    assert len(store.events_since("pods", 3)) == 2
