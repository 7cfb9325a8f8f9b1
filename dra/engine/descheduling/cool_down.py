"""The pods that must not move again yet: replacements of pods that were moved a short while ago.

A pod that bounces between two nodes loses its work each time, and so does a pod that is evicted while its image is
still being pulled. So a pod that was created after the last move of its workload stays until it is ready, for an hour
at most, and for the cool-down of the profile in any case. The other pods of the workload may go: the limits of
workloads and the budgets bound those.

A person's refusal and a migration that failed hold the pod itself for a while: the next round would only propose the
same again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from dra.api.migration.model import ENDED_PHASES, MigrationPhase, PodMigrationJob
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.instants import WallTime
from dra.engine.migration.arbitration import migrated_workload
from dra.engine.migration.conditions import eviction_time
from dra.engine.migration.pod_index import NamespacedUid, is_ready, workload_of
from dra.engine.migration.pod_state import created_at
from dra.model.meta import Uid

DEFAULT_COOL_DOWN_SECONDS: Final = 600
_UNTIL_READY_SECONDS: Final = 3600
_TERMINATES_SECONDS: Final = 600
_AFTER_REJECTION_SECONDS: Final = 3600
_AFTER_FAILURE_SECONDS: Final = 600
_MEMORY_KEY: Final = "cool-down"
"""A key without a slash, which no plugin has."""


@dataclass(frozen=True, slots=True)
class _Moves:
    """The first and the last move of a workload's pods that matter still."""

    first: WallTime
    last: WallTime


@dataclass(frozen=True, slots=True)
class _Hold:
    until: WallTime
    reason: str


@dataclass(slots=True)
class CoolDown:
    """The moves that the descheduler remembers; kept in ``snapshot.memory`` from round to round."""

    moves: dict[NamespacedUid, _Moves] = field(default_factory=dict)
    """Workload → when pods of it moved: whatever was created since the first move may be a replacement."""
    holds: dict[Uid, _Hold] = field(default_factory=dict)
    """Pod → how long it stays, and why."""
    accepted: dict[Uid, WallTime] = field(default_factory=dict)
    """Pod that exists still → when it was accepted: without a job, nothing else tells that it terminates.

    Forgotten after ten minutes: a tenant's finalizer or grace period must not take a place in the limits for ever.
    """

    def record(self, pod: DeschedulingPod, *, now: WallTime) -> None:
        """Remember that a pod was accepted."""
        self.accepted[pod.metadata.uid] = now
        if (workload := workload_of(pod)) is not None:
            self._remember(workload.in_namespace, now)

    def learn(self, jobs: Iterable[PodMigrationJob], *, now: WallTime) -> None:
        """Remember what jobs tell while they exist: a new leader has no other memory.

        A pod whose job was rejected or has failed stays for a while after the job is deleted.
        """
        for job in jobs:
            pod, workload, evicted = job.spec.pod_ref.uid, migrated_workload(job), eviction_time(job)
            if evicted is not None and workload is not None:
                # A replacement may be created in the second of the eviction; the job is older than that.
                created = job.metadata.creation_timestamp
                self._remember(workload, created.timestamp() if created is not None else evicted)
                self._remember(workload, evicted)
            elif evicted is None and pod and job.status.phase in ENDED_PHASES:
                is_rejected = job.status.phase is MigrationPhase.ABORTED
                seconds = _AFTER_REJECTION_SECONDS if is_rejected else _AFTER_FAILURE_SECONDS
                reason = "its migration was rejected" if is_rejected else "its migration has failed"
                self.hold(Uid(pod), until=now + seconds, reason=reason)

    def _remember(self, workload: NamespacedUid, at: WallTime) -> None:
        before = self.moves.get(workload, _Moves(at, at))
        self.moves[workload] = _Moves(min(before.first, at), max(before.last, at))

    def hold(self, pod: Uid, *, until: WallTime, reason: str) -> None:
        """Keep a pod where it is until a time; ``reason`` is a clause: ``its migration was rejected``."""
        self.holds[pod] = _Hold(until, reason)

    def refusal(self, pod: DeschedulingPod, *, seconds: int, now: WallTime) -> str:
        """Return why a pod must not move yet; empty if it may. ``seconds`` is the cool-down, 0 means none."""
        name = f"pod {'/'.join(pod.metadata.key)}"
        held = self.holds.get(pod.metadata.uid)
        if held is not None and now < held.until:
            return f"{name}: {held.reason}; it stays for {int(held.until - now)} s more"
        workload = workload_of(pod)
        moves = self.moves.get(workload.in_namespace) if workload is not None else None
        created = created_at(pod)
        if moves is None or moves.first >= now or created <= int(moves.first):  # creation times are whole seconds
            return ""
        age = max(0, int(now - created))
        if age < seconds:
            return f"{name}: replaces a pod that was moved, {age} s ago; it stays for {seconds} s (cool-down)"
        if age < _UNTIL_READY_SECONDS and not is_ready(pod):
            return f"{name}: replaces a pod that was moved, {age} s ago, and is not ready yet"
        return ""

    def forget_old(self, *, now: WallTime, seconds: int) -> None:
        """Forget what concerns no pod any more."""
        oldest = now - max(seconds, _UNTIL_READY_SECONDS)
        self.moves = {
            workload: _Moves(max(moves.first, oldest), moves.last)
            for workload, moves in self.moves.items()
            if moves.last >= oldest
        }
        self.accepted = {pod: at for pod, at in self.accepted.items() if now - at < _TERMINATES_SECONDS}
        self.holds = {pod: held for pod, held in self.holds.items() if held.until > now}


def cool_down_of(memory: dict[str, Any]) -> CoolDown:
    """Return what the memory of the rounds has on moves."""
    remembered: CoolDown = memory.setdefault(_MEMORY_KEY, CoolDown())
    return remembered
