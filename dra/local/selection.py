"""Which objects of a collection a list or a watch shows, and what it costs to find out: little, and once for all.

Labels are read without the rest of the object; fields need all of it. Both are remembered by revision, so a hundred
watchers with selectors read an object once.
"""

from collections import OrderedDict
from typing import Final

import msgspec

from dra.local.kinds.kind import Kind
from dra.local.objects import decode
from dra.local.routes import Route
from dra.local.selectors import Labels, Selector, parse
from dra.local.store import Change, Event, Stored

_REMEMBERED: Final = 16_384
"""Objects whose labels and fields are kept at hand."""


class _Meta(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Meta


_labels: Final = msgspec.json.Decoder(_Labelled)


class Facets:
    """What selectors ask for, by revision and bytes: a state that is restored may bring a revision back."""

    def __init__(self) -> None:
        self._labels = _Remembered()
        self._fields = _Remembered()

    def labels(self, stored: Stored) -> Labels:
        """Return the labels of an object."""
        found = self._labels.get(stored)
        if found is None:
            found = _labels.decode(stored.raw).metadata.labels or {}
            self._labels.keep(stored, found)
        return found

    def fields(self, kind: Kind, stored: Stored) -> Labels:
        """Return what field selectors may ask of an object."""
        found = self._fields.get(stored)
        if found is None:
            names = {"metadata.name": stored.key.name, "metadata.namespace": stored.key.namespace}
            found = names | dict(kind.strategy.fields(decode(stored.raw)))
            self._fields.keep(stored, found)
        return found


class _Remembered:
    """The latest of what was read."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, tuple[bytes, Labels]] = OrderedDict()

    def get(self, stored: Stored) -> Labels | None:
        raw, found = self._kept.get(stored.revision, (b"", None))
        return found if raw is stored.raw else None

    def keep(self, stored: Stored, value: Labels) -> None:
        self._kept[stored.revision] = (stored.raw, value)
        if len(self._kept) > _REMEMBERED:
            self._kept.popitem(last=False)


class Selection:
    """The objects of a collection, of one namespace or all, that a selector chooses."""

    def __init__(self, route: Route, facets: Facets, *, labels: str, fields: str) -> None:
        self._kind = route.kind
        self.namespace = route.namespace
        self._name = route.name
        self._facets = facets
        self._selector: Selector = parse(route.kind, labels, fields)
        self.key = (route.kind.collection, route.namespace, route.name, labels, fields)
        self.selects = bool(self._selector)
        """Whether a selector is to be asked."""
        self.whole = not (self._name or self._selector)
        """Whether it is all of its namespace."""

    def __contains__(self, stored: Stored) -> bool:
        key = stored.key
        if (self.namespace and key.namespace != self.namespace) or (self._name and key.name != self._name):
            return False
        if not self._selector:
            return True
        labels = self._facets.labels(stored) if self._selector.labels else {}
        fields = self._facets.fields(self._kind, stored) if self._selector.fields else {}
        return self._selector.matches(labels, fields)

    def change(self, event: Event) -> tuple[Change, Stored] | None:
        """Return what an event means to who sees only the selection: objects come into it and leave it."""
        if not self._selector:
            return (event.change, event.now) if event.now in self else None
        was = event.before is not None and event.before in self
        is_ = event.change is not Change.DELETED and event.now in self
        match was, is_:
            case False, True:
                return Change.ADDED, event.now
            case True, True:
                return Change.MODIFIED, event.now
            case True, False:
                assert event.before is not None  # noqa: S101 - it was selected
                return Change.DELETED, _last(event.before, event.now)
            case _:
                return None


def _last(before: Stored, now: Stored) -> Stored:
    """Return an object as it was when it was seen last, with the revision at which it went out of sight."""
    obj = decode(before.raw)
    obj["metadata"]["resourceVersion"] = str(now.revision)
    return Stored(now.key, now.revision, msgspec.json.encode(obj))
