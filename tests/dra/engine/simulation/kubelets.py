"""The kubelets and the DRA drivers beside them.

Read from pkg/kubelet/cm/dra/manager.go and pkg/kubelet/kuberuntime/kuberuntime_manager.go, 1.36.3:

* Devices are prepared only when a sandbox is created: the claim is read live, and the pod's uid must be in its list.
  Nothing looks whether the allocation admits the node; the driver there does not have the device.
* What is prepared is remembered by claim uid until the last pod of the claim on the node has ended: a claim that was
  deallocated in between is handed out **with its old devices**.
* A terminal phase is reported only after the devices have been unprepared.
"""

from dataclasses import dataclass, field

import msgspec

from dra.model import nodes, pods
from dra.model.claims import ResourceClaim
from dra.model.meta import Uid
from dra.model.nodes import Node
from dra.model.pods import Pod, PodCondition
from tests.dra.engine.simulation.clock import Clock
from tests.dra.engine.simulation.objects import devices_of, key, node_status, with_condition
from tests.dra.engine.simulation.server import Actor, Server


@dataclass
class Sandbox:
    """A pod on its node. ``devices`` is what its containers have, by claim uid."""

    node: str
    ready: bool = False
    changed: str = ""
    ended: bool = False
    devices: dict[Uid, frozenset[str]] = field(default_factory=dict)


class Kubelets:
    """All kubelets of the cluster."""

    def __init__(self, server: Server, clock: Clock) -> None:
        self.sandboxes: dict[Uid, Sandbox] = {}
        self.boots: dict[str, int] = {}
        self._server = server
        self._clock = clock

    def mine(self) -> list[Pod]:
        """Return the pods that some kubelet that is up works on."""
        return [pod for pod in self._server.list(Pod) if pod.spec.node_name and self._up(pod.spec.node_name)]

    def sync(self, pod: Pod) -> None:
        """Do for a pod what can be done now: end it, or start it; then report."""
        if pod.terminal:
            self.sandboxes.pop(pod.metadata.uid, None)
        elif pod.metadata.deleting:
            self.sandboxes.pop(pod.metadata.uid, None)
            self._report_end(pod)
            self._server.delete(Pod, pod.metadata.key, by=Actor.KUBELET, force=True)
        else:
            sandbox = self.sandboxes.setdefault(pod.metadata.uid, Sandbox(pod.spec.node_name))
            if not sandbox.ready and not sandbox.ended:
                self._create_sandbox(pod, sandbox)
            self.report(pod)

    def report(self, pod: Pod) -> None:
        """Write the status: what it is now, not what it was in between."""
        sandbox = self.sandboxes.get(pod.metadata.uid)
        if sandbox is None or pod.terminal:
            return
        if sandbox.ended:
            del self.sandboxes[pod.metadata.uid]
            self._report_end(pod)
            return
        status = "True" if sandbox.ready else "False"
        condition = PodCondition(type=pods.READY_TO_START, status=status, last_transition_time=sandbox.changed)
        conditions = with_condition(pod.status.conditions, condition)
        self._write(pod, conditions=conditions, phase="Running" if sandbox.ready else "Pending")

    def end(self, pod: Pod) -> None:
        """Let a pod end, started or not (an eviction, a deadline); it is reported with the next status."""
        if pod.spec.node_name and not pod.terminal:
            sandbox = self.sandboxes.setdefault(pod.metadata.uid, Sandbox(pod.spec.node_name))
            sandbox.ended, sandbox.ready, sandbox.devices = True, False, {}

    def lose_sandbox(self, pod: Pod) -> None:
        """The runtime loses a sandbox: the containers are killed, the devices stay prepared."""
        sandbox = self.sandboxes.get(pod.metadata.uid)
        if sandbox is not None and sandbox.ready:
            sandbox.ready, sandbox.changed = False, self._clock.stamp

    def forget(self, uid: Uid) -> None:
        """The pod has been deleted by force: its containers are killed before anybody else comes."""
        self.sandboxes.pop(uid, None)

    def boot(self, node: Node) -> None:
        """A node starts anew: all sandboxes are gone, while the API goes on saying that they are ready."""
        name = node.metadata.name
        self.boots[name] = self.boots.get(name, 1) + 1
        for sandbox in self.sandboxes.values():
            if sandbox.node == name:
                sandbox.ready, sandbox.changed = False, self._clock.stamp
        self.set_ready(node, ready=True)

    def set_ready(self, node: Node, *, ready: bool) -> None:
        """Report a node as ready, or let the node controller report that it is not."""
        status = node_status(ready=ready, boot=self.boots.get(node.metadata.name, 1))
        changed = msgspec.structs.replace(node, status=status)
        self._server.patch(Node, node.metadata.key, node.metadata.uid, lambda _: changed, by=Actor.KUBELET)

    def _up(self, name: str) -> bool:
        node = self._server.find(Node, ("", name))
        return node is not None and node.ready

    def _create_sandbox(self, pod: Pod, sandbox: Sandbox) -> None:
        granted = {}
        for name in pods.claim_names(pod):
            claim = self._server.find(ResourceClaim, key(name))
            if claim is None or claim.status.allocation is None:
                return
            if all(entry.uid != pod.metadata.uid for entry in claim.entries):
                return  # "pod … is not allowed to use ResourceClaim …"
            node = self._server.get(Node, ("", sandbox.node)).metadata
            if not nodes.matches(claim.status.allocation.node_selector, name=node.name, labels=node.labels):
                return  # NodePrepareResources fails
            uid = claim.metadata.uid
            granted[uid] = self._prepared(sandbox.node, uid) or devices_of(claim.status.allocation)
        sandbox.ready, sandbox.changed, sandbox.devices = True, self._clock.stamp, granted

    def _prepared(self, node: str, claim: Uid) -> frozenset[str]:
        held = (s.devices[claim] for s in self.sandboxes.values() if s.node == node and claim in s.devices)
        return next(held, frozenset())

    def _report_end(self, pod: Pod) -> None:
        self._write(pod, conditions=pod.status.conditions, phase="Succeeded")

    def _write(self, pod: Pod, *, conditions: list[PodCondition] | None, phase: str) -> None:
        def change(found: Pod) -> Pod:
            status = msgspec.structs.replace(found.status, conditions=conditions, phase=phase)
            return msgspec.structs.replace(found, status=status)

        self._server.patch(Pod, pod.metadata.key, pod.metadata.uid, change, by=Actor.KUBELET)
