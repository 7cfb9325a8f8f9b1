"""Conversion of claims to lists that stock Kubernetes understands: which claims can be converted, by which writes.

The KEP's advice for disabling the feature is to replace each workload entry with the pods that use the claim. Under
stock rules a claim is kept by the entries of its pods and by nothing else: a kubelet refuses an unlisted pod, and the
stock claim controller deallocates a claim when it removes the last pod from the list. So

1. first every consuming pod is listed, beside the present entries;
2. then this project's annotations are removed: while they exist, a missing workload entry means that the owner released
   the claim; without them a controller that returns in between simply continues as before;
3. then the entries that only this project understands leave the list, in one write that removes no other entry.

A claim that no pod uses and whose workload is over is deallocated instead: no other component would do so later. In
doubt, the claim stays as it is and names the object it waits for. Each write follows from the present state alone, so a
process killed between two writes is simply started again.
"""

from enum import StrEnum
from typing import Final

from dra.engine.claims.actions import ClaimWrite, Deallocate, PatchMetadata, SetReservedFor
from dra.engine.claims.consumers import Consumer
from dra.engine.claims.reasons import list_names
from dra.engine.claims.view import ClaimView, EntryKind, ReservedForEntry
from dra.engine.claims.workload_entry import OVER_TEXTS, WorkloadFate, resolve_reference, workload_fate
from dra.model import workload_reservations
from dra.model.claims import DELETE_PROTECTION, RESERVED_FOR_MAX_SIZE
from dra.model.meta import Key, Struct
from dra.model.references import ConsumerReference

LISTED_WAITING_MAX: Final = 16
"""Waiting pods that are listed where no other pod is: without one, no component would deallocate a claim whose pods are
deleted before they are bound; with all, pods that fit nowhere would keep out pods that do."""

_OURS: Final = frozenset({EntryKind.WORKLOAD, EntryKind.FORMER, EntryKind.GUARD, EntryKind.TOMBSTONE})
_STAYING: Final = frozenset(
    {EntryKind.FOREIGN, EntryKind.GROUP, EntryKind.UNKNOWN, EntryKind.VANISHED, EntryKind.LOST_NODE}
)


class DowngradeState(StrEnum):
    """The state of a claim's conversion to stock Kubernetes."""

    READY = "ready"
    CONVERTIBLE = "convertible"
    TOO_MANY = "too many pods"
    ORPHAN = "orphan"  # no pod uses the claim, and none will: it is deallocated
    OWNER = "waits for owner"
    NODE = "waits for node"


class DowngradeAssessment(Struct, frozen=True):
    """The assessment of one claim: its state, and what the conversion has to do."""

    claim: Key
    state: DowngradeState
    consuming: int = 0
    listed: int = 0
    """Number of consuming pods that are listed."""

    pending: int = 0
    """Number of pods that reference the claim and are not bound yet."""

    capacity: int = RESERVED_FOR_MAX_SIZE
    """Number of pods that fit into the list beside the entries that stay."""

    workload: ConsumerReference | None = None
    foreign_entries: tuple[ConsumerReference, ...] = ()
    """Entries of unknown kinds."""

    nodes: tuple[str, ...] = ()
    """Nodes that the claim waits for."""

    entries: tuple[str, ...] = ()
    """Entries that only this project understands, in kubectl's notation."""

    detail: str = ""


def assess(view: ClaimView, *, given_up: bool = False) -> DowngradeAssessment:
    """Return the assessment of a claim.

    ``given_up`` says that the user declares its workload finished with the claim.
    """
    consuming = (*view.starting, *view.started)
    state, detail = _judge_state(view, given_up=given_up)
    return DowngradeAssessment(
        claim=view.key,
        state=state,
        consuming=len(consuming),
        listed=sum(1 for c in consuming if c.uid in view.listed),
        pending=len(view.waiting) + len(view.gated),
        capacity=RESERVED_FOR_MAX_SIZE - len(_staying(view)),
        workload=view.reservation.reference if view.reservation is not None else None,
        foreign_entries=tuple(e.reference for e in view.entries if _is_foreign(e)),
        nodes=tuple(e.reference.name for e in view.entries_of(EntryKind.LOST_NODE)),
        entries=tuple(str(e.reference) for e in view.entries if e.kind in _OURS),
        detail=detail,
    )


def lacks_workload_entry(view: ClaimView) -> bool:
    """Return whether, when returning from a downgrade, a workload has no entry although pods use or await its claim."""
    if not view.is_reserved or view.allocation is None or view.claim.metadata.deleting:
        return False
    return bool(view.waiting or view.starting or view.started) and EntryKind.WORKLOAD not in view.kinds


def next_write(view: ClaimView, *, given_up: bool = False) -> ClaimWrite | None:
    """Return the next write that converts the claim; None if the conversion is complete or impossible."""
    state, _ = _judge_state(view, given_up=given_up)
    match state:
        case DowngradeState.ORPHAN if view.allocation is not None:
            return Deallocate(claim=view.key, confirm=True)
        case DowngradeState.CONVERTIBLE if view.allocation is None:
            return _marks_write(view)  # the API server rejects entries in a claim without devices
        case DowngradeState.CONVERTIBLE | DowngradeState.ORPHAN:
            return _listing_write(view) or _marks_write(view) or _shrinking_write(view)
        case _:
            return None


def _judge_state(view: ClaimView, *, given_up: bool) -> tuple[DowngradeState, str]:
    if view.allocation is None:
        return (
            (DowngradeState.CONVERTIBLE, "removes the annotations of dra-reserve")
            if _marks_write(view) is not None
            else (DowngradeState.READY, "")
        )
    consuming = _consuming(view)
    missing = [c for c in consuming if c.uid not in view.listed]
    obstacle = _obstacle(view, consuming, missing)
    if obstacle is not None:
        return obstacle
    ours = [e for e in view.entries if e.kind in _OURS]
    if not _final_entries(view) and (ours or view.entered_before):
        return _unused(view, given_up=given_up)
    if any(step is not None for step in (_listing_write(view), _marks_write(view), _shrinking_write(view))):
        return DowngradeState.CONVERTIBLE, _conversion_text(missing, ours)
    others = [str(e.reference) for e in view.entries if _is_foreign(e)]
    if others:
        return DowngradeState.OWNER, f"another client made entry {list_names(others)} and must remove the entry"
    return DowngradeState.READY, ""


def _obstacle(view: ClaimView, consuming: list[Consumer], missing: list[Consumer]) -> tuple[DowngradeState, str] | None:
    """Return the obstacle to converting the claim; None if there is none."""
    lost = view.entries_of(EntryKind.LOST_NODE)
    if lost:
        nodes = list_names(e.reference.name for e in lost)
        return DowngradeState.NODE, f"deleted pods may still run on {nodes}, which did not report in"
    if view.claim.metadata.deleting and missing:
        return (
            DowngradeState.OWNER,
            f"the claim is being deleted, so its {len(missing)} unlisted pods cannot be listed",
        )
    capacity = RESERVED_FOR_MAX_SIZE - len(_staying(view))
    if len(consuming) > capacity:
        return DowngradeState.TOO_MANY, f"{len(consuming)} pods use the claim, and its list has room for {capacity}"
    return None


def _unused(view: ClaimView, *, given_up: bool) -> tuple[DowngradeState, str]:
    """Judge a claim that has no pod to list: deallocated if that is certainly safe, kept otherwise."""
    if view.unfinished:
        return (
            DowngradeState.OWNER,
            f"{view.unfinished} pods of the claim wait behind scheduling gates or for their PodGroup",
        )
    if view.claim.metadata.deleting:
        return _as_orphan("the claim is being deleted and no pod uses it")
    if view.reservation is None or not view.is_reserved:
        return _as_orphan("no pod uses the claim")
    reference = resolve_reference(view, view.reservation)
    outcome = workload_fate(view, reference)
    certain = {
        f"{reference} {OVER_TEXTS.get(outcome)}": outcome in OVER_TEXTS,
        f"{reference} released the claim": view.entered_before and EntryKind.WORKLOAD not in view.kinds,
        f"the claim of {reference} was given up": given_up,
    }
    for why, is_so in certain.items():
        if is_so:
            return _as_orphan(why)
    if outcome is WorkloadFate.ALIVE:
        return DowngradeState.OWNER, f"{reference} has no pods, and stock Kubernetes cannot keep a claim without pods"
    return DowngradeState.OWNER, f"it is unknown whether {reference} still needs the claim"


def _as_orphan(why: str) -> tuple[DowngradeState, str]:
    return DowngradeState.ORPHAN, f"{why}: the claim is deallocated"


def _conversion_text(missing: list[Consumer], ours: list[ReservedForEntry]) -> str:
    listed = [f"lists {len(missing)} pods"] if missing else []
    removed = [f"removes {list_names(str(e.reference) for e in ours)}"] if ours else []
    return ", then ".join([*listed, *removed]) or "removes the annotations of dra-reserve"


def _is_foreign(entry: ReservedForEntry) -> bool:
    """Return whether the entry is neither a pod's, nor a PodGroup's, nor this project's.

    Only its writer understands it.
    """
    return entry.kind is EntryKind.FOREIGN and not entry.reference.is_pod


def _consuming(view: ClaimView) -> list[Consumer]:
    """Return the consuming pods that have entries of their own, or need them.

    Pods that their PodGroup's entry admits need none. Neither does an unstarted pod that was bound to a node which the
    allocation excludes: its devices are not there.
    """
    needy = {c.uid for c in view.started} | ({c.uid for c in view.starting} - view.excluded)
    return [
        c
        for c in (*view.starting, *view.started)
        if c.uid in view.listed or (c.uid in needy and c.pod_group not in view.groups)
    ]


def _staying(view: ClaimView) -> list[ConsumerReference]:
    return [e.reference for e in view.entries if e.kind in _STAYING]


def _final_entries(view: ClaimView) -> list[ConsumerReference]:
    """Return the list after the conversion: no entry is this project's, and no pod that uses the claim is missing."""
    staying, consuming = _staying(view), _consuming(view)
    # A listed waiting pod may be bound at any moment by a cycle that has seen its entry.
    promised = [c for c in (*view.waiting, *view.gated) if c.uid in view.listed]
    pods = [*consuming, *promised]
    if not pods and not staying and not view.claim.metadata.deleting:
        tried = [c for c in view.waiting if not c.pod_group] + [
            c for c in view.gated if c.gated_by_us_only and not c.pod_group
        ]
        pods = sorted(tried, key=lambda c: c.scheduling_order)[:LISTED_WAITING_MAX]
    taken = {entry.uid for entry in staying}
    capacity = RESERVED_FOR_MAX_SIZE - len(staying)
    return [*staying, *[c.entry for c in pods if c.uid not in taken][:capacity]]


def _listing_write(view: ClaimView) -> SetReservedFor | None:
    """Return the write that lists the missing pods, beside everything that keeps the claim now.

    None if none is missing.
    """
    final, listed = _final_entries(view), view.listed
    missing = [entry for entry in final if entry.uid not in listed]
    if not missing:
        return None
    over = {EntryKind.FINISHED, EntryKind.TOMBSTONE}
    kept = [e.reference for e in view.entries]
    if len(kept) + len(missing) > RESERVED_FOR_MAX_SIZE:  # ended pods make room first
        kept = [e.reference for e in view.entries if e.kind not in over]
    capacity = RESERVED_FOR_MAX_SIZE - len(kept)
    if capacity <= 0:
        return None  # the last write removes own entries and adds the last pods at once
    return SetReservedFor(claim=view.key, entries=(*kept, *missing[:capacity]))


def _marks_write(view: ClaimView) -> PatchMetadata | None:
    """Return the write that removes the annotations, and adjusts the finalizer that every deallocation depends on."""
    claim = view.claim
    marks = workload_reservations.annotation_removals(claim, uid_too=True)
    finalizers = claim.metadata.finalizers or []
    wanted = list(finalizers)
    if view.allocation is not None and not claim.protected and not claim.metadata.deleting:
        wanted.append(DELETE_PROTECTION)
    elif view.allocation is None and not view.unfinished:
        wanted = [finalizer for finalizer in finalizers if finalizer != DELETE_PROTECTION]
    if not marks and wanted == finalizers:
        return None
    changed = tuple(wanted) if wanted != finalizers else None
    return PatchMetadata(claim=view.key, annotations=tuple(marks.items()), finalizers=changed)


def _shrinking_write(view: ClaimView) -> SetReservedFor | None:
    """Return the write that leaves only entries known to stock Kubernetes; None if that is already the case."""
    final = _final_entries(view)
    ended = [e for e in view.entries if e.kind is EntryKind.FINISHED]
    present = {e.reference for e in view.entries} - {e.reference for e in ended}  # stock prunes ended pods
    if present == set(final):
        return None
    return SetReservedFor(claim=view.key, entries=tuple(final))
