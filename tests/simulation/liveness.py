"""Liveness: what must hold once nothing more happens.

Faults are over, everybody works, nodes are back, time passes: then everything satisfiable runs, what nobody uses is
free, and nobody writes any more. Then all pods and all workloads end, and nothing of ours is left.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from dra.engine.claims.view import GUARD_RESOURCE
from dra.kube.resources import JOBS, PODS
from dra.model import nodes, workload_reservations
from dra.model.claims import ResourceClaim
from dra.model.pods import POD_READY_TO_START_CONTAINERS, Pod, claim_names
from tests.simulation.list_limits import DEFAULT_LIST_SIZE
from tests.simulation.safety import FOREIGN
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.simulated_cluster import SimulatedSystem

QUIET_SECONDS: Final = 60.0
"""Seconds without a write, leases and heartbeats apart."""

POLL_SECONDS: Final = 15.0
SETTLE_TIMEOUT: Final = 1500.0
"""Seconds within which everything must have come to rest: longer than the longest bind horizon and patience."""


async def check_liveness(world: "SimulatedSystem") -> None:
    """Let the world come to rest, twice, and look."""
    world.faults.set(())
    for process in world.processes.values():
        process.begin()
    await world.bring_nodes_back()
    world.note("all is well from now on")
    await wait_until_settled(world)
    world.note("all pods and workloads end")
    await world.take_foreign_entries_back()
    for stored in world.all(JOBS):
        await world.end_job(stored.key.namespace, stored.key.name, finished=False)
    await asyncio.sleep(POLL_SECONDS)
    for stored in world.all(PODS):
        await world.delete(PODS, stored.key.namespace, stored.key.name)
    await wait_until_settled(world)


async def wait_until_settled(world: "SimulatedSystem") -> None:
    """Wait until all is as it should be and nobody writes; raises Violation if that never comes."""
    began = world.clock.now()
    while True:
        await asyncio.sleep(POLL_SECONDS)
        now = world.clock.now()
        trouble = remaining_writes(world, now=now) or unmet_expectation(world)
        if not trouble:
            return
        if now - began > SETTLE_TIMEOUT:
            raise Violation(trouble)


def remaining_writes(world: "SimulatedSystem", *, now: float) -> str:
    """Return who still writes."""
    if now - world.chronicle.last >= QUIET_SECONDS or _only_rotates_slots(world, since=now - QUIET_SECONDS):
        return ""
    return f"no rest: {world.chronicle.entries[-1]}"


def _only_rotates_slots(world: "SimulatedSystem", *, since: float) -> bool:
    """Whether nothing but slots of lists that are too short change hands, each of them once a minute at most."""
    written = [entry for entry in reversed(world.chronicle.entries[-200:]) if entry.at >= since]
    full = sum(len(claim.entries) >= world.beginning.lists[0] - 2 for claim in world.audit.claims.values())
    of_ours = all(entry.actor.startswith("controller") for entry in written)
    return (
        of_ours and len(written) <= 2 * full * world.beginning.lists[0] and world.beginning.lists != DEFAULT_LIST_SIZE
    )


def unmet_expectation(world: "SimulatedSystem") -> str:
    """Return what is not as it should be in the end; empty if all is."""
    audit = world.audit
    unfinished = [pod for pod in audit.pods.values() if not pod.terminal]
    for pod in unfinished:
        if text := stuck_pod_reason(world, pod):
            return text
    for claim in audit.claims.values():
        users = [p for p in unfinished if p.metadata.namespace == claim.metadata.namespace]
        users = [p for p in users if claim.metadata.name in claim_names(p)]
        if text := claim_leftover(world, claim, users):
            return text
    return ""


def stuck_pod_reason(world: "SimulatedSystem", pod: Pod) -> str:  # noqa: PLR0911 - one reason after the other
    """Return why a pod does not get on, though it could."""
    audit, meta = world.audit, pod.metadata
    name = f"{meta.namespace}/{meta.name}"
    ready = pod.condition(POD_READY_TO_START_CONTAINERS)
    if meta.deleting:
        return f"pod {name} is being deleted for ever"
    if (pod.spec.node_name and ready is not None and ready.status == "True") or meta.uid in audit.given_up:
        return ""
    if world.is_foreign_gated(pod) or world.is_never_judged(pod):
        return ""
    taken = {r.device for t in audit.tenures.values() for r in t.allocation.devices.results or ()}
    here, wanted = set(world.beginning.nodes), 0
    if len(claim_names(pod)) < len(pod.spec.resource_claims or ()):
        return f"pod {name} has no claim of its own"
    for each in claim_names(pod):
        claim = audit.claims.get((meta.namespace, each))
        if claim is None or claim.metadata.deleting:
            return ""
        allocation = claim.status.allocation
        if allocation is None:
            wanted += 1
        else:
            here &= {
                n
                for n in here
                if nodes.matches_node_selector(allocation.node_selector, name=n, labels=_labels(world, n))
            }
    free = [reached for device, reached in world.beginning.devices if device not in taken]
    here &= {node for node in here if sum(node in reached for reached in free) >= wanted}
    if not here:
        return ""
    if pod.spec.node_name:
        # A claim that was made anew after the binding nobody allocates: schedulers pass over pods that are bound. The
        # scheduler saw the claim before it (guarantees.md); `Audit._bound` judges whether it could rely on that one.
        lets_in = not wanted and pod.spec.node_name in here
        return f"pod {name} is bound to {pod.spec.node_name} and not let in" if lets_in else ""
    gates = [gate.name for gate in pod.spec.scheduling_gates or ()]
    return f"pod {name} is behind {gates} for ever" if gates else f"pod {name} is not scheduled, and could be"


def claim_leftover(world: "SimulatedSystem", claim: ResourceClaim, users: list[Pod]) -> str:  # noqa: C901, PLR0911 - likewise
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
    working = {uid for uid, finished in world.audit.jobs.items() if not (finished and world.beginning.release_finished)}
    if any(e.uid in working for e in claim.entries):
        return ""
    tenure = world.audit.tenures[meta.uid]
    emptied_by_others = tenure.emptied_by and not tenure.emptied_by.startswith("controller")
    released = any(by == "owner" and uid in tenure.remembered for uid, by in tenure.unlisted.items())
    if emptied_by_others and not released:
        return ""  # allocated and unused is legal where nobody can tell what an empty list means
    return f"claim {name} stays allocated for nobody: {[str(e) for e in claim.entries]}"


def _labels(world: "SimulatedSystem", node: str) -> dict[str, str] | None:
    found = world.audit.nodes.get(node)
    return found.metadata.labels if found is not None else None
