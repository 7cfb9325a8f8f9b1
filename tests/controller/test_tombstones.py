"""Deleted objects stay deleted, in bounded memory."""

from controller import tombstones
from controller.tombstones import Tombstones


def test_the_oldest_uid_goes_first(monkeypatch):
    monkeypatch.setattr(tombstones, "TOMBSTONES_MAX", 2)
    kept = Tombstones()
    for uid in ("a", "b", "c"):
        kept.add(uid)
    assert [uid in kept for uid in ("a", "b", "c")] == [False, True, True]
