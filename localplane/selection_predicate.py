"""Selects the objects of a collection that a list or a watch returns, with a cache of labels and fields.

Labels are decoded without the rest of the object; fields need the whole object. Both are cached by revision, so a
hundred watches with selectors decode an object once.
"""

from collections import OrderedDict
from typing import Final

import msgspec

from dra.model.label_selectors import Labels
from localplane.kinds.kind import Kind, Strategy
from localplane.objects import decode
from localplane.routes import Route
from localplane.selectors import Selector, parse_selectors
from localplane.store import StoredObject, WatchCacheEvent, WatchEventType

_ATTRIBUTE_CACHE_SIZE: Final = 16_384
"""Maximum number of objects whose labels and fields are cached."""


class _LabelsOnly(msgspec.Struct):
    labels: dict[str, str] | None = None


class _LabeledObject(msgspec.Struct):
    metadata: _LabelsOnly


_labels_decoder: Final = msgspec.json.Decoder(_LabeledObject)


class AttributeCache:
    """A cache of labels and fields, by revision and bytes: restoring a snapshot may reuse a revision.

    Fields are cached by strategy, too: both groups of Events name the fields of one stored object differently, and an
    update of a CustomResourceDefinition may name others.
    """

    def __init__(self) -> None:
        self._labels = _RevisionCache()
        self._fields = _RevisionCache()

    def labels(self, stored: StoredObject) -> Labels:
        """Return the labels of an object."""
        labels = self._labels.get(stored)
        if labels is None:
            labels = _labels_decoder.decode(stored.raw).metadata.labels or {}
            self._labels.put(stored, labels)
        return labels

    def fields(self, kind: Kind, stored: StoredObject) -> Labels:
        """Return the fields of an object that field selectors support."""
        fields = self._fields.get(stored, kind.strategy)
        if fields is None:
            names = {"metadata.name": stored.key.name, "metadata.namespace": stored.key.namespace}
            fields = names | dict(kind.strategy.selectable_fields(decode(stored.raw)))
            self._fields.put(stored, fields, kind.strategy)
        return fields


class _RevisionCache:
    """A bounded cache of labels or fields by revision, and by the strategy that named them."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[int, Strategy | None], tuple[bytes, Labels]] = OrderedDict()

    def get(self, stored: StoredObject, strategy: Strategy | None = None) -> Labels | None:
        raw, labels = self._entries.get((stored.revision, strategy), (b"", None))
        return labels if raw is stored.raw else None

    def put(self, stored: StoredObject, value: Labels, strategy: Strategy | None = None) -> None:
        self._entries[stored.revision, strategy] = (stored.raw, value)
        if len(self._entries) > _ATTRIBUTE_CACHE_SIZE:
            self._entries.popitem(last=False)


class SelectionPredicate:
    """A predicate that selects objects of a collection, of one namespace or all, by label and field selectors."""

    def __init__(self, route: Route, attributes: AttributeCache, *, labels: str, fields: str) -> None:
        self._kind = route.kind
        self.namespace = route.namespace
        self._name = route.name
        self._attributes = attributes
        self._selector: Selector = parse_selectors(route.kind, labels, fields)
        self.key = (route.kind.collection, route.namespace, route.name, labels, fields)
        self.has_selector = bool(self._selector)
        """Whether there is a label or field selector."""
        self.is_whole_namespace = not (self._name or self._selector)
        """Whether all objects of the namespace are selected."""

    def __contains__(self, stored: StoredObject) -> bool:
        key = stored.key
        if (self.namespace and key.namespace != self.namespace) or (self._name and key.name != self._name):
            return False
        if not self._selector:
            return True
        labels = self._attributes.labels(stored) if self._selector.labels else {}
        fields = self._attributes.fields(self._kind, stored) if self._selector.fields else {}
        return self._selector.matches(labels, fields)

    def to_watch_event(self, event: WatchCacheEvent) -> tuple[WatchEventType, StoredObject] | None:
        """Return the event as a watch of the selection sees it, None if the watch does not see the event.

        An object that begins to match is ADDED; an object that no longer matches is DELETED.
        """
        if not self._selector:
            return (event.type, event.object) if event.object in self else None
        was = event.previous is not None and event.previous in self
        is_ = event.type is not WatchEventType.DELETED and event.object in self
        match was, is_:
            case False, True:
                return WatchEventType.ADDED, event.object
            case True, True:
                return WatchEventType.MODIFIED, event.object
            case True, False:
                assert event.previous is not None  # noqa: S101 - it was selected
                return WatchEventType.DELETED, _deleted_object(event.previous, event.object)
            case _:
                return None


def _deleted_object(before: StoredObject, now: StoredObject) -> StoredObject:
    """Return the last matching version of an object, with the revision at which the object stopped matching."""
    obj = decode(before.raw)
    obj["metadata"]["resourceVersion"] = str(now.revision)
    return StoredObject(now.key, now.revision, msgspec.json.encode(obj))
