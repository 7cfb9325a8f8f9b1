"""Schedulers, as far as claims go: one scheduling cycle at a time, any number of binding cycles beside it.

Read from pkg/scheduler (framework/plugins/dynamicresources/dynamicresources.go and schedule_one.go) of 1.36.3:

* PreFilter takes the claims from a cache that may lag behind the server; nothing is read again later, unless a write
  meets a conflict. A pod that is in the list of this snapshot is bound **without any write to the claim** (PreBind).
* Reserve keeps a new allocation in memory; PreBind writes finalizer and allocation, and adds the pod (``bindClaim``).
* PostFilter takes an allocation back whose list is empty or holds this pod alone.
* Unreserve removes the pod's entry, whatever else has become of the pod: a binding of which only the answer was lost
  leaves a bound pod without an entry.
* A Permit plugin may make a pod wait before PreBind, volumes and binding conditions make it wait in PreBind; since 1.35
  nominatedNodeName is written before such waits, and a failure of that write is only logged.
* Preemption ends pods of lower priority and nominates the pod that they make room for.
* A pod of a PodGroup that names the claim is entered by its group's entry (KEP-5729).

Left out: pods of a group that are scheduled all together, ``AssumedClaimRestore``, which is a known bug (k/k#140053),
and that an allocation of which only the answer was lost is forgotten before the watch brings it: so the scheduler alone
gives a device twice.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from dra.engine.instants import Instant
from dra.model import nodes, pods
from dra.model.claims import DELETE_PROTECTION, AllocationResult, ResourceClaim, ResourceClaimStatus
from dra.model.meta import Uid
from dra.model.nodes import Node
from dra.model.pods import Pod, PodCondition
from dra.model.references import ConsumerReference
from dra.model.templates import PodGroup
from tests.dra.engine.simulation.binding_observations import PROMPT_BINDING_SECONDS
from tests.dra.engine.simulation.claim_versions import ClaimVersions
from tests.dra.engine.simulation.objects import (
    ATTACHED,
    BROKEN,
    NODE_ANNOTATION,
    SCHEDULER_ANNOTATION,
    Device,
    allocation,
    devices_of,
    group_entry,
    has_device_condition,
    has_pod_entry,
    is_reserved_for,
    key,
    pod_entry,
    with_condition,
)
from tests.dra.engine.simulation.requests import (
    ApiError,
    Conflict,
    Invalid,
    RequestOutcome,
    RequestProcess,
    resume_process,
    send_request,
    start_process,
)
from tests.dra.engine.simulation.server import Actor, Clock, Event, Server
from tests.dra.engine.simulation.setting import DEVICE_BINDING_TIMEOUT, PLUGINS_TIMEOUT, VOLUME_BINDING_TIMEOUT, Setting

UNAVAILABLE: Final = "resourceclaim not available on the node"
"""What DynamicResources says of a node that an allocation excludes; other schedulers have other words."""

PODS_PER_NODE: Final = 3
"""Pods that a node has room for."""

_ATTEMPTS: Final = 5
"""``retry.DefaultRetry``."""


class BindingCycle:
    """A pod on its way to a node."""

    def __init__(self, scheduler: "SimulatedScheduler", pod: Pod, node: str, *, due: Instant, latest: Instant) -> None:
        self.scheduler = scheduler
        self.pod = pod
        self.node = node
        self.due = due
        """Until when it would bind or fail. Upstream has no such number: it is the setting's."""

        self.latest = latest
        """Until when a cycle may last of which anything is promised, whatever makes it wait."""

        self.permit = 0.0
        """Seconds for which a Permit plugin makes it wait."""

        self.volumes = 0.0
        """Seconds for which volumes may make it wait."""

        self.permit_until: Instant = 0.0
        """Until when a Permit plugin makes it wait."""

        self.nominated = False
        """Whether a nomination shows that such a plugin may make it wait: then the cycle has the time for that."""

        self.awaits_device: Callable[[], bool] = lambda: False
        """Whether it waits for the conditions of a device."""

        self.claims: dict[str, ResourceClaim] = {}
        """The claims of the pod as the cycle knows them: from PreFilter, or as PreBind has written them."""

        self.allocations: dict[str, AllocationResult] = {}
        """What Reserve has chosen for claims that had no allocation."""

        self.failing = False
        self.running = True
        self.process: RequestProcess[None]

    @property
    def deadline(self) -> Instant:
        """Until when it binds or fails."""
        return min(self.due, self.latest)


class SimulatedScheduler:
    """One scheduler process; ``restart`` kills it with everything it had under way."""

    def __init__(
        self,
        server: Server,
        clock: Clock,
        history: ClaimVersions,
        *,
        setting: Setting,
        on_bound: Callable[[BindingCycle], None],
        in_flight: dict[Uid, AllocationResult],
        allowed: Callable[[float], float],
        name: str = "",
    ) -> None:
        self.name = name
        self.cycles: dict[Uid, BindingCycle] = {}
        self._setting = setting
        self._allowed = allowed
        self._on_bound = on_bound
        self._server = server
        self._clock = clock
        self._history = history
        self._devices = {device.name: device for device in setting.devices}
        self._cache: dict[str, int] = {}
        self._in_flight = in_flight
        self._shares = 0
        server.listeners.append(self._end_waits_for_volumes)

    def restart(self) -> None:
        """Lose the memory: cycles, allocations in flight, and the cache, which is listed anew."""
        for cycle in self.cycles.values():
            for name in cycle.allocations:
                self._forget_allocation(cycle, name)  # not what another scheduler has chosen for the claim since
        self.cycles.clear()
        self._cache = {claim.metadata.name: self._history.newest(claim.metadata.name) for claim in self._claims()}

    def can_try(self, pod: Pod) -> bool:
        """Whether the pod would be taken from this scheduler's queue."""
        if not self.serves(pod):
            return False
        unbound = not pod.spec.node_name and not pod.terminal and not pod.metadata.deleting
        return unbound and not pod.spec.scheduling_gates and pod.metadata.uid not in self.cycles

    def serves(self, pod: Pod) -> bool:
        """Whether the pod names this scheduler."""
        return (pod.metadata.annotation(SCHEDULER_ANNOTATION) or "") == self.name

    def find_placements(self, claim: ResourceClaim, pod: Pod) -> tuple[bool, bool]:
        """Return whether a pod could run where its claim is allocated, and whether elsewhere if it were not."""
        seen = {name: self._server.find(ResourceClaim, key(name)) for name in pods.claim_names(pod)}
        claims = {n: c for n, c in seen.items() if c is not None and not c.metadata.deleting}
        if len(claims) < len(seen) or claim.status.allocation is None:
            return False, False
        allocated = [c.status.allocation for c in self._claims() if c.status.allocation is not None]
        free = self._remaining_shares(allocated)
        again = {**claims, claim.metadata.name: msgspec.structs.replace(claim, status=ResourceClaimStatus())}
        others = [c.status.allocation for c in self._claims() if c.metadata.uid != claim.metadata.uid]
        freed = self._remaining_shares([found for found in others if found is not None])
        passing = [n for n in self._server.list(Node) if self._passes_filters(pod, n) and self._free_pod_slots(n) > 0]
        here = any(
            self._can_use_claims(claims, n) and self._choose_devices(claims, free, n) is not None for n in passing
        )
        off = [n for n in passing if not self._can_use_claim(claim, n)]
        return here, any(
            self._can_use_claims(again, n) and self._choose_devices(again, freed, n) is not None for n in off
        )

    def schedule(self, pod: Pod, *, lag: int = 0, pick: int = 0, permit: float = 0.0) -> None:
        """Run the scheduling cycle; if a node is found, the binding cycle begins, up to its first request.

        ``lag`` is how many versions of its claims the cache may be behind, ``pick`` which of the fitting nodes wins,
        ``permit`` for how many seconds a plugin makes the pod wait.
        """
        seen = {name: self._read_cache(name, lag=lag) for name in pods.claim_names(pod)}
        claims = {name: claim for name, claim in seen.items() if claim is not None}
        if len(claims) < len(seen) or any(c.metadata.deleting for c in claims.values()):
            return  # PreEnqueue
        new = [c for c in claims.values() if c.status.allocation is None]
        if any(c.metadata.uid in self._in_flight for c in new):
            self._report(pod, "Unschedulable", "resource claim is in the process of being allocated")
            return
        free = self._free_devices()
        nodes_ = self._server.list(Node)
        suited = [node for node in nodes_ if self._passes_filters(pod, node)]
        passing = [node for node in suited if self._free_pod_slots(node) > 0]
        fitting = [
            n for n in passing if self._can_use_claims(claims, n) and self._choose_devices(claims, free, n) is not None
        ]
        if not fitting:
            self._post_filter(pod, claims, suited, passing)
            return
        node = fitting[pick % len(fitting)]
        within, since = self._binding_seconds, self._since(claims)
        due, latest = (
            since + within + self._plugin_wait_seconds(pod, claims),
            since + max(within, PROMPT_BINDING_SECONDS + PLUGINS_TIMEOUT),
        )
        cycle = BindingCycle(self, pod, node.metadata.name, due=due, latest=latest)
        cycle.permit = permit
        cycle.volumes = self._volume_wait_seconds(pod)
        cycle.claims = claims
        for name, device in (self._choose_devices(claims, free, node) or {}).items():
            self._shares += 1
            share = f"share-{self._shares}" if device.shares > 1 else None
            chosen = allocation(device, stamp="", share=share)
            cycle.allocations[name] = self._in_flight[claims[name].metadata.uid] = chosen
            if device.conditional:
                cycle.due += DEVICE_BINDING_TIMEOUT
        self.cycles[pod.metadata.uid] = cycle
        cycle.process = self._bind(cycle)
        start_process(cycle.process)

    @property
    def _binding_seconds(self) -> float:
        return self._allowed(self._setting.binding_seconds)

    def _since(self, claims: dict[str, ResourceClaim]) -> Instant:
        """Return until when the server had the claims as the cache shows them."""
        return min((self._history.current_until(n, self._cache[n]) for n in claims), default=self._clock.now)

    def _plugin_wait_seconds(self, pod: Pod, claims: dict[str, ResourceClaim]) -> float:
        """Return for how many seconds plugins may make a cycle wait besides."""
        within = self._volume_wait_seconds(pod)
        if any(self._conditional(claim) for claim in claims.values()):
            within += DEVICE_BINDING_TIMEOUT
        return within

    def _volume_wait_seconds(self, pod: Pod) -> float:
        return VOLUME_BINDING_TIMEOUT if any(v.persistent_volume_claim for v in pod.spec.volumes or ()) else 0.0

    def _end_waits_for_volumes(self, event: Event) -> None:
        """``checkBindings`` (volumebinding/binder.go) fails once the node is gone; no other wait looks for the node."""
        if not isinstance(event.before, Node) or event.after is not None:
            return
        for cycle in self.cycles.values():
            if cycle.node == event.before.metadata.name:
                cycle.due = min(cycle.due, max(cycle.due - cycle.volumes, self._clock.now + 1.0))
                cycle.volumes = 0.0

    def limit_to_prompt(self) -> None:
        """Bind no later than the slowest cycle that begins now: nobody knows any more that the client is slow."""
        for cycle in self.cycles.values():
            slow = self._setting.binding_seconds > PROMPT_BINDING_SECONDS
            until = (
                self._clock.now
                + PROMPT_BINDING_SECONDS
                + self._plugin_wait_seconds(cycle.pod, cycle.claims)
                + cycle.permit
            )
            if slow:
                cycle.due = min(cycle.due, until)
                cycle.latest = min(cycle.latest, self._clock.now + PROMPT_BINDING_SECONDS + PLUGINS_TIMEOUT)

    def is_waiting(self, cycle: BindingCycle) -> bool:
        """Whether a plugin makes the cycle wait now, or a device that is not attached yet."""
        return self._clock.now < min(cycle.permit_until, cycle.deadline) or (
            cycle.awaits_device() and self._clock.now < cycle.deadline
        )

    def step(self, cycle: BindingCycle, outcome: RequestOutcome) -> None:
        """Let a binding cycle make its next request."""
        if not self.is_waiting(cycle):
            cycle.running = resume_process(cycle.process, outcome)

    def finish(self, cycle: BindingCycle, outcome: RequestOutcome = RequestOutcome.DONE) -> None:
        """Let a binding cycle make all its requests; with another outcome than DONE, until it fails."""
        while cycle.running and not self.is_waiting(cycle):
            self.step(cycle, RequestOutcome.DONE if cycle.failing else outcome)

    def permit(self, cycle: BindingCycle) -> None:
        """Let the plugin have the pod go on: what is left of its time no cycle has for anything else."""
        if cycle.nominated:
            cycle.due -= max(cycle.permit_until - self._clock.now, 0.0)
        cycle.permit_until = self._clock.now

    def expire(self) -> None:
        """End the binding cycles whose time is over."""
        for cycle in [c for c in self.cycles.values() if c.deadline <= self._clock.now]:
            self.finish(cycle, RequestOutcome.REFUSED)

    # The scheduling cycle:

    def _read_cache(self, name: str, *, lag: int) -> ResourceClaim | None:
        """PreFilter: take a claim from the cache, which never goes back."""
        index = max(self._cache.get(name, 0), self._history.newest(name) - lag)
        while self._history.current_until(name, index) + self._binding_seconds <= self._clock.now:
            index += 1
        self._cache[name] = index
        return self._history.version(name, index)

    def _claims(self) -> list[ResourceClaim]:
        return self._server.list(ResourceClaim)

    def _free_devices(self) -> dict[str, int]:
        """GatherAllocatedState: how many shares are left of each device, by the claims in the cache and in flight.

        Two schedulers that allocate give a device twice between them; that is nobody's fault here, so both look live.
        """
        lag = 0 if self._setting.second_scheduler else len(self._server.log[ResourceClaim])
        cached = (self._read_cache(name, lag=lag) for name in self._history.names())
        allocated = [c.status.allocation for c in cached if c is not None and c.status.allocation is not None]
        return self._remaining_shares([*allocated, *self._in_flight.values()])

    def _remaining_shares(self, allocated: list[AllocationResult]) -> dict[str, int]:
        """Return how many shares are left of each device beside these allocations."""
        taken = [self._devices[name] for found in allocated for name in devices_of(found)]
        left = {}
        for device in self._devices.values():
            others = any(each.name != device.name and each.parts & device.parts for each in taken)
            left[device.name] = 0 if others else device.shares - taken.count(device)
        return left

    def _passes_filters(self, pod: Pod, node: Node) -> bool:
        """NodeUnschedulable, the taint of a node that is not ready, NodeAffinity."""
        wanted = pod.metadata.annotation(NODE_ANNOTATION)
        return node.ready and not node.spec.unschedulable and wanted in {None, node.metadata.name}

    def _free_pod_slots(self, node: Node) -> int:
        """NodeResourcesFit: for how many pods there is room."""
        name = node.metadata.name
        bound = sum(1 for pod in self._server.list(Pod) if pod.spec.node_name == name and not pod.terminal)
        return PODS_PER_NODE - bound - sum(1 for cycle in self.cycles.values() if cycle.node == name)

    def _can_use_claims(self, claims: dict[str, ResourceClaim], node: Node) -> bool:
        return all(self._can_use_claim(claim, node) for claim in claims.values())

    def _can_use_claim(self, claim: ResourceClaim, node: Node) -> bool:
        """Whether the claim's allocation can be used on the node; a claim without one can be anywhere."""
        found = claim.status.allocation
        meta = node.metadata
        if found is None:
            return True
        if self._broken(claim) or self._timed_out(claim):
            return False
        return nodes.matches_node_selector(found.node_selector, name=meta.name, labels=meta.labels)

    def _choose_devices(
        self, claims: dict[str, ResourceClaim], free: dict[str, int], node: Node
    ) -> dict[str, Device] | None:
        """Return a device on the node for each claim that needs one; None if there are too few."""
        left = dict(free)
        chosen: dict[str, Device] = {}
        wanted = [name for name, claim in claims.items() if claim.status.allocation is None]
        for name in wanted:
            for device in self._devices.values():
                overlaps = any(device.name != each.name and device.parts & each.parts for each in chosen.values())
                if left[device.name] > 0 and not overlaps and device.reached_from(node):
                    left[device.name] -= 1
                    chosen[name] = device
                    break
            else:
                return None
        return chosen

    def _post_filter(self, pod: Pod, claims: dict[str, ResourceClaim], suited: list[Node], passing: list[Node]) -> None:
        excluded = [claim for claim in claims.values() if any(not self._can_use_claim(claim, node) for node in passing)]
        for claim in excluded if not self.name else ():
            entries = claim.entries
            if not entries or (len(entries) == 1 and entries[0].uid == pod.metadata.uid):
                taken_back = msgspec.structs.replace(claim, status=ResourceClaimStatus())
                try:
                    self._server.update_status(taken_back, by=Actor.SCHEDULER)
                except ApiError:
                    self._report(pod, "SchedulerError", "conflict")
                    return
                break
        self._report(pod, "Unschedulable", self._text(claims, suited, passing), nominated=self._preempt(pod, claims))

    def _text(self, claims: dict[str, ResourceClaim], suited: list[Node], passing: list[Node]) -> str:
        """Say how many nodes lack what, in the words of the scheduler."""
        total = len(self._server.list(Node))
        if self.name:
            return f"0/{total} nodes are unavailable: {total} plugin predicates failed."
        off = sum(1 for node in passing if not self._can_use_claims(claims, node))
        counts = {
            "node(s) didn't match Pod's node affinity/selector": total - len(suited),
            "Insufficient pods": len(suited) - len(passing),
            UNAVAILABLE: off,
            "cannot allocate all claims": len(passing) - off,
        }
        return f"0/{total} nodes are available: " + ", ".join(f"{n} {text}" for text, n in counts.items() if n) + "."

    def _preempt(self, pod: Pod, claims: dict[str, ResourceClaim]) -> str:
        """DefaultPreemption: end a pod of lower priority where room is all that is missing; return its node."""
        free = self._free_devices()
        for node in self._server.list(Node):
            if (
                self._free_pod_slots(node) > 0
                or not self._passes_filters(pod, node)
                or not self._can_use_claims(claims, node)
            ):
                continue
            if self._choose_devices(claims, free, node) is None:
                continue
            for victim in self._server.list(Pod):
                there = victim.spec.node_name == node.metadata.name and not victim.terminal
                if there and not victim.metadata.deleting and victim.spec.priority < pod.spec.priority:
                    self._server.delete(Pod, victim.metadata.key, by=Actor.SCHEDULER)
                    return node.metadata.name
        return ""

    # Binding conditions:

    def _conditional(self, claim: ResourceClaim) -> bool:
        found = claim.status.allocation
        return found is not None and any(r.binding_conditions for r in found.devices.results or ())

    def _attached(self, claim: ResourceClaim) -> bool:
        return not self._conditional(claim) or has_device_condition(claim, ATTACHED)

    def _broken(self, claim: ResourceClaim) -> bool:
        return self._conditional(claim) and has_device_condition(claim, BROKEN)

    def _timed_out(self, claim: ResourceClaim) -> bool:
        """``isClaimTimeout``: counted from the allocation's timestamp."""
        found = claim.status.allocation
        if found is None or self._attached(claim):
            return False
        return self._clock.now > float((found.allocation_timestamp or "0").rstrip("s")) + DEVICE_BINDING_TIMEOUT

    # The binding cycle:

    def _bind(self, cycle: BindingCycle) -> RequestProcess[None]:
        pod = cycle.pod
        try:
            if self._setting.nominates:
                yield from _ignore_failure(send_request(partial(self._nominate, cycle)))
            cycle.permit_until = self._clock.now + cycle.permit  # WaitOnPermit
            for name, claim in cycle.claims.items():
                if not is_reserved_for(claim, pod):
                    cycle.claims[name] = yield from self._bind_claim(cycle, name, claim)
            for name, claim in cycle.claims.items():
                if self._conditional(claim):
                    yield from self._await_device(cycle, name)
            yield from send_request(partial(self._post_binding, cycle))
        except ApiError as error:
            cycle.failing = True
            yield from self._unreserve(cycle)
            self._report(pod, "SchedulerError", str(error))
        del self.cycles[pod.metadata.uid]

    def _await_device(self, cycle: BindingCycle, name: str) -> RequestProcess[None]:
        """``bindClaim``'s end: wait until the device is attached, reported as broken, or time is over."""
        cycle.awaits_device = lambda: not self._decided(name)
        claim = yield from send_request(partial(self._server.get, ResourceClaim, key(name)))
        cycle.awaits_device = lambda: False
        if self._broken(claim) or not self._attached(claim) or claim.status.allocation is None:
            raise Invalid(f"claim {name}: device is not attached")

    def _decided(self, name: str) -> bool:
        claim = self._server.find(ResourceClaim, key(name))
        return claim is None or claim.status.allocation is None or self._broken(claim) or self._attached(claim)

    def _bind_claim(self, cycle: BindingCycle, name: str, claim: ResourceClaim) -> RequestProcess[ResourceClaim]:
        chosen = cycle.allocations.get(name)
        for _ in range(_ATTEMPTS):
            try:
                if claim.metadata.deleting or (chosen is None) is (claim.status.allocation is None):
                    raise Invalid("the claim got deleted, allocated or deallocated in the meantime")
                if chosen is not None and not claim.protected:
                    guarded = [*(claim.metadata.finalizers or ()), DELETE_PROTECTION]
                    meta = msgspec.structs.replace(claim.metadata, finalizers=guarded)
                    claim = msgspec.structs.replace(claim, metadata=meta)
                    claim = yield from send_request(partial(self._server.update, claim, by=Actor.SCHEDULER))
                entries = [*claim.entries, self._entry(cycle.pod, name)]
                status = msgspec.structs.replace(claim.status, reserved_for=entries)
                if chosen is not None:
                    stamped = msgspec.structs.replace(chosen, allocation_timestamp=self._clock.stamp)
                    status = msgspec.structs.replace(status, allocation=stamped)
                claim = msgspec.structs.replace(claim, status=status)
                claim = yield from send_request(partial(self._server.update_status, claim, by=Actor.SCHEDULER))
            except Conflict:
                claim = yield from send_request(partial(self._server.get, ResourceClaim, key(name)))
            else:
                self._forget_allocation(cycle, name)
                self._cache[name] = self._history.newest(name)  # AssumeClaimAfterAPICall
                return claim
        raise Conflict(f"claim {name}: {_ATTEMPTS} conflicts")

    def _unreserve(self, cycle: BindingCycle) -> RequestProcess[None]:
        """Forget what was chosen for the claims, as upstream by the claim's uid, whichever cycle has chosen it.

        Three cases are not simulated (docs/explanation/guarantees.md describes them, "against kube-scheduler"): the
        stock controller, which frees a claim with the last pod of its list; a cycle whose pod was never listed, since
        no controller knows that the cycle has seen the claim; and a cycle whose pod was deleted meanwhile. That cycle
        cannot bind any more, so nobody waits for it.
        """
        for name, claim in cycle.claims.items():
            if name in cycle.allocations:
                self._cache[name] = self._history.newest(name)
            if self._setting.stock or not self._awaited(claim, cycle.pod):
                self._forget_allocation(cycle, name)
            else:
                self._in_flight.pop(claim.metadata.uid, None)
            if claim.status.allocation is not None and has_pod_entry(claim, cycle.pod):
                yield from _ignore_failure(send_request(partial(self._drop_entry, claim, cycle.pod)))

    def _awaited(self, claim: ResourceClaim, pod: Pod) -> bool:
        """Whether our controller waits for the pod's binding before it frees the claim."""
        found = self._server.find(Pod, pod.metadata.key)
        if found is None or found.metadata.uid != pod.metadata.uid:
            return False
        versions = (v for v in self._history.versions(claim.metadata.name) if v is not None)
        return any(v.metadata.uid == claim.metadata.uid and is_reserved_for(v, pod) for v in versions)

    def _entry(self, pod: Pod, claim: str) -> ConsumerReference:
        """The entry that lets a pod in: its PodGroup's, if that names the claim."""
        gang = pod.spec.scheduling_group
        group = self._server.find(PodGroup, key(gang.pod_group_name or "")) if gang is not None else None
        if group is None or all(c.resource_claim_name != claim for c in group.spec.resource_claims or ()):
            return pod_entry(pod)
        return group_entry(group)

    def _forget_allocation(self, cycle: BindingCycle, name: str) -> None:
        uid = cycle.claims[name].metadata.uid
        if name in cycle.allocations and self._in_flight.get(uid) is cycle.allocations[name]:
            del self._in_flight[uid]

    def _nominate(self, cycle: BindingCycle) -> None:
        """From now on everybody sees that a plugin may make the pod wait; what waits unseen has the client's time."""

        def change(found: Pod) -> Pod:
            return msgspec.structs.replace(
                found, status=msgspec.structs.replace(found.status, nominated_node_name=cycle.node)
            )

        self._server.patch(Pod, cycle.pod.metadata.key, cycle.pod.metadata.uid, change, by=Actor.SCHEDULER)
        cycle.due += cycle.permit
        cycle.nominated = True

    def _post_binding(self, cycle: BindingCycle) -> None:
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

    def _report(self, pod: Pod, reason: str, message: str, *, nominated: str = "") -> None:
        """``handleSchedulingFailure``: the condition and the nomination. A failure of it is only logged."""
        failed = PodCondition(type=pods.POD_SCHEDULED, status="False", reason=reason, message=message)

        def change(found: Pod) -> Pod:
            if found.spec.node_name:
                return found
            conditions = with_condition(found.status.conditions, failed)
            status = msgspec.structs.replace(found.status, conditions=conditions, nominated_node_name=nominated)
            return msgspec.structs.replace(found, status=status)

        try:
            self._server.patch(Pod, pod.metadata.key, pod.metadata.uid, change, by=Actor.SCHEDULER)
        except ApiError:
            return


def _ignore_failure(process: RequestProcess[None]) -> RequestProcess[None]:
    """Run a request whose failure is only logged."""
    try:
        yield from process
    except ApiError:
        return
