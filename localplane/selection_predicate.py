"""Which objects of a collection a list or a watch shows, and what it costs to find out: little, and once for all.

Labels are read without the rest of the object; fields need all of it. Both are remembered by revision, so a hundred
watchers with selectors read an object once.
"""

from collections import OrderedDict
from typing import Final

import msgspec

from localplane.kinds.kind import Kind
from localplane.objects import decode
from localplane.routes import Route
from localplane.selectors import Labels, Selector, parse_selectors
from localplane.store import StoredObject, WatchCacheEvent, WatchEventType

_ATTRIBUTE_CACHE_SIZE: Final = 16_384
"""Objects whose labels and fields are kept at hand."""


class _LabelsOnly(msgspec.Struct):
    labels: dict[str, str] | None = None


class _LabeledObject(msgspec.Struct):
    metadata: _LabelsOnly


_labels_decoder: Final = msgspec.json.Decoder(_LabeledObject)


class AttributeCache:
    """What selectors ask for, by revision and bytes: a state that is restored may bring a revision back."""

    def __init__(self) -> None:
        self._labels = _RevisionCache()
        self._fields = _RevisionCache()

    def labels(self, stored: StoredObject) -> Labels:
        """Return the labels of an object."""
        found = self._labels.get(stored)
        if found is None:
            found = _labels_decoder.decode(stored.raw).metadata.labels or {}
            self._labels.keep(stored, found)
        return found

    def fields(self, kind: Kind, stored: StoredObject) -> Labels:
        """Return what field selectors may ask of an object."""
        found = self._fields.get(stored)
        if found is None:
            names = {"metadata.name": stored.key.name, "metadata.namespace": stored.key.namespace}
            found = names | dict(kind.strategy.fields(decode(stored.raw)))
            self._fields.keep(stored, found)
        return found


class _RevisionCache:
    """The latest of what was read."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, tuple[bytes, Labels]] = OrderedDict()

    def get(self, stored: StoredObject) -> Labels | None:
        raw, found = self._kept.get(stored.revision, (b"", None))
        return found if raw is stored.raw else None

    def keep(self, stored: StoredObject, value: Labels) -> None:
        self._kept[stored.revision] = (stored.raw, value)
        if len(self._kept) > _ATTRIBUTE_CACHE_SIZE:
            self._kept.popitem(last=False)


class SelectionPredicate:
    """The objects of a collection, of one namespace or all, that a selector chooses."""

    def __init__(self, route: Route, facets: AttributeCache, *, labels: str, fields: str) -> None:
        self._kind = route.kind
        self.namespace = route.namespace
        self._name = route.name
        self._facets = facets
        self._selector: Selector = parse_selectors(route.kind, labels, fields)
        self.key = (route.kind.collection, route.namespace, route.name, labels, fields)
        self.selects = bool(self._selector)
        """Whether a selector is to be asked."""
        self.whole = not (self._name or self._selector)
        """Whether it is all of its namespace."""

    def __contains__(self, stored: StoredObject) -> bool:
        key = stored.key
        if (self.namespace and key.namespace != self.namespace) or (self._name and key.name != self._name):
            return False
        if not self._selector:
            return True
        labels = self._facets.labels(stored) if self._selector.labels else {}
        fields = self._facets.fields(self._kind, stored) if self._selector.fields else {}
        return self._selector.matches(labels, fields)

    def change(self, event: WatchCacheEvent) -> tuple[WatchEventType, StoredObject] | None:
        """Return what an event means to who sees only the selection: objects come into it and leave it."""
        if not self._selector:
            return (event.change, event.now) if event.now in self else None
        was = event.before is not None and event.before in self
        is_ = event.change is not WatchEventType.DELETED and event.now in self
        match was, is_:
            case False, True:
                return WatchEventType.ADDED, event.now
            case True, True:
                return WatchEventType.MODIFIED, event.now
            case True, False:
                assert event.before is not None  # noqa: S101 - it was selected
                return WatchEventType.DELETED, _deleted_object(event.before, event.now)
            case _:
                return None


def _deleted_object(before: StoredObject, now: StoredObject) -> StoredObject:
    """Return an object as it was when it was seen last, with the revision at which it went out of sight."""
    obj = decode(before.raw)
    obj["metadata"]["resourceVersion"] = str(now.revision)
    return StoredObject(now.key, now.revision, msgspec.json.encode(obj))
