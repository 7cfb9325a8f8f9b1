"""Uids of deleted objects, so that a live read or a response to a write cannot bring a deleted object back."""

from typing import Final

from dra.model.meta import Uid

DELETED_UIDS_MAX: Final = 16_384
"""Maximum number of uids kept, unless a cache asks for fewer. Requests last seconds, so the latest uids are enough."""


class DeletedUids:
    """A set of uids that drops the oldest uid beyond its maximum."""

    def __init__(self, maximum: int = DELETED_UIDS_MAX) -> None:
        self._maximum = maximum
        self._uids: dict[Uid, None] = {}

    def __contains__(self, uid: Uid) -> bool:
        return uid in self._uids

    def add(self, uid: Uid) -> None:
        """Add the uid of a deleted object."""
        self._uids[uid] = None
        if len(self._uids) > self._maximum:
            del self._uids[next(iter(self._uids))]
