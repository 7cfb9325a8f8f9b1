"""The scheduler, as far as claims go: one scheduling cycle at a time, any number of binding cycles beside it.

Read from pkg/scheduler (framework/plugins/dynamicresources/dynamicresources.go and schedule_one.go) of 1.36.3:

* PreFilter takes the claims from a cache that may lag behind the server; nothing is read again later, unless a write
  meets a conflict. A pod that is in the list of this snapshot is bound **without any write to the claim** (PreBind).
* Reserve keeps a new allocation in memory; PreBind writes finalizer and allocation, and adds the pod (``bindClaim``).
* PostFilter takes an allocation back whose list is empty or holds this pod alone.
* Unreserve removes the pod's entry, whatever else has become of the pod: a binding of which only the answer was lost
  leaves a bound pod without an entry.

Left out: pod groups, preemption, ``AssumedClaimRestore``, which is a known bug (k/k#140053), and that an allocation of
which only the answer was lost is forgotten before the watch brings it: so the scheduler alone gives a device twice.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from dra.engine.instants import BIND_HORIZON, SLOW_BIND_HORIZON, Instant
from dra.model import nodes, pods
from dra.model.claims import DELETE_PROTECTION, AllocationResult, ResourceClaim, ResourceClaimStatus
from dra.model.meta import Uid
from dra.model.nodes import Node
from dra.model.pods import Pod, PodCondition
from tests.dra.engine.simulation.clock import Clock
from tests.dra.engine.simulation.history import ClaimHistory
from tests.dra.engine.simulation.objects import Device, allocation, devices_of, entry_of, key, with_condition
from tests.dra.engine.simulation.requests import ApiError, Conflict, Fate, Invalid, Process, resume, send, start
from tests.dra.engine.simulation.server import Actor, Server

SLOTS: Final = 3
"""Pods that a node has room for."""

_ATTEMPTS: Final = 5
"""``retry.DefaultRetry``."""


class Cycle:
    """A pod on its way to a node."""

    def __init__(self, pod: Pod, node: str, *, deadline: Instant) -> None:
        self.pod = pod
        self.node = node
        self.deadline = deadline
        """Until when it may bind. Upstream has no such number: this is what the engine's bind horizon assumes."""

        self.claims: dict[str, ResourceClaim] = {}
        """The claims of the pod as the cycle knows them: from PreFilter, or as PreBind has written them."""

        self.allocations: dict[str, AllocationResult] = {}
        """What Reserve has chosen for claims that had no allocation."""

        self.failing = False
        self.running = True
        self.process: Process[None]


class Scheduler:
    """One scheduler process; ``restart`` kills it with everything it had under way."""

    def __init__(
        self,
        server: Server,
        clock: Clock,
        history: ClaimHistory,
        *,
        devices: tuple[Device, ...],
        on_bound: Callable[[Cycle], None],
    ) -> None:
        self.cycles: dict[Uid, Cycle] = {}
        self._on_bound = on_bound
        self._server = server
        self._clock = clock
        self._history = history
        self._devices = devices
        self._cache: dict[str, int] = {}
        self._in_flight: dict[Uid, AllocationResult] = {}

    def restart(self) -> None:
        """Lose the memory: cycles, allocations in flight, and the cache, which is listed anew."""
        self.cycles.clear()
        self._in_flight.clear()
        self._cache = {claim.metadata.name: self._history.newest(claim.metadata.name) for claim in self._claims()}

    def can_try(self, pod: Pod) -> bool:
        """Whether the pod would be taken from the queue."""
        unbound = not pod.spec.node_name and not pod.terminal and not pod.metadata.deleting
        return unbound and not pod.spec.scheduling_gates and pod.metadata.uid not in self.cycles

    def schedule(self, pod: Pod, *, lag: int = 0, pick: int = 0) -> None:
        """Run the scheduling cycle; if a node is found, the binding cycle begins, up to its first request.

        ``lag`` is how many versions of its claims the cache may be behind, ``pick`` which of the fitting nodes wins.
        """
        seen = {name: self._look(name, lag=lag) for name in pods.claim_names(pod)}
        claims = {name: claim for name, claim in seen.items() if claim is not None}
        if len(claims) < len(seen) or any(c.metadata.deleting for c in claims.values()):
            return  # PreEnqueue
        if any(c.status.allocation is None and c.metadata.uid in self._in_flight for c in claims.values()):
            self._report(pod, "Unschedulable", "resource claim is in the process of being allocated")
            return
        free = self._free_devices()
        passing = [node for node in self._server.list(Node) if self._has_room(node)]
        fitting = [node for node in passing if _reaches(claims, node) and _finds(claims, free, node)]
        if not fitting:
            self._post_filter(pod, claims, passing)
            return
        node = fitting[pick % len(fitting)].metadata.name
        horizon = SLOW_BIND_HORIZON if any(v.persistent_volume_claim for v in pod.spec.volumes or ()) else BIND_HORIZON
        since = min((self._history.current_until(n, self._cache[n]) for n in claims), default=self._clock.now)
        cycle = Cycle(pod, node, deadline=since + horizon)
        cycle.claims = claims
        for name, claim in claims.items():
            if claim.status.allocation is None:
                device = next(d for d in free if node in d.nodes)
                free.remove(device)
                cycle.allocations[name] = self._in_flight[claim.metadata.uid] = allocation(device, stamp="")
        self.cycles[pod.metadata.uid] = cycle
        cycle.process = self._bind(cycle)
        start(cycle.process)

    def places(self, claim: ResourceClaim, pod: Pod) -> tuple[bool, bool]:
        """Return whether a pod could run where its claim is allocated, and whether elsewhere if it were not."""
        seen = {name: self._server.find(ResourceClaim, key(name)) for name in pods.claim_names(pod)}
        others = {n: c for n, c in seen.items() if c is not None and n != claim.metadata.name}
        if len(others) + 1 < len(seen) or any(c.metadata.deleting for c in others.values()):
            return False, False
        allocated = [c.status.allocation for c in self._claims() if c.metadata.uid != claim.metadata.uid]
        taken = {name for found in allocated if found is not None for name in devices_of(found)}
        free = [device for device in self._devices if device.name not in taken]
        own = [device for device in free if device.name not in devices_of(claim.status.allocation)]
        again = {**others, claim.metadata.name: msgspec.structs.replace(claim, status=ResourceClaimStatus())}
        passing = [n for n in self._server.list(Node) if self._has_room(n) and _reaches(others, n)]
        here = any(_covers(claim, node) and _finds(others, own, node) for node in passing)
        return here, any(not _covers(claim, node) and _finds(again, free, node) for node in passing)

    def step(self, cycle: Cycle, fate: Fate) -> None:
        """Let a binding cycle make its next request."""
        cycle.running = resume(cycle.process, fate)

    def finish(self, cycle: Cycle, fate: Fate = Fate.DONE) -> None:
        """Let a binding cycle make all its requests; with another fate than DONE, until it fails."""
        while cycle.running:
            self.step(cycle, Fate.DONE if cycle.failing else fate)

    def expire(self) -> None:
        """End the binding cycles whose time is over."""
        for cycle in [c for c in self.cycles.values() if c.deadline <= self._clock.now]:
            self.finish(cycle, Fate.REFUSED)

    # The scheduling cycle:

    def _look(self, name: str, *, lag: int) -> ResourceClaim | None:
        """PreFilter: take a claim from the cache, which never goes back."""
        index = max(self._cache.get(name, 0), self._history.newest(name) - lag)
        while self._history.current_until(name, index) + BIND_HORIZON <= self._clock.now:
            index += 1
        self._cache[name] = index
        return self._history.version(name, index)

    def _claims(self) -> list[ResourceClaim]:
        return self._server.list(ResourceClaim)

    def _free_devices(self) -> list[Device]:
        """GatherAllocatedState: what no claim in the cache and no allocation in flight has."""
        cached = (self._look(name, lag=len(self._server.log[ResourceClaim])) for name in self._history.names())
        allocated = [c.status.allocation for c in cached if c is not None and c.status.allocation is not None]
        taken = {name for found in (*allocated, *self._in_flight.values()) for name in devices_of(found)}
        return [device for device in self._devices if device.name not in taken]

    def _has_room(self, node: Node) -> bool:
        """What comes before our plugin: NodeUnschedulable, the taint of a node that is not ready, NodeResourcesFit."""
        if not node.ready or node.spec.unschedulable:
            return False
        name = node.metadata.name
        bound = sum(1 for pod in self._server.list(Pod) if pod.spec.node_name == name and not pod.terminal)
        return bound + sum(1 for cycle in self.cycles.values() if cycle.node == name) < SLOTS

    def _post_filter(self, pod: Pod, claims: dict[str, ResourceClaim], passing: list[Node]) -> None:
        excluded = [claim for claim in claims.values() if any(not _covers(claim, node) for node in passing)]
        for claim in excluded:
            entries = claim.entries
            if not entries or (len(entries) == 1 and entries[0].uid == pod.metadata.uid):
                taken_back = msgspec.structs.replace(claim, status=ResourceClaimStatus())
                try:
                    self._server.update_status(taken_back, by=Actor.SCHEDULER)
                except ApiError:
                    self._report(pod, "SchedulerError", "conflict")
                    return
                break
        text = "resourceclaim not available on the node" if excluded else "Insufficient pods"
        self._report(pod, "Unschedulable", f"0/3 nodes are available: {text}.")

    # The binding cycle:

    def _bind(self, cycle: Cycle) -> Process[None]:
        pod = cycle.pod
        try:
            yield from _tried(send(partial(self._nominate, pod, cycle.node)))
            for name, claim in cycle.claims.items():
                if not _lists(claim, pod):
                    cycle.claims[name] = yield from self._bind_claim(cycle, name, claim)
            yield from send(partial(self._post_binding, cycle))
        except ApiError as error:
            cycle.failing = True
            yield from self._unreserve(cycle)
            self._report(pod, "SchedulerError", str(error))
        del self.cycles[pod.metadata.uid]

    def _bind_claim(self, cycle: Cycle, name: str, claim: ResourceClaim) -> Process[ResourceClaim]:
        chosen = cycle.allocations.get(name)
        for _ in range(_ATTEMPTS):
            try:
                if claim.metadata.deleting or (chosen is None) is (claim.status.allocation is None):
                    raise Invalid("the claim got deleted, allocated or deallocated in the meantime")
                if chosen is not None and not claim.protected:
                    guarded = [*(claim.metadata.finalizers or ()), DELETE_PROTECTION]
                    meta = msgspec.structs.replace(claim.metadata, finalizers=guarded)
                    claim = msgspec.structs.replace(claim, metadata=meta)
                    claim = yield from send(partial(self._server.update, claim, by=Actor.SCHEDULER))
                entries = [*claim.entries, entry_of(cycle.pod)]
                status = msgspec.structs.replace(claim.status, reserved_for=entries)
                if chosen is not None:
                    stamped = msgspec.structs.replace(chosen, allocation_timestamp=self._clock.stamp)
                    status = msgspec.structs.replace(status, allocation=stamped)
                claim = msgspec.structs.replace(claim, status=status)
                claim = yield from send(partial(self._server.update_status, claim, by=Actor.SCHEDULER))
            except Conflict:
                claim = yield from send(partial(self._server.get, ResourceClaim, key(name)))
            else:
                self._forget_allocation(cycle, name)
                self._cache[name] = self._history.newest(name)  # AssumeClaimAfterAPICall
                return claim
        raise Conflict(f"claim {name}: {_ATTEMPTS} conflicts")

    def _unreserve(self, cycle: Cycle) -> Process[None]:
        for name, claim in cycle.claims.items():
            if name in cycle.allocations:
                self._cache[name] = self._history.newest(name)
            self._forget_allocation(cycle, name)
            if claim.status.allocation is not None and _lists(claim, cycle.pod):
                yield from _tried(send(partial(self._drop_entry, claim, cycle.pod)))

    def _forget_allocation(self, cycle: Cycle, name: str) -> None:
        uid = cycle.claims[name].metadata.uid
        if name in cycle.allocations and self._in_flight.get(uid) is cycle.allocations[name]:
            del self._in_flight[uid]

    def _nominate(self, pod: Pod, node: str) -> None:
        def change(found: Pod) -> Pod:
            return msgspec.structs.replace(
                found, status=msgspec.structs.replace(found.status, nominated_node_name=node)
            )

        self._server.patch(Pod, pod.metadata.key, pod.metadata.uid, change, by=Actor.SCHEDULER)

    def _post_binding(self, cycle: Cycle) -> None:
        """``BindingREST.setPodNodeAndMetadata`` (pkg/registry/core/pod/storage/storage.go)."""

        def change(found: Pod) -> Pod:
            if found.metadata.deleting or found.spec.node_name or found.spec.scheduling_gates:
                raise Conflict(f"pod {found.metadata.name} cannot be bound")
            spec = msgspec.structs.replace(found.spec, node_name=cycle.node)
            status = msgspec.structs.replace(found.status, nominated_node_name="")
            return msgspec.structs.replace(found, spec=spec, status=status)

        self._server.patch(Pod, cycle.pod.metadata.key, cycle.pod.metadata.uid, change, by=Actor.SCHEDULER)
        self._on_bound(cycle)

    def _drop_entry(self, claim: ResourceClaim, pod: Pod) -> None:
        """A strategic merge patch ``{"$patch": "delete", "uid": …}``: it needs no resourceVersion."""

        def change(found: ResourceClaim) -> ResourceClaim:
            kept = [e for e in found.entries if e.uid != pod.metadata.uid]
            return msgspec.structs.replace(
                found, status=msgspec.structs.replace(found.status, reserved_for=kept or None)
            )

        key, uid = claim.metadata.key, claim.metadata.uid
        self._server.patch(ResourceClaim, key, uid, change, by=Actor.SCHEDULER)

    def _report(self, pod: Pod, reason: str, message: str) -> None:
        """``handleSchedulingFailure``: the condition, and the nomination is cleared. A failure of it is only logged."""
        failed = PodCondition(type=pods.SCHEDULED, status="False", reason=reason, message=message)

        def change(found: Pod) -> Pod:
            if found.spec.node_name:
                return found
            conditions = with_condition(found.status.conditions, failed)
            status = msgspec.structs.replace(found.status, conditions=conditions, nominated_node_name="")
            return msgspec.structs.replace(found, status=status)

        try:
            self._server.patch(Pod, pod.metadata.key, pod.metadata.uid, change, by=Actor.SCHEDULER)
        except ApiError:
            return


def _tried(process: Process[None]) -> Process[None]:
    """Run a request whose failure is only logged."""
    try:
        yield from process
    except ApiError:
        return


def _lists(claim: ResourceClaim, pod: Pod) -> bool:
    """``resourceclaim.IsReservedForPod``: by uid, nothing else."""
    return any(entry.uid == pod.metadata.uid for entry in claim.entries)


def _covers(claim: ResourceClaim, node: Node) -> bool:
    """Whether the claim's allocation admits the node; a claim without one admits all."""
    found = claim.status.allocation
    meta = node.metadata
    return found is None or nodes.matches(found.node_selector, name=meta.name, labels=meta.labels)


def _reaches(claims: dict[str, ResourceClaim], node: Node) -> bool:
    return all(_covers(claim, node) for claim in claims.values())


def _finds(claims: dict[str, ResourceClaim], free: list[Device], node: Node) -> bool:
    wanted = sum(1 for claim in claims.values() if claim.status.allocation is None)
    return wanted <= sum(1 for device in free if node.metadata.name in device.nodes)
