"""The kinds of workloads that are watched: every kind that claims refer to, up to a bound in each namespace.

A user who may create claims may name any kind in ``reserve.dra/reserved-for``, and each kind costs a discovery request
to the API server and perhaps a watch. The bound is per namespace, so a namespace that names more kinds loses the
watches of its own surplus kinds and of no other namespace's. Kinds that the administrator has named in ``releaseRules``
and kinds built into Kubernetes are exempt: their number is fixed.
"""

from collections import OrderedDict
from typing import Final

from dra.model.references import GroupResource
from dra.model.workload_types import WORKLOAD_TYPES

KINDS_PER_NAMESPACE: Final = 16
"""Maximum number of workload kinds watched for the claims of one namespace, without built-in kinds and kinds with a
release rule. The kinds referred to first are watched, until no claim of the namespace refers to them any longer."""


class _Namespace:
    """The kinds that claims of one namespace refer to."""

    __slots__ = ("counted", "counts", "surplus")

    def __init__(self) -> None:
        self.counts: dict[GroupResource, int] = {}
        """Kind → number of referenced objects of that kind."""

        self.counted: set[GroupResource] = set()
        """Kinds that count against the bound."""

        self.surplus: OrderedDict[GroupResource, None] = OrderedDict()
        """Kinds beyond the bound, in the order in which claims first referred to them."""


class WatchedKinds:
    """The watched kinds, counted by namespace and kind; each change costs the same, however many kinds there are."""

    def __init__(self) -> None:
        self._exempt = frozenset(
            workload_type.resource for workload_type in WORKLOAD_TYPES if workload_type.always_watched
        )
        self._namespaces: dict[str, _Namespace] = {}
        self._watched: dict[GroupResource, int] = {}
        """Kind → number of namespaces in which the kind is within the bound."""

        self._all: frozenset[GroupResource] | None = frozenset()
        """Keys of `_followed`; None if they have changed."""

    def exempt(self, kinds: frozenset[GroupResource]) -> None:
        """Exempt these kinds from every bound from now on; call this before the first reference is added."""
        self._exempt |= kinds

    def __contains__(self, kind: GroupResource) -> bool:
        """Return whether the kind is within the bound of at least one namespace."""
        return kind in self._watched

    def all(self) -> frozenset[GroupResource]:
        """Return the set of kinds to watch."""
        if self._all is None:
            self._all = frozenset(self._watched)
        return self._all

    def add(self, namespace: str, kind: GroupResource) -> None:
        """Count one more object of a kind that claims of the namespace refer to."""
        there = self._namespaces.setdefault(namespace, _Namespace())
        there.counts[kind] = there.counts.get(kind, 0) + 1
        if there.counts[kind] > 1:
            return
        if kind in self._exempt:
            self._watch(kind)
        elif len(there.counted) < KINDS_PER_NAMESPACE:
            there.counted.add(kind)
            self._watch(kind)
        else:
            there.surplus[kind] = None

    def remove(self, namespace: str, kind: GroupResource) -> None:
        """Count one object less; a kind that leaves the bound makes room for the oldest surplus kind."""
        there = self._namespaces[namespace]
        there.counts[kind] -= 1
        if there.counts[kind]:
            return
        del there.counts[kind]
        if kind in there.surplus:
            del there.surplus[kind]
        else:
            self._unwatch(kind)
            there.counted.discard(kind)
            if there.surplus and len(there.counted) < KINDS_PER_NAMESPACE:
                next_kind, _ = there.surplus.popitem(last=False)
                there.counted.add(next_kind)
                self._watch(next_kind)
        if not there.counts:
            del self._namespaces[namespace]

    def _watch(self, kind: GroupResource) -> None:
        self._watched[kind] = self._watched.get(kind, 0) + 1
        if self._watched[kind] == 1:
            self._all = None

    def _unwatch(self, kind: GroupResource) -> None:
        self._watched[kind] -= 1
        if not self._watched[kind]:
            del self._watched[kind]
            self._all = None
