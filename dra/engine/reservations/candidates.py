"""The index from pods to the reservations whose owners may match a pod.

Each owner is filed under one property that a matching pod must have: a uid, a name, a label. A pod is looked up under
all of its properties. A reservation that is found may match and must still be checked; a reservation that is not found
cannot match.
"""

from collections.abc import Iterator
from typing import TypeAlias

from dra.api.reservations.model import ReservationOwner
from dra.engine.reservations.pod_info import PodInfo
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.model.meta import Uid

IndexKey: TypeAlias = tuple[str, ...]

_ANY_POD: IndexKey = ("any",)


class OwnerIndex:
    """The index of reservations by the properties that their owners require of pods."""

    __slots__ = ("_filed", "_keys")

    def __init__(self) -> None:
        self._filed: dict[IndexKey, dict[Uid, None]] = {}
        self._keys: dict[Uid, tuple[IndexKey, ...]] = {}

    def put(self, holding: ReservationInfo) -> None:
        """Add a reservation, or replace its entry."""
        keys = tuple(key for owner in holding.owners for key in _owner_keys(owner))
        if self._keys.get(holding.uid) == keys:
            return
        self.drop(holding.uid)
        self._keys[holding.uid] = keys
        for key in keys:
            self._filed.setdefault(key, {})[holding.uid] = None

    def drop(self, uid: Uid) -> None:
        """Remove a reservation from the index."""
        for key in self._keys.pop(uid, ()):
            filed = self._filed.get(key)
            if filed is not None:
                filed.pop(uid, None)
                if not filed:
                    del self._filed[key]

    def of(self, pod: PodInfo) -> dict[Uid, None]:
        """Return the reservations whose owners may match a pod, in a fixed order."""
        found: dict[Uid, None] = {}
        for key in _pod_keys(pod):
            if (filed := self._filed.get(key)) is not None:
                found.update(filed)
        return found


def _owner_keys(owner: ReservationOwner) -> Iterator[IndexKey]:
    """Yield keys such that each matching pod has at least one of them."""
    if (wanted := owner.object) is not None and (wanted.uid or wanted.name):
        yield ("uid", wanted.uid) if wanted.uid else ("name", wanted.name)
    elif (controller := owner.controller) is not None and (controller.uid or controller.name):
        yield ("owner uid", controller.uid) if controller.uid else ("owner", controller.name)
    elif owner.label_selector is not None and owner.label_selector.match_labels:
        # The last by name: labels that distinguish workloads ("job-name") sort behind labels that workloads share
        # ("app").
        yield ("label", *max(owner.label_selector.match_labels.items()))
    elif owner.label_selector is not None:
        for each in owner.label_selector.match_expressions:
            if each.operator == "In":
                yield from (("label", each.key, value) for value in dict.fromkeys(each.values))
                return
        yield _ANY_POD
    else:
        yield _ANY_POD


def _pod_keys(pod: PodInfo) -> Iterator[IndexKey]:
    yield ("uid", pod.uid)
    yield ("name", pod.key[1])
    for reference in pod.owners:
        yield ("owner uid", reference.uid)
        yield ("owner", reference.name)
    for name, value in pod.labels.items():
        yield ("label", name, value)
    yield _ANY_POD
