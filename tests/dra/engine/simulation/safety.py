"""Safety: what must never be, whoever does what in which order. Looks at the server's truth, never at our view of it.

A bug of upstream is no finding. Where two actors share a step, the one whose write made it possible answers for it: a
scheduler may take back an allocation whose list is empty, and it is our doing if we emptied it under a running pod.
"""

from collections.abc import Callable
from typing import Final

from dra.engine.instants import Instant
from dra.model import workload_reservations
from dra.model.claims import ResourceClaim
from dra.model.meta import Uid
from dra.model.nodes import Node
from dra.model.pods import Pod, claim_names
from tests.dra.engine.simulation.allocation_lifetimes import AllocationLifetime, AllocationLifetimes
from tests.dra.engine.simulation.controller import ControllerReplica
from tests.dra.engine.simulation.kubelets import Kubelets, Sandbox
from tests.dra.engine.simulation.objects import Device, Reservation, devices_of
from tests.dra.engine.simulation.reservations import holding_reservations
from tests.dra.engine.simulation.scheduler import BindingCycle
from tests.dra.engine.simulation.server import Actor, Event, Server
from tests.dra.engine.simulation.setting import NODE_MONITOR_GRACE_PERIOD, TERMINATION_GRACE_PERIOD
from tests.dra.engine.simulation.violation import Violation

NOTED_WITHIN: Final = 120.0
"""Seconds within which a process that saw a pod vanish has noted that in the claim, watches that lag included."""


class SafetyChecker:
    """Follows every write."""

    def __init__(
        self,
        server: Server,
        kubelets: Kubelets,
        devices: tuple[Device, ...],
        *,
        process: Callable[[], ControllerReplica],
        beside_stock: bool,
    ) -> None:
        self._devices = {device.name: device for device in devices}
        self.lifetimes = AllocationLifetimes()
        self.relied_allocations: dict[Uid, tuple[AllocationLifetime, ...]] = {}
        """What the bound pods rely on: the allocations with which the scheduler bound them."""

        self._server = server
        self._kubelets = kubelets
        self._process = process
        self._beside_stock = beside_stock
        self._vanished: dict[Uid, Instant] = {}
        """Pods that were deleted while no list had an entry of theirs, and when."""

        self._unlisted_by_stock: dict[Uid, Instant] = {}
        """Pods whose entry the stock controller removed when their objects were gone, and when."""

        server.listeners.append(self._check_write)

    def pod_bound(self, cycle: BindingCycle) -> None:
        """The API server has bound a pod: the allocations that its cycle relied on must still be there."""
        pod = cycle.pod
        known = (self.lifetimes.get(claim) for claim in cycle.claims.values())
        self.relied_allocations[pod.metadata.uid] = relied = tuple(
            lifetime for lifetime in known if lifetime is not None
        )
        for lifetime in relied:
            if lifetime.breaks_promise(pod.metadata.uid):
                raise Violation(
                    f"pod {pod.metadata.name} was bound on an allocation of claim {lifetime.claim.metadata.name} that "
                    f"{lifetime.ended_by} had taken back; until then it could rely on its entry"
                )

    def _check_write(self, event: Event) -> None:
        known = event.after if event.after is not None else event.before
        if isinstance(known, Pod) and event.after is None:
            uid = known.metadata.uid
            if not any(entry.uid == uid for claim in self._server.list(ResourceClaim) for entry in claim.entries):
                self._vanished[uid] = event.at
        if not isinstance(known, ResourceClaim):
            return
        self.lifetimes.record(event)
        self._check_returned(event)
        if event.actor is Actor.STOCK and isinstance(event.before, ResourceClaim):
            present = {pod.metadata.uid for pod in self._server.list(Pod)}
            gone = (entry.uid for entry in event.before.entries if entry.is_pod and entry.uid not in present)
            self._unlisted_by_stock.update(dict.fromkeys(gone, event.at))
        before = event.before if isinstance(event.before, ResourceClaim) else None
        after = event.after if isinstance(event.after, ResourceClaim) else None
        if before is not None and before.status.allocation is not None:
            if after is None or after.status.allocation is None:
                self._check_deallocation(before, event.actor)
        elif after is not None and after.status.allocation is not None and event.actor is not Actor.BACKUP:
            self._check_allocation(after)  # a backup takes the place of all objects at once

    def _check_deallocation(self, claim: ResourceClaim, by: Actor) -> None:
        """No deallocation under a consuming pod."""
        lifetime = self.lifetimes.get(claim)
        assert lifetime is not None
        for pod in self._server.list(Pod):
            if not pod.spec.node_name or pod.terminal or claim.metadata.name not in claim_names(pod):
                continue
            if self._is_declared_over(claim, pod):
                self.relied_allocations.pop(pod.metadata.uid, None)
            elif lifetime.breaks_promise(pod.metadata.uid):
                raise Violation(
                    f"{by} deallocated claim {claim.metadata.name} under pod {pod.metadata.name}, which is bound to "
                    f"{pod.spec.node_name}"
                )
        self._check_held(claim, by, lifetime)
        self._forget_force_released(claim, lifetime)

    def _check_returned(self, event: Event) -> None:
        """No claim goes back to its Reservation while containers have its devices: the next pod would share them."""
        before, after = event.before, event.after
        if event.actor is not Actor.US or not isinstance(before, ResourceClaim) or not isinstance(after, ResourceClaim):
            return
        for uid, sandbox in self._kubelets.sandboxes.items() if before.controller and not after.controller else ():
            runs = (
                before.metadata.uid in sandbox.devices and not sandbox.ended and not self._is_unknowable(uid, sandbox)
            )
            if runs and not self._is_force_released(before, sandbox.node):
                raise Violation(f"claim {before.metadata.name} was given back, and pod {uid} still runs with it")

    def _check_held(self, claim: ResourceClaim, by: Actor, lifetime: AllocationLifetime) -> None:
        """What a Reservation holds that is available stays allocated, unless a person vouches that it may go."""
        entries = {entry.uid for entry in claim.entries if entry.is_reservation}
        entries |= {uid for uid, actor in lifetime.unlisted.items() if actor is Actor.US}
        entries |= holding_reservations(claim) if by is Actor.US else set()
        for found in self._server.list(Reservation):
            held = found.phase == "Available" and found.metadata.uid in entries
            forced = claim.metadata.annotation(workload_reservations.FORCE_RELEASE) == claim.metadata.uid
            if held and by is not Actor.BACKUP and not forced and not claim.metadata.deleting:
                raise Violation(f"{by} deallocated claim {claim.metadata.name}, which a Reservation holds")

    def _forget_force_released(self, claim: ResourceClaim, lifetime: AllocationLifetime) -> None:
        """A person vouches for pods whose objects are gone, too, on nodes that do not report in."""
        present = {pod.metadata.uid for pod in self._server.list(Pod)}
        for uid, sandbox in self._kubelets.sandboxes.items():
            if uid not in present and self._is_force_released(claim, sandbox.node):
                self.relied_allocations[uid] = tuple(
                    each for each in self.relied_allocations.get(uid, ()) if each is not lifetime
                )

    def _is_declared_over(self, claim: ResourceClaim, pod: Pod) -> bool:
        """Whether somebody has vouched that the pod is no more, and its kubelet does not say otherwise."""
        return self._is_force_released(claim, pod.spec.node_name)

    def _is_force_released(self, claim: ResourceClaim, name: str) -> bool:
        node = self._server.find(Node, ("", name))
        vouched = claim.metadata.annotation(workload_reservations.FORCE_RELEASE) == claim.metadata.uid
        return vouched and (node is None or not node.ready)

    def _is_unknowable(self, uid: Uid, sandbox: Sandbox) -> bool:
        """Whether our process cannot know of a pod that was deleted by force, and whose containers run on.

        Nobody can know the grace period of a pod that the process has never seen. Beside the stock controller a pod has
        no entry any more as soon as it is gone, and the claim goes with the last one: nobody can know of the pod at all
        if the process before had no time to note its node, unless the process was shown that entry ("against forced
        deletions that nobody sees", docs/explanation/guarantees.md). Elsewhere the guard tells of such pods, if not of
        their nodes.
        """
        process = self._process()
        if uid in process.pods.known:
            return False
        since = self._vanished.get(uid)
        if since is None and uid not in process.listed:
            since = self._unlisted_by_stock.get(uid)
        if (
            since is not None
            and process.started_at - since <= NOTED_WITHIN
            and (self._beside_stock or self._end_went_unheard(sandbox, since))
        ):
            return True
        return sandbox.kill_at is not None and self._server.now >= sandbox.kill_at - max(
            sandbox.grace - TERMINATION_GRACE_PERIOD, 0.0
        )

    def _end_went_unheard(self, sandbox: Sandbox, since: Instant) -> bool:
        """Whether a pod ran on one of several nodes of its devices, whose kubelet has not heard of its end in time."""
        several = any(len(self._devices[name].nodes) > 1 for names in sandbox.devices.values() for name in names)
        heard = sandbox.kill_at - sandbox.grace if sandbox.kill_at is not None else float("inf")
        return several and heard > since + NODE_MONITOR_GRACE_PERIOD

    def _check_allocation(self, claim: ResourceClaim) -> None:
        """No device twice: neither by two allocations, nor while containers have it through another."""
        meta, allocation = claim.metadata, claim.status.allocation
        assert allocation is not None
        holders: dict[str, set[tuple[Uid, str]]] = {}
        for other in self._server.list(ResourceClaim):
            if other.metadata.uid != meta.uid and other.status.allocation is not None:
                for name in devices_of(other.status.allocation):
                    holders.setdefault(name, set()).add((other.metadata.uid, f"claim {other.metadata.name}"))
        for uid, sandbox in self._kubelets.sandboxes.items():
            relied = () if self._is_unknowable(uid, sandbox) else self.relied_allocations.get(uid, ())
            if any(lifetime.breaks_promise(uid) for lifetime in relied):
                for owner, names in sandbox.devices.items():
                    for name in names if owner != meta.uid else ():
                        holders.setdefault(name, set()).add((owner, f"pod {uid}, which still runs"))
        for name in devices_of(allocation):
            device = self._devices[name]
            others = [
                h for each in self._devices.values() if each.parts & device.parts for h in holders.get(each.name, ())
            ]
            same = len({owner for owner, _ in holders.get(name, ())})
            if len({owner for owner, _ in others}) > same or same >= device.shares:
                raise Violation(
                    f"{name} is allocated to claim {meta.name} and held by {', '.join(t for _, t in others)}"
                )
