"""The account of large objects: what is kept of them by kind and namespace, and which ones are not kept.

One account for a process, with one ledger for each informer. It is what Events and metrics name large objects from.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, TypeVar

from dra.kube.codec import ApiObject, ListPage, ObjectIdentity
from dra.kube.object_sizes import (
    NAMESPACE_MEMORY_MAX,
    OBJECT_MEMORY_MAX,
    UNCOUNTED_MEMORY_MAX,
    ObjectTooLargeError,
    memory_of,
    namespace_full_text,
    namespace_of,
)
from dra.kube.resources import Resource
from dra.model.meta import Key, Uid, UnstructuredObject, content_fault

T = TypeVar("T", bound=ApiObject)

Report: TypeAlias = Callable[[Resource, ObjectIdentity, str], object]
"""Called with the kind and the identity of an object that is not kept, and the reason."""

_log: Final = logging.getLogger(__name__)


class LargeObjectLedger:
    """The large objects of one informer."""

    def __init__(self, resource: Resource, report: Report) -> None:
        self.resource = resource
        self._report = report
        self._sizes: dict[Key, tuple[str, int]] = {}
        """Large object → the namespace that it counts for, and its memory."""
        self._by_namespace: Counter[str] = Counter()
        self._refused: dict[Key, Uid] = {}

    @property
    def kept_bytes(self) -> int:
        """Return the memory of all large objects that are kept."""
        return self._by_namespace.total()

    @property
    def refused(self) -> int:
        """Return the number of objects that are not kept, or only in part."""
        return len(self._refused)

    def admit(self, key: Key, *, namespace: str, size: int) -> bool:
        """Count a large object; return whether its namespace has room for it."""
        before = self._sizes.get(key)
        self._drop_size(key)
        is_admitted = size <= UNCOUNTED_MEMORY_MAX or self._by_namespace[namespace] + size <= NAMESPACE_MEMORY_MAX
        if is_admitted:
            self._refused.pop(key, None)
            if size > UNCOUNTED_MEMORY_MAX:
                self._add_size(key, namespace, size)
        elif before is not None:
            self._add_size(key, *before)  # the informer keeps the last known state
        return is_admitted

    def admit_object(self, obj: T, size: int, *, reduce: Callable[[T, str], T]) -> T:
        """Return a large object that takes ``size`` bytes of memory, or the rest of it if its namespace has no room.

        ``reduce`` leaves out what can be left out. Raises `ObjectTooLargeError`.
        """
        meta = obj.metadata
        key, namespace = (meta.namespace, meta.name), namespace_of(self.resource, obj)
        if fault := _fault(obj):
            self._drop_size(key)
            self.refuse(identity_of_object(obj), fault)
            return obj
        if self.admit(key, namespace=namespace, size=size):
            return obj
        full = namespace_full_text(namespace)
        rest = reduce(obj, full)
        if fault := _fault(rest):
            self._drop_size(key)
            self.refuse(identity_of_object(obj), fault)
        elif not self.admit(key, namespace=namespace, size=memory_of(rest, limit=OBJECT_MEMORY_MAX)):
            raise ObjectTooLargeError(full)
        return rest

    def admit_page(self, page: ListPage[T], *, reduce: Callable[[T, str], T]) -> tuple[list[T], list[ObjectIdentity]]:
        """Return the items of a page that are kept, and the identities of those that are too large."""
        refused = [identity for identity in page.unreadable if identity.key in page.too_large]
        for identity in refused:
            self.refuse(identity, page.too_large[identity.key])
        if not page.sizes:
            return page.items, refused
        items = []
        for index, obj in enumerate(page.items):
            size = page.sizes.get(index)
            try:
                items.append(obj if size is None else self.admit_object(obj, size, reduce=reduce))
            except ObjectTooLargeError as error:
                refused.append(identity_of_object(obj))
                self.refuse(refused[-1], str(error))
        return items, refused

    def refuse(self, identity: ObjectIdentity, reason: str) -> None:
        """Record an object that is not kept, and report it once; its last known state still counts."""
        if self._refused.get(identity.key) == identity.uid:
            return
        self._refused[identity.key] = identity.uid
        self._report(self.resource, identity, reason)

    def forget(self, key: Key) -> None:
        """Forget an object that is deleted, or is not large any more."""
        if self._sizes or self._refused:
            self._drop_size(key)
            self._refused.pop(key, None)

    def retain(self, listed: Mapping[Key, object], refused: set[Key]) -> None:
        """Forget all objects that a complete list has not shown."""
        for key in [key for key in self._sizes if key not in listed]:
            self._drop_size(key)
        for key in [key for key in self._refused if key not in refused and key not in listed]:
            del self._refused[key]

    def _add_size(self, key: Key, namespace: str, size: int) -> None:
        self._sizes[key] = (namespace, size)
        self._by_namespace[namespace] += size

    def _drop_size(self, key: Key) -> None:
        namespace, size = self._sizes.pop(key, ("", 0))
        if size:
            self._by_namespace[namespace] -= size
            if not self._by_namespace[namespace]:
                del self._by_namespace[namespace]


def identity_of_object(obj: ApiObject) -> ObjectIdentity:
    """Return the identity of a decoded object."""
    meta = obj.metadata
    return ObjectIdentity(
        name=meta.name, namespace=meta.namespace, uid=meta.uid, resource_version=meta.resource_version
    )


def _fault(obj: ApiObject) -> str:
    return content_fault(obj.content) if isinstance(obj, UnstructuredObject) else ""


def report_nothing(resource: Resource, identity: ObjectIdentity, reason: str) -> None:
    """Do nothing: for lists whose reader tells what is missing."""
    del resource, identity, reason


class LargeObjects:
    """The ledgers of a process. `report` may be set later: what records Events needs a client itself."""

    def __init__(self) -> None:
        self.report: Report = report_nothing
        self._ledgers: list[LargeObjectLedger] = []

    def ledger(self, resource: Resource) -> LargeObjectLedger:
        """Add and return the ledger of an informer."""
        made = LargeObjectLedger(resource, self._report)
        self._ledgers.append(made)
        return made

    def close(self, ledger: LargeObjectLedger) -> None:
        """Remove the ledger of an informer that has ended; metrics do not count it any more."""
        if ledger in self._ledgers:
            self._ledgers.remove(ledger)

    def _report(self, resource: Resource, identity: ObjectIdentity, reason: str) -> None:
        _log.warning("%s %s: %s; its last known state stays in the cache", resource.kind, identity, reason)
        self.report(resource, identity, reason)

    def kept_bytes(self) -> Mapping[str, int]:
        """Return the memory of large objects by resource."""
        kept: Counter[str] = Counter()
        for ledger in self._ledgers:
            kept[ledger.resource.label] += ledger.kept_bytes
        return kept

    def refused(self) -> Mapping[str, int]:
        """Return the number of objects that are not kept, or only in part, by resource."""
        refused: Counter[str] = Counter()
        for ledger in self._ledgers:
            refused[ledger.resource.label] += ledger.refused
        return refused
