"""The differences between the event handlers of components: one argument each."""

import pytest

from dra.kube.event_handlers import EventHandlerFuncs, ignore
from dra.kube.store import Deleted, ServerRestored, ServerRestoredError, Synced, Upserted

RESTORED = ServerRestored("pods", "7", "9")


class Calls(list):
    """The calls of all functions of a handler, in order."""

    def handler(self, *names, **others):
        """Return a handler that records the calls of the named functions."""
        recorded = {name: lambda *change, name=name: self.append((name, *change)) for name in names}
        return EventHandlerFuncs(**{"on_upsert": ignore, **recorded, **others})


@pytest.fixture
def calls():
    return Calls()


def test_each_change_calls_its_function_in_order(calls):
    handle = calls.handler("on_upsert", "on_delete", "on_leave", "on_sync", "on_restore", "on_batch_end")
    synced = Synced("5", first=True)
    handle([RESTORED, Upserted("a"), Deleted("a", certain=True), Deleted("b", certain=False), synced])
    assert calls == [
        ("on_restore", RESTORED),
        ("on_upsert", "a"),
        ("on_delete", "a"),
        ("on_leave", "b"),
        ("on_sync", synced),
        ("on_batch_end",),
    ]


def test_an_object_that_left_the_selection_is_deleted_by_default(calls):
    calls.handler("on_delete")([Deleted("a", certain=True), Deleted("b", certain=False)])
    assert calls == [("on_delete", "a"), ("on_delete", "b")]


def test_the_end_of_a_list_is_ignored_by_default(calls):
    calls.handler("on_upsert", "on_delete")([Synced("5", first=False)])
    assert calls == []


def test_a_restored_server_ends_the_process_by_default(calls):
    with pytest.raises(ServerRestoredError, match="pods"):
        calls.handler("on_upsert", "on_batch_end")([RESTORED, Upserted("a")])
    assert calls == []


def test_a_batch_ends_once_also_if_nothing_in_it_is_handled(calls):
    calls.handler("on_batch_end", on_restore=ignore)([RESTORED, Synced("5", first=False), Deleted("a", certain=True)])
    assert calls == [("on_batch_end",)]
