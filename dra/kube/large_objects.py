"""The account of large objects: what is kept of them by kind and namespace, and which ones are not kept.

One account for a process, with one ledger for each informer. It is what Events and metrics name large objects from.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from dra.kube.codec import ObjectIdentity
from dra.kube.object_sizes import NAMESPACE_MEMORY_MAX
from dra.kube.resources import Resource
from dra.model.meta import Key, Uid

Report: TypeAlias = Callable[[Resource, ObjectIdentity, str], object]
"""Called with the kind and the identity of an object that is not kept, and the reason."""

_log: Final = logging.getLogger(__name__)


class LargeObjectLedger:
    """The large objects of one informer."""

    def __init__(self, resource: Resource, report: Callable[[], Report]) -> None:
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
        self._drop_size(key)
        if self._by_namespace[namespace] + size > NAMESPACE_MEMORY_MAX:
            return False
        self._sizes[key] = (namespace, size)
        self._by_namespace[namespace] += size
        self._refused.pop(key, None)
        return True

    def refuse(self, identity: ObjectIdentity, reason: str) -> None:
        """Record an object that is not kept, and report it once."""
        self._drop_size(identity.key)
        if self._refused.get(identity.key) == identity.uid:
            return
        self._refused[identity.key] = identity.uid
        _log.warning("%s %s: %s; its last known state stays in the cache", self.resource.kind, identity, reason)
        self._report()(self.resource, identity, reason)

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

    def _drop_size(self, key: Key) -> None:
        namespace, size = self._sizes.pop(key, ("", 0))
        if size:
            self._by_namespace[namespace] -= size
            if not self._by_namespace[namespace]:
                del self._by_namespace[namespace]


def _ignore(resource: Resource, identity: ObjectIdentity, reason: str) -> None:
    del resource, identity, reason


class LargeObjects:
    """The ledgers of a process. `report` may be set later: what records Events needs a client itself."""

    def __init__(self) -> None:
        self.report: Report = _ignore
        self._ledgers: list[LargeObjectLedger] = []

    def ledger(self, resource: Resource) -> LargeObjectLedger:
        """Add and return the ledger of an informer."""
        made = LargeObjectLedger(resource, lambda: self.report)
        self._ledgers.append(made)
        return made

    def close(self, ledger: LargeObjectLedger) -> None:
        """Remove the ledger of an informer that has ended."""
        self._ledgers.remove(ledger)

    def kept_bytes(self) -> Mapping[str, int]:
        """Return the memory of large objects by resource."""
        found: Counter[str] = Counter()
        for each in self._ledgers:
            found[each.resource.label] += each.kept_bytes
        return found

    def refused(self) -> Mapping[str, int]:
        """Return the number of objects that are not kept, or only in part, by resource."""
        found: Counter[str] = Counter()
        for each in self._ledgers:
            found[each.resource.label] += each.refused
        return found
