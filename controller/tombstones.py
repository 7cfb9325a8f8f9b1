"""Uids of deleted objects, so that a live read or a response to a write cannot bring a deleted object back."""

from collections import OrderedDict
from typing import Final

from dra.model.meta import Uid

TOMBSTONES_MAX: Final = 16_384
"""Maximum number of uids kept; the oldest one goes first. No request is under way for as many deletions."""


class Tombstones:
    """A bounded set of uids."""

    def __init__(self) -> None:
        self._uids: OrderedDict[Uid, None] = OrderedDict()

    def __contains__(self, uid: Uid) -> bool:
        return uid in self._uids

    def add(self, uid: Uid) -> None:
        """Add the uid of a deleted object."""
        self._uids[uid] = None
        while len(self._uids) > TOMBSTONES_MAX:
            self._uids.popitem(last=False)
