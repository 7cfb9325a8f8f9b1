"""The index of workloads: the known state of each object that claims are reserved for, and the claims to update."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Self

import msgspec

from dra.engine.claims.view import WorkloadPhase, WorkloadState
from dra.engine.claims.workload_kinds import WatchedKinds
from dra.engine.dirty_keys import DirtyKeys
from dra.model.meta import Key, Uid
from dra.model.references import ConsumerReference, GroupResource
from dra.model.workload_reservations import NO_UID

_THERE = frozenset({WorkloadPhase.PRESENT, WorkloadPhase.FINISHED})
_UNREADABLE = frozenset({WorkloadPhase.FORBIDDEN, WorkloadPhase.NO_KIND, WorkloadPhase.OVER_LIMIT})


class WorkloadKey(NamedTuple):
    """The key of the object that a reference names; the namespace is the claim's."""

    kind: GroupResource
    namespace: str
    name: str

    @classmethod
    def from_reference(cls, reference: ConsumerReference, namespace: str) -> Self:
        """Return the key of the object that a claim in ``namespace`` refers to."""
        return cls(reference.group_resource, namespace, reference.name)


class WorkloadIndex:
    """The index of workloads by name, and of the claims that refer to them: an observation adds these to ``dirty``."""

    def __init__(self, *, dirty: DirtyKeys[Key]) -> None:
        self._dirty = dirty
        self.watched_kinds = WatchedKinds()
        self._kinds: dict[GroupResource, WorkloadPhase] = {}
        self._known: dict[WorkloadKey, WorkloadState] = {}
        self._referrers: dict[WorkloadKey, set[Key]] = {}
        self._of_kind: dict[GroupResource, set[WorkloadKey]] = {}
        """Keys of `_referrers` by kind: a change of a kind affects only the claims of that kind."""

        self._known_of_kind: dict[GroupResource, set[WorkloadKey]] = {}
        """Keys of `_known` by kind."""

        self._read_live: dict[WorkloadKey, Uid] = {}
        """Uids that a live read has shown, and the watch has not yet."""

        self._referred: dict[Key, frozenset[WorkloadKey]] = {}

    def kinds(self) -> frozenset[GroupResource]:
        """Return the kinds to watch: the kinds that claims refer to, within the bound of their namespaces."""
        return self.watched_kinds.all()

    def set_references(self, claim: Key, references: Iterable[ConsumerReference]) -> None:
        """Set the workloads that the claim refers to, in place of all previous references."""
        wanted = frozenset(WorkloadKey.from_reference(reference, claim[0]) for reference in references)
        before = self._referred.pop(claim, frozenset())
        if wanted:
            self._referred[claim] = wanted
        for key in wanted - before:
            if key not in self._referrers:
                self._referrers[key] = set()
                self._of_kind.setdefault(key.kind, set()).add(key)
                self.watched_kinds.add(key.namespace, key.kind)
            self._referrers[key].add(claim)
        for key in before - wanted:
            self._unrefer(claim, key)

    def _unrefer(self, claim: Key, key: WorkloadKey) -> None:
        referrers = self._referrers[key]
        referrers.discard(claim)
        if not referrers:
            del self._referrers[key]
            _discard_key(self._of_kind, key)
            self.watched_kinds.remove(key.namespace, key.kind)
            if self._known.get(key, WorkloadState()).phase is WorkloadPhase.ABSENT:
                self._forget(key)

    def observe_kind(self, kind: GroupResource, phase: WorkloadPhase) -> None:
        """Set the phase of every unobserved object of a kind: ABSENT once the watch has synced."""
        if self._kinds.get(kind) is not phase:
            self._kinds[kind] = phase
            self._kind_changed(kind)

    def forget_kind(self, kind: GroupResource) -> None:
        """Forget a kind that is no longer watched: earlier observations of its objects count no longer."""
        for key in [key for key in self._known_of_kind.get(kind, ()) if self._known[key].phase in _THERE]:
            gone = self._forget(key).gone
            if key in self._referrers:
                self._remember(key, WorkloadState(phase=WorkloadPhase.ABSENT, gone=gone))
        self._kinds.pop(kind, None)
        self._kind_changed(kind)

    def listed(self, kind: GroupResource, there: AbstractSet[Key]) -> None:
        """Mark objects that a complete list lacks as absent, so that a live read checks them again."""
        concerned: set[Key] = set()
        for key in tuple(self._known_of_kind.get(kind, ())):
            known = self._known[key]
            if known.phase in _THERE and (key.namespace, key.name) not in there:
                concerned |= self._set(key, WorkloadState(phase=WorkloadPhase.ABSENT, gone=known.gone))
        self._dirty.update(concerned)

    def _kind_changed(self, kind: GroupResource) -> None:
        self._dirty.update({claim for key in self._of_kind.get(kind, ()) for claim in self._referrers[key]})

    def _remember(self, key: WorkloadKey, workload: WorkloadState) -> None:
        self._known[key] = workload
        self._known_of_kind.setdefault(key.kind, set()).add(key)

    def _forget(self, key: WorkloadKey) -> WorkloadState:
        self._read_live.pop(key, None)
        _discard_key(self._known_of_kind, key)
        return self._known.pop(key)

    def observe(
        self,
        key: WorkloadKey,
        *,
        uid: Uid,
        finished: bool,
        suspended: bool = False,
        rule_error: str = "",
        live: bool = False,
    ) -> None:
        """Record a workload from the watch or a live read; an object of the same name with another uid is gone.

        An exception is an object that only a live read has shown: the watch may be behind, and deliver its predecessors
        first. ``finished`` is the result of the release rule; ``rule_error`` says why the rule could not be evaluated.
        """
        before = self._known.get(key, WorkloadState())
        if live and uid in before.gone:
            return  # the response to a request that was slower than the watch
        awaited = self._read_live.get(key)
        if live and uid != before.uid:
            self._read_live[key] = uid
        elif not live:
            self._read_live.pop(key, None)
        replaced = before.uid and (live or before.uid != awaited)
        gone = before.gone | {before.uid} if replaced else before.gone
        phase = WorkloadPhase.FINISHED if finished else WorkloadPhase.PRESENT
        state = WorkloadState(phase=phase, uid=uid, gone=gone - {uid}, rule_error=rule_error, suspended=suspended)
        self._dirty.update(self._set(key, state))

    def forget(self, key: WorkloadKey, uid: Uid) -> None:
        """Forget the object with that uid, which is certainly deleted; another object of its name may exist."""
        before = self._known.get(key, WorkloadState())
        gone = before.gone | {uid}
        if before.uid != uid and before.phase in _THERE:
            after = msgspec.structs.replace(before, gone=gone)
        else:
            after = WorkloadState(phase=WorkloadPhase.ABSENT, uid=NO_UID, gone=gone)
        self._dirty.update(self._set(key, after))

    def get(self, key: WorkloadKey) -> WorkloadState:
        """Return the known state of a workload; for an unobserved workload, the state of its kind."""
        known = self._known.get(key)
        default = self._kinds.get(key.kind, WorkloadPhase.UNKNOWN)
        if default is WorkloadPhase.UNKNOWN and key in self._referrers and key.kind not in self.watched_kinds:
            default = WorkloadPhase.OVER_LIMIT
        if known is None:
            return WorkloadState(phase=default)
        if known.phase is WorkloadPhase.ABSENT or default in _UNREADABLE:
            return msgspec.structs.replace(known, phase=default)
        return known

    def _set(self, key: WorkloadKey, workload: WorkloadState) -> set[Key]:
        """Set the known state of a workload; return the claims that this concerns."""
        if self._known.get(key) == workload:
            return set()
        referrers = self._referrers.get(key)
        if workload.phase is WorkloadPhase.ABSENT and referrers is None:
            if key in self._known:
                self._forget(key)  # no claim refers to it: remembering every Job ever seen would be a leak
        else:
            self._remember(key, workload)
        return set(referrers or ())


def _discard_key(index: dict[GroupResource, set[WorkloadKey]], key: WorkloadKey) -> None:
    index[key.kind].discard(key)
    if not index[key.kind]:
        del index[key.kind]
