"""Deleted objects stay deleted, in bounded memory."""

from dra.model.deleted_uids import DeletedUids


def test_the_oldest_uid_goes_first():
    kept = DeletedUids(maximum=2)
    for uid in ("a", "b", "c"):
        kept.add(uid)
    assert [uid in kept for uid in ("a", "b", "c")] == [False, True, True]
