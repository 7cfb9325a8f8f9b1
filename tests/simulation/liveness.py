"""Liveness: what must hold once nothing more happens.

Faults are over, everybody works, nodes are back, time passes: then everything satisfiable runs, what nobody uses is
free, and nobody writes any more. Then all pods and all workloads end, and nothing of ours is left.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from dra.engine.claims.view import GUARD_RESOURCE
from dra.kube.resources import JOBS, PODS
from dra.model import workload_reservations
from dra.model.claims import ResourceClaim
from dra.model.pods import POD_READY_TO_START_CONTAINERS, Pod, claim_names
from tests.dra.engine.simulation.list_limits import DEFAULT_LIST_SIZE
from tests.dra.engine.simulation.violation import Violation
from tests.simulation.capacity import suitable_nodes
from tests.simulation.kueue import is_held
from tests.simulation.safety import FOREIGN

if TYPE_CHECKING:
    from tests.simulation.simulated_cluster import SimulatedSystem

QUIET_SECONDS: Final = 60.0
"""Seconds without a write, leases and heartbeats apart."""

POLL_SECONDS: Final = 15.0
SETTLE_TIMEOUT: Final = 1500.0
"""Seconds within which everything must have come to rest: longer than the longest bind horizon and patience."""


async def check_liveness(system: "SimulatedSystem") -> None:
    """Let the system come to rest, twice, and look."""
    system.faults.set(())
    for process in system.processes.values():
        process.start()
    await system.resume_nodes()
    if system.queue is not None:
        system.queue.lift_quota()
    system.note("all is well from now on")
    await wait_until_settled(system)
    system.note("all pods and workloads end")
    await system.remove_foreign_entries()
    if system.queue is not None:
        system.queue.is_closing = True
    for stored in system.all(JOBS):
        await system.end_job(stored.key.namespace, stored.key.name, finished=False)
    await asyncio.sleep(POLL_SECONDS)
    for stored in system.all(PODS):
        await system.delete(PODS, stored.key.namespace, stored.key.name)
    await wait_until_settled(system)


async def wait_until_settled(system: "SimulatedSystem") -> None:
    """Wait until all is as it should be and nobody writes; raises Violation if that never comes."""
    started = system.clock.now()
    while True:
        await asyncio.sleep(POLL_SECONDS)
        now = system.clock.now()
        problem = remaining_writes(system, now=now) or unmet_expectation(system)
        if not problem:
            return
        if now - started > SETTLE_TIMEOUT:
            raise Violation(problem)


def remaining_writes(system: "SimulatedSystem", *, now: float) -> str:
    """Return who still writes."""
    if now - system.write_log.last_write_at >= QUIET_SECONDS or _only_rotates_slots(system, since=now - QUIET_SECONDS):
        return ""
    return f"no rest: {system.write_log.entries[-1]}"


def _only_rotates_slots(system: "SimulatedSystem", *, since: float) -> bool:
    """Whether nothing but slots of lists that are too short change hands, each of them once a minute at most."""
    written = [entry for entry in reversed(system.write_log.entries[-200:]) if entry.at >= since]
    size, headroom = system.initial_state.list_size
    # Beside waiting pods one more slot stays free, for the guard.
    full = sum(len(claim.entries) >= size - headroom - 1 for claim in system.safety.claims.values())
    of_ours = all(entry.actor.startswith("controller") for entry in written)
    return of_ours and len(written) <= 2 * full * size and system.initial_state.list_size != DEFAULT_LIST_SIZE


def unmet_expectation(system: "SimulatedSystem") -> str:
    """Return what is not as it should be in the end; empty if all is."""
    safety = system.safety
    for party in (system.autoscaler, system.queue):
        if party is not None and (text := party.unfinished_work):
            return text
    unfinished = [pod for pod in safety.pods.values() if not pod.terminal and not is_held(pod)]
    for pod in unfinished:
        if text := stuck_pod_reason(system, pod):
            return text
    for claim in safety.claims.values():
        users = [p for p in unfinished if p.metadata.namespace == claim.metadata.namespace]
        users = [p for p in users if claim.metadata.name in claim_names(p)]
        if text := claim_leftover(system, claim, users):
            return text
    return ""


def stuck_pod_reason(system: "SimulatedSystem", pod: Pod) -> str:  # noqa: PLR0911 - one reason after the other
    """Return why a pod does not get on, though it could."""
    meta = pod.metadata
    name = f"{meta.namespace}/{meta.name}"
    ready = pod.condition(POD_READY_TO_START_CONTAINERS)
    if meta.deleting:
        return f"pod {name} is being deleted for ever"
    if (pod.spec.node_name and ready is not None and ready.status == "True") or meta.uid in system.safety.declared_over:
        return ""
    if system.is_foreign_gated(pod) or system.names_absent_scheduler(pod):
        return ""
    if len(claim_names(pod)) < len(pod.spec.resource_claims or ()):
        return f"pod {name} has no claim of its own"
    found = suitable_nodes(system, pod)
    if found is None or not found[0]:
        return ""
    nodes_left, wanted = found
    if pod.spec.node_name:
        # A claim that was made anew after the binding nobody allocates: schedulers pass over pods that are bound. The
        # scheduler saw the claim before it (guarantees.md); `SystemSafetyChecker._check_binding` judges whether it
        # could rely on that one.
        admitted = not wanted and pod.spec.node_name in nodes_left
        return f"pod {name} is bound to {pod.spec.node_name} and not admitted" if admitted else ""
    gates = [gate.name for gate in pod.spec.scheduling_gates or ()]
    return f"pod {name} is behind {gates} for ever" if gates else f"pod {name} is not scheduled, and could be"


def claim_leftover(system: "SimulatedSystem", claim: ResourceClaim, users: list[Pod]) -> str:  # noqa: C901, PLR0911 - likewise
    """Return what is left on a claim for nobody."""
    meta, allocation = claim.metadata, claim.status.allocation
    name = f"{meta.namespace}/{meta.name}"
    if any(entry.api_group == FOREIGN for entry in claim.entries):
        return ""
    if claim.generated_for is not None and not any(pod.metadata.uid == claim.generated_for for pod in users):
        return f"claim {name} was made for a pod that needs it no more"
    if meta.deleting and not users:
        return f"claim {name} is being deleted for ever"
    if allocation is None:
        marks = [
            mark
            for mark in (workload_reservations.RESERVED_FOR_ANY_POD, workload_reservations.ENTERED_ALLOCATION)
            if meta.annotation(mark) is not None
        ]
        if marks:
            return f"claim {name} has no allocation, and still {marks}"
        if claim.protected and not users:
            return f"claim {name} has no allocation, and still its finalizer"
        return ""
    if users:
        guarded = any(e.resource == GUARD_RESOURCE for e in claim.entries)
        if guarded and not meta.deleting and not any(pod.spec.node_name for pod in users):
            return f"claim {name}: the guard guards nobody"
        return ""
    working = {
        uid for uid, finished in system.safety.jobs.items() if not (finished and system.initial_state.release_finished)
    }
    if any(e.uid in working for e in claim.entries):
        return ""
    record = system.safety.allocations[meta.uid]
    emptied_by_others = record.emptied_by and not record.emptied_by.startswith("controller")
    released = any(by == "owner" and uid in record.entered_marked for uid, by in record.unlisted.items())
    if emptied_by_others and not released:
        return ""  # allocated and unused is legal where nobody can tell what an empty list means
    return f"claim {name} stays allocated for nobody: {[str(e) for e in claim.entries]}"
