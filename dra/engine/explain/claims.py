"""What is to be said of one claim: who holds it, what keeps it, and what is wrong with it."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from dra.engine.allocate.wanted import UnsatisfiableError, prepare
from dra.engine.claims.stuck import Stuck, stuck, waiting_since
from dra.engine.claims.view import ClaimView, EntryKind, OwnerPhase, WorkloadPhase
from dra.engine.claims.workload import Fate, fate, resolve
from dra.engine.consumers import Consumer, Stage
from dra.engine.explain import annotations
from dra.engine.explain.holds import holds
from dra.engine.explain.problems import Problem, Trouble, of_claim, of_pod
from dra.engine.explain.scene import LATER, SEEN, Hold, Scene
from dra.engine.explain.snapshot import Presence
from dra.engine.ledger import Item
from dra.engine.reasons import named
from dra.model import workloads
from dra.model.claims import DELETE_PROTECTION, RESERVED_FOR_MAX_SIZE
from dra.model.meta import Key, Struct, Uid
from dra.model.references import ConsumerReference
from dra.model.workloads import FORCE_RELEASE

NAMES: Final = 20
"""Pods that one command names; it can be run again."""

_DOUBTFUL: Final = {Hold.DOUBT, Hold.FORMER, Hold.UNKNOWN}


class Held(Struct, frozen=True):
    """One entry of the list, or those of one kind."""

    kind: EntryKind
    reference: str
    """The entry; of many, the first."""

    count: int = 1
    names: tuple[str, ...] = ()
    """Of pods, a few."""


class Users(Struct, frozen=True):
    """How many pods reference the claim, by how far they are."""

    gated: int
    waiting: int
    starting: int
    started: int
    finished: int

    @property
    def consuming(self) -> int:
        """Those that use it."""
        return self.starting + self.started


class ClaimFacts(Struct, frozen=True):
    """All that is to be said of a claim."""

    key: Key
    uid: Uid
    devices: tuple[Item, ...]
    nodes: tuple[str, ...]
    """Where the allocation can be used; empty: anywhere, or there is none."""

    allocated: bool
    since: str
    deleting: bool
    workload: str
    """``jobs.batch/train``, as far as the claim says so."""

    fate: str
    """What became of it: a `Fate`, in small letters."""

    phase: str
    entered: bool
    released: bool
    held: tuple[Held, ...]
    users: Users
    holds: tuple[Hold, ...]
    consumers: tuple[str, ...]
    """Names of pods that use it, a few."""

    waiters: tuple[str, ...]
    """Names of pods that wait for it, a few."""

    problems: tuple[Problem, ...]


def explain(scene: Scene, key: Key) -> ClaimFacts | None:
    """Return what is to be said of a claim; None if there is none."""
    view = scene.view(key)
    if view is None:
        return None
    claim, allocation = view.claim, view.allocation
    results = (allocation.devices.results or ()) if allocation is not None else ()
    found = view.reservation
    reference = resolve(view, found) if found is not None else None
    return ClaimFacts(
        key=key,
        uid=claim.metadata.uid,
        devices=tuple(Item(driver=r.driver, pool=r.pool, device=r.device, share=r.share_id or "") for r in results),
        nodes=_nodes(scene, view),
        allocated=allocation is not None,
        since=(allocation.allocation_timestamp or "") if allocation is not None else "",
        deleting=claim.metadata.deleting,
        workload=str(reference) if reference is not None else "",
        fate=fate(view, reference).name.lower() if reference is not None else "",
        phase=view.workload.phase.value if reference is not None else "",
        entered=EntryKind.WORKLOAD in view.kinds,
        released=view.entered_before and EntryKind.WORKLOAD not in view.kinds,
        held=tuple(_held(view)),
        users=Users(
            gated=len(view.gated),
            waiting=len(view.waiting),
            starting=len(view.starting),
            started=len(view.started),
            finished=len(view.finished),
        ),
        holds=kept_by(scene, view),
        consumers=_names((*view.starting, *view.started)),
        waiters=(*_names(view.waiting), *_names(view.gated))[:NAMES],
        problems=tuple(problems(scene, view)),
    )


def kept_by(scene: Scene, view: ClaimView) -> tuple[Hold, ...]:
    """Return what keeps the allocation of a view of this scene."""
    found = scene.kept.get(view.key)
    if found is None:
        found = scene.kept[view.key] = holds(view, policy=scene.policy, soon=SEEN)
    return found


def problems(scene: Scene, view: ClaimView) -> Iterator[Problem]:
    """Yield everything that is wrong with a claim and with the pods that use it."""
    told = _Told(scene, view)
    if view.allocation is None:
        yield from told.unallocated()
    else:
        yield from told.allocated()
    yield from told.written()


class _Told:
    """One claim while it is judged."""

    def __init__(self, scene: Scene, view: ClaimView) -> None:
        self.scene = scene
        self.view = view
        self.claim = view.claim

    def claim_has(self, trouble: Trouble, **facts: str | int) -> Problem:
        return of_claim(trouble, key=self.view.key, uid=self.claim.metadata.uid, **facts)

    def pod_has(self, trouble: Trouble, pod: Consumer, **facts: str | int) -> Problem:
        alone = orphaned(self.scene.snapshot.leader.presence)
        named_too: dict[str, str | int] = {
            "claim": self.claim.metadata.name,
            "node": pod.node,
            "owner": owner_of(self.scene, pod),
            "alone": int(alone),
        }
        return of_pod(trouble, key=pod.key, uid=pod.uid, **(named_too | facts))

    def unallocated(self) -> Iterator[Problem]:
        view, meta = self.view, self.claim.metadata
        for pod in (*view.starting, *view.started):
            yield self.pod_has(Trouble.ALLOCATION_LOST, pod)
        if meta.deleting and meta.finalizers == [DELETE_PROTECTION] and not view.consuming:
            yield self.claim_has(Trouble.FINALIZER_LEFT)
        if meta.annotation(workloads.ENTERED) is not None and not meta.deleting:
            yield self.claim_has(Trouble.MARKS_LEFT, revision=meta.resource_version)
        if not view.unfinished and not meta.deleting and self._ownerless():
            yield self.claim_has(Trouble.ZOMBIE_CLAIM, owner=self._owner(), revision=meta.resource_version)
        yield from self._impossible()

    def _impossible(self) -> Iterator[Problem]:
        """Tell of a claim that pods wait for in vain, by one of them: a class is missing, a selector is wrong."""
        waiter = next(iter((*self.view.waiting, *self.view.gated)), None)
        if waiter is None or self.claim.metadata.deleting:
            return
        try:
            prepare(self.claim, self.scene.classes)
        except UnsatisfiableError as error:
            why = unsatisfiable(self.scene, error)
            if why:
                facts = {"claim": self.claim.metadata.name, "error": why}
                yield of_pod(Trouble.UNSATISFIABLE, key=waiter.key, uid=waiter.uid, **facts)

    def allocated(self) -> Iterator[Problem]:
        view = self.view
        for conflict in view.conflicts:
            other = "/".join(conflict.holder.key)
            pods = (*view.starting, *view.started)
            yield self.claim_has(
                Trouble.HELD_TWICE, device=str(conflict.item), other=other, count=len(pods), whose=self._whose(pods)
            )
        off = (c for c in view.starting if c.uid in view.excluded and not c.deleting)
        yield from (self.pod_has(Trouble.OFF_ALLOCATION, c) for c in off)
        yield from self._kept()
        yield from self._useless()
        yield from self._entries()

    def _kept(self) -> Iterator[Problem]:
        """Tell of a claim that nobody uses and that is not free, or that pods keep which should not be there."""
        view = self.view
        if view.conflicts:
            return
        found = kept_by(self.scene, view)
        if not found:
            yield self.claim_has(Trouble.NOT_FREED, **self._leader())
        elif view.unfinished:
            yield from self._kept_by_pods()
        else:
            yield from self._kept_by_nobody(found)

    def _kept_by_pods(self) -> Iterator[Problem]:
        view = self.view
        over = self._fate() in {Fate.FINISHED, Fate.GONE}
        pods = (*view.starting, *view.started, *view.waiting, *view.gated)
        waits: dict[str, str | int] = {"pods": " ".join(_names(pods)), "count": len(pods), "whose": self._whose(pods)}
        if self.claim.metadata.deleting:
            yield self.claim_has(Trouble.DELETION_WAITS, **waits)
        elif over and EntryKind.WORKLOAD in view.kinds:
            yield self.claim_has(Trouble.RELEASE_WAITS, workload=self._reference(), **waits)

    def _kept_by_nobody(self, found: tuple[Hold, ...]) -> Iterator[Problem]:
        view = self.view
        if self.claim.metadata.annotation(FORCE_RELEASE) not in {None, view.claim.metadata.uid}:
            return  # somebody wanted it released and missed: that is the cause
        if Hold.NOTHING in found:
            yield self.claim_has(Trouble.LEFT_OVER)
        if Hold.VANISHED in found and orphaned(self.scene.snapshot.leader.presence):
            yield self.claim_has(Trouble.NOT_FREED, **self._leader())
        elif Hold.VANISHED in found:
            yield self.claim_has(Trouble.VANISHED, count=len(view.vanished))
        if Hold.FOREIGN in found:
            yield self.claim_has(Trouble.KEPT_BY_OTHERS, entries=_listed(view, EntryKind.FOREIGN))
        if Hold.LOST_NODE in found:
            for node in view.lost_nodes:
                yield self.claim_has(Trouble.NODE_LOST, node=node.name)
        if _DOUBTFUL & set(found):
            yield self.claim_has(Trouble.IN_DOUBT, workload=self._reference())
        if found == (Hold.WORKLOAD,):
            alive = self._fate() is Fate.ALIVE
            yield self.claim_has(Trouble.IDLE if alive else Trouble.IN_DOUBT, workload=self._reference())

    def _useless(self) -> Iterator[Problem]:
        """Tell of allocations with which pods cannot do anything."""
        view = self.view
        if waiting_since(view, now=LATER) is not None:
            view = msgspec.structs.replace(view, placements=self.scene.placements(view))
        cause = stuck(view, now=LATER)
        cordoned = [n for n in _nodes(self.scene, view) if self.scene.nodes[n].spec.unschedulable]
        if view.waiting and not view.consuming and cordoned and not view.nodes.inside:
            yield self.claim_has(Trouble.NODE_CORDONED, nodes=" ".join(cordoned[:NAMES]), pods=len(view.waiting))
        elif cause is not None:
            yield self.claim_has(Trouble.STUCK, cause=Stuck(cause[0]).value, pods=len(view.waiting))
        if not any(gap.resource.startswith("resourceslices") for gap in self.scene.snapshot.gaps):
            allocation = view.allocation
            for result in (allocation.devices.results or ()) if allocation is not None else ():
                item = Item(driver=result.driver, pool=result.pool, device=result.device)
                if self.scene.inventory.candidate(item) is None:
                    yield self.claim_has(Trouble.DEVICE_GONE, device=str(item))
        for tainted in view.taints:
            yield self.claim_has(
                Trouble.DEVICE_TAINTED, device=tainted.device, taint=str(tainted.taint), origin=tainted.origin
            )

    def _entries(self) -> Iterator[Problem]:
        """Tell of the list."""
        view = self.view
        finished = [e for e in view.entries if e.kind in {EntryKind.FINISHED, EntryKind.TOMBSTONE}]
        gone = [e for e in view.of(EntryKind.TOMBSTONE) if self._vanished(e.reference)]
        if len(view.entries) >= RESERVED_FOR_MAX_SIZE - 1 and (view.waiting or view.gated):
            waiting = len(view.waiting) + len(view.gated)
            yield self.claim_has(Trouble.LIST_FULL, listed=len(view.entries), finished=len(finished), pods=waiting)
        stale = view.of(EntryKind.FINISHED)
        if stale and kept_by(self.scene, view):
            yield self.claim_has(
                Trouble.STALE_ENTRIES, count=len(stale), entries=named(e.reference.name for e in stale)
            )
        if gone:
            yield self.claim_has(Trouble.TOMBSTONES, count=len(gone))
        unlisted = [c for c in view.starting if c.uid not in view.listed and c.uid not in view.excluded]
        for pod in unlisted:
            if not view.covers(pod) and not pod.deleting:
                yield self.pod_has(Trouble.UNLISTED, pod)
        many = {EntryKind.WORKLOAD, EntryKind.GUARD, EntryKind.FOREIGN, EntryKind.GROUP, EntryKind.FORMER}
        many.add(EntryKind.RESERVATION)
        bare = [c for c in view.started if c.uid not in view.listed and not view.covers(c)]
        if bare and view.kinds.isdisjoint(many):
            yield self.claim_has(Trouble.UNGUARDED, count=len(bare), pods=" ".join(_names(bare)))
        allocation = view.allocation
        if allocation is not None and allocation.allocation_timestamp is None and view.reservation is not None:
            yield self.claim_has(Trouble.TIMELESS)

    def written(self) -> Iterator[Problem]:
        """Tell of annotations that do not mean what they should, and of finalizers that keep a deleted claim."""
        view, meta = self.view, self.claim.metadata
        yield from self._metadata()
        yield from self._not_entered()
        guess = self._guess()
        if view.malformed:
            yield self.claim_has(Trouble.MALFORMED, error=view.malformed, guess=guess)
        reference, outcome = self._resolved(), self._fate()
        if reference is not None and view.unfinished:
            there = view.workload
            if view.workload.phase is WorkloadPhase.NO_KIND:
                yield self.claim_has(
                    Trouble.KIND_UNKNOWN,
                    workload=str(reference),
                    meant=self._meant(reference),
                    guess=guess,
                    kind=str(reference.group_resource),
                    revision=meta.resource_version,
                )
            elif outcome is Fate.PENDING and view.workload.phase is WorkloadPhase.ABSENT:
                yield self.claim_has(Trouble.WORKLOAD_NOT_FOUND, workload=str(reference), guess=guess)
            elif outcome is Fate.GONE and there.phase is WorkloadPhase.PRESENT and there.uid != reference.uid:
                yield self.claim_has(
                    Trouble.WRONG_UID, workload=str(reference), expected=reference.uid, actual=there.uid
                )
        value = meta.annotation(FORCE_RELEASE)
        if value is not None and value != meta.uid:
            yield self.claim_has(Trouble.FORCE_IGNORED, value=value)
        elif value is not None and view.allocation is not None:
            users = [c for c in view.users if c.uid not in view.stranded]
            if users:
                names = " ".join(_names(users))
                yield self.claim_has(Trouble.FORCE_BLOCKED, pods=names, count=len(users), whose=self._whose(users))

    def _metadata(self) -> Iterator[Problem]:
        """Tell of finalizers and annotation keys that no process of ours knows."""
        meta = self.claim.metadata
        others = [each for each in meta.finalizers or () if each != DELETE_PROTECTION]
        if meta.deleting and others and not self.view.consuming:
            yield self.claim_has(Trouble.FINALIZER_FOREIGN, finalizers=", ".join(others))
        for key, meant in annotations.unknown(meta.annotations):
            yield self.claim_has(Trouble.UNKNOWN_ANNOTATION, annotation=key, meant=meant)

    def _not_entered(self) -> Iterator[Problem]:
        """Tell of a workload that a controller would have entered."""
        view = self.view
        working = not orphaned(self.scene.snapshot.leader.presence)
        if working or view.allocation is None or view.conflicts or not view.unfinished or self.claim.metadata.deleting:
            return
        if self._fate() is Fate.ALIVE and EntryKind.WORKLOAD not in view.kinds and not view.entered_before:
            yield self.claim_has(Trouble.NOT_ENTERED, workload=self._reference(), lease=self.scene.snapshot.leader.name)

    def _leader(self) -> dict[str, str | int]:
        leader = self.scene.snapshot.leader
        return {"presence": leader.presence.value, "lease": leader.name, "seconds": leader.seconds}

    def _resolved(self) -> ConsumerReference | None:
        return resolve(self.view, self.view.reservation) if self.view.reservation is not None else None

    def _reference(self) -> str:
        return str(self._resolved() or "")

    def _fate(self) -> Fate | None:
        reference = self._resolved()
        return fate(self.view, reference) if reference is not None else None

    def _owner(self) -> str:
        owner = self.claim.controller
        return f"{owner.kind.lower()} {owner.name}" if owner is not None else ""

    def _ownerless(self) -> bool:
        """Whether the claim was made for a pod that needs it no more."""
        if self.view.owner in {OwnerPhase.DONE, OwnerPhase.REPLACED, OwnerPhase.GONE}:
            return True
        return self.view.owner is OwnerPhase.UNKNOWN and self.scene.complete(self.view.key[0])

    def _vanished(self, entry: ConsumerReference) -> bool:
        return self.scene.complete(self.view.key[0]) and self.scene.world.consumer(entry.uid) is None

    def _meant(self, reference: ConsumerReference) -> str:
        """Return the reference as it should be written, where somebody wrote ``job/train`` or ``deploy/web``.

        A group that somebody wrote is meant, also where its CRD is not installed yet.
        """
        kind = (reference.resource, reference.api_group)
        seen = self.scene.snapshot.workloads
        found = next((each.meant for each in seen if (each.resource, each.group) == kind), "")
        group = reference.group_resource.unversioned.group
        another = group and found.partition(".")[2] != group
        return f"{found}/{reference.name}" if found and not another else ""

    def _whose(self, pods: Sequence[Consumer]) -> str:
        """Return pods by what controls them, since that decides who misses a pod and who makes another one."""
        groups: dict[str, list[str]] = {}
        for pod in sorted(pods, key=_by_stage):
            groups.setdefault(owner_of(self.scene, pod, besides=self._resolved()), []).append(pod.name)
        return "; ".join(f"{named(names)} of {owner or 'no controller'}" for owner, names in groups.items())

    def _guess(self) -> str:
        """Return the workload that all pods of the claim belong to, if that is one."""
        owners = {
            (owner.api_version, owner.kind, owner.name)
            for pod in self.scene.users.get(self.view.key, ())
            for owner in pod.metadata.owner_references or ()
            if owner.controller
        }
        if len(owners) != 1:
            return ""
        version, kind, name = owners.pop()
        group = version.partition("/")[0] if "/" in version else ""
        plural = f"{kind.lower()}s"
        return f"{plural}.{group}/{name}" if group else f"{plural}/{name}"


def _held(view: ClaimView) -> Iterator[Held]:
    singles = {EntryKind.WORKLOAD, EntryKind.FORMER, EntryKind.GUARD, EntryKind.GROUP, EntryKind.LOST_NODE}
    for kind in EntryKind:
        entries = view.of(kind)
        if not entries:
            continue
        if kind in singles or kind in {EntryKind.FOREIGN, EntryKind.RESERVATION}:
            yield from (Held(kind=kind, reference=str(e.reference)) for e in entries)
        else:
            names = tuple(e.reference.name for e in entries[:NAMES])
            yield Held(kind=kind, reference=str(entries[0].reference), count=len(entries), names=names)


def _nodes(scene: Scene, view: ClaimView) -> tuple[str, ...]:
    allocation = view.allocation
    if allocation is None or allocation.node_selector is None:
        return ()
    inside, _ = scene.world.reach(allocation.node_selector)
    return tuple(sorted(inside))


def _names(pods: Iterable[Consumer]) -> tuple[str, ...]:
    return tuple(c.name for c in sorted(pods, key=_by_stage)[:NAMES])


def _by_stage(consumer: Consumer) -> tuple[Stage, str]:
    return (consumer.stage, consumer.name)


def _listed(view: ClaimView, kind: EntryKind) -> str:
    return named(str(e.reference) for e in view.of(kind))


def unsatisfiable(scene: Scene, error: UnsatisfiableError) -> str:
    """Return why a claim cannot be satisfied, with the classes that there are; empty if those could not be read."""
    if not error.missing:
        return str(error)
    if any(gap.resource.startswith("deviceclasses") for gap in scene.snapshot.gaps):
        return ""
    known = named(sorted(scene.classes))
    return f"{error}; there are {known}" if known else f"{error}, nor does any other"


def owner_of(scene: Scene, consumer: Consumer, *, besides: ConsumerReference | None = None) -> str:
    """Return the controller of a pod, ``job train``; empty if nothing makes another pod in its place.

    `besides` is a workload that a text names already: another object of its name is told as another one.
    """
    pod = scene.pods.get(consumer.key)
    owners = (pod.metadata.owner_references or ()) if pod is not None else ()
    owner = next((each for each in owners if each.controller), None)
    if owner is None:
        return ""
    another = besides is not None and besides.uid and owner.name == besides.name and owner.uid != besides.uid
    return f"{'another ' if another else ''}{owner.kind.lower()} {owner.name}"


def orphaned(presence: Presence) -> bool:
    """Whether nobody of ours is known to be at work."""
    return presence in {Presence.ABSENT, Presence.STALE}
