"""The kubelets and the DRA drivers beside them.

Read from pkg/kubelet/cm/dra/manager.go and pkg/kubelet/kuberuntime/kuberuntime_manager.go, 1.36.3:

* Devices are prepared only when a sandbox is created: the claim is read live, and the pod's uid must be in its list.
  Nothing looks whether the allocation admits the node; the driver there does not have the device.
* What is prepared is remembered by claim uid until the last pod of the claim on the node has ended: a claim that was
  deallocated in between is handed out **with its old devices**.
* A terminal phase is reported only after the devices have been unprepared.
* A pod that is deleted by force vanishes from the API at once. Its kubelet, if it is up, ends the containers within the
  pod's grace period (``HandlePodRemoves``, pod_workers.go: the spec's period where the object says 0); if it is not,
  they run until it is back or the machine starts anew.
* A kubelet that has fallen silent is called not ready `NOTICED` seconds later.
"""

from dataclasses import dataclass, field

import msgspec

from dra.engine.instants import Instant
from dra.engine.reservations import placeholders
from dra.model import pods
from dra.model.claims import ResourceClaim
from dra.model.meta import Uid
from dra.model.nodes import Node
from dra.model.pods import Pod, PodCondition
from tests.dra.engine.simulation.objects import Device, devices_of, grace_of, key, node_status, with_condition
from tests.dra.engine.simulation.server import Actor, Clock, Server
from tests.dra.engine.simulation.setting import NODE_MONITOR_GRACE_PERIOD


@dataclass
class Sandbox:
    """A pod on its node. ``devices`` is what its containers have, by claim uid."""

    node: str
    ready: bool = False
    changed: str = ""
    ended: bool = False
    grace: float = 0.0
    kill_at: Instant | None = None
    """Until when its containers run, if the pod's object is gone and the kubelet knows."""

    devices: dict[Uid, frozenset[str]] = field(default_factory=dict)


class Kubelets:
    """All kubelets of the cluster."""

    def __init__(self, server: Server, clock: Clock, devices: tuple[Device, ...]) -> None:
        self._devices = {device.name: device for device in devices}
        self.sandboxes: dict[Uid, Sandbox] = {}
        self.boots: dict[str, int] = {}
        self.silent: dict[str, Instant] = {}
        """Nodes whose kubelets do not report in, and since when; the API may still call such a node ready."""

        self._server = server
        self._clock = clock

    def running_pods(self) -> list[Pod]:
        """Return the pods that some kubelet that is up works on."""
        return [pod for pod in self._server.list(Pod) if pod.spec.node_name and self.up(pod.spec.node_name)]

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
        condition = PodCondition(
            type=pods.POD_READY_TO_START_CONTAINERS, status=status, last_transition_time=sandbox.changed
        )
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

    def removed(self, pod: Pod) -> None:
        """The pod has been deleted by force: its containers run on, for its grace period or for longer."""
        sandbox = self.sandboxes.get(pod.metadata.uid)
        if sandbox is None:
            return
        if not sandbox.devices or sandbox.ended:
            del self.sandboxes[pod.metadata.uid]
            return
        sandbox.grace = grace_of(pod)
        if self.up(sandbox.node):
            sandbox.kill_at = self._clock.now + sandbox.grace

    def pass_time(self) -> None:
        """End what is doomed, and what a kubelet that is back finds without an object."""
        present = {pod.metadata.uid for pod in self._server.list(Pod)}
        for uid, sandbox in list(self.sandboxes.items()):
            if uid in present or not self.up(sandbox.node):
                continue
            if sandbox.kill_at is None:
                sandbox.kill_at = self._clock.now + sandbox.grace
            if sandbox.kill_at <= self._clock.now:
                del self.sandboxes[uid]
        for name, since in list(self.silent.items()):
            node = self._server.find(Node, ("", name))
            if node is not None and node.ready and self._clock.now >= since + NODE_MONITOR_GRACE_PERIOD:
                self._report_node(node, ready=False)

    def fall_silent(self, name: str) -> None:
        """A kubelet, or its machine's network, stops to report in; the API learns that later."""
        self.silent.setdefault(name, self._clock.now)

    def api_server_restored(self) -> None:
        """The API server is as it was some time ago: whatever runs without an object is ended.

        So is what belongs to a pod that was not bound yet then: a kubelet is shown the pods of its node alone, and the
        pod may be bound to another node this time.
        """
        nodes = {pod.metadata.uid: pod.spec.node_name for pod in self._server.list(Pod)}
        for uid in [uid for uid, sandbox in self.sandboxes.items() if nodes.get(uid) != sandbox.node]:
            del self.sandboxes[uid]

    def remove_machine(self, name: str) -> None:
        """The machine of a node is no more, and with it all that ran there."""
        for uid in [uid for uid, sandbox in self.sandboxes.items() if sandbox.node == name]:
            del self.sandboxes[uid]
        self.silent.pop(name, None)
        self.boots[name] = self.boots.get(name, 1) + 1

    def boot(self, node: Node) -> None:
        """A node starts anew: all sandboxes are gone, while the API goes on saying that they are ready."""
        name = node.metadata.name
        self.boots[name] = self.boots.get(name, 1) + 1
        present = {pod.metadata.uid for pod in self._server.list(Pod)}
        for uid, sandbox in list(self.sandboxes.items()):
            if sandbox.node == name:
                sandbox.ready, sandbox.changed = False, self._clock.stamp
                if uid not in present:
                    del self.sandboxes[uid]
        self.set_ready(node, ready=True)

    def set_ready(self, node: Node, *, ready: bool) -> None:
        """Let a node report in again, or be called not ready, after `NOTICED` seconds of silence."""
        name = node.metadata.name
        if ready:
            self.silent.pop(name, None)
        else:
            self.silent.setdefault(name, self._clock.now - NODE_MONITOR_GRACE_PERIOD)
        self._report_node(node, ready=ready)
        self.pass_time()

    def _report_node(self, node: Node, *, ready: bool) -> None:
        status = node_status(ready=ready, boot=self.boots.get(node.metadata.name, 1))
        changed = msgspec.structs.replace(node, status=status)
        self._server.patch(Node, node.metadata.key, node.metadata.uid, lambda _: changed, by=Actor.KUBELET)

    def up(self, name: str) -> bool:
        """Whether the kubelet of a node works and reports in."""
        node = self._server.find(Node, ("", name))
        return node is not None and node.ready and name not in self.silent

    def _create_sandbox(self, pod: Pod, sandbox: Sandbox) -> None:
        granted = {}
        for name in pods.claim_names(pod):
            claim = self._server.find(ResourceClaim, key(name))
            if claim is None or claim.status.allocation is None:
                return
            if not self._lists(claim, pod):
                return  # "pod … is not allowed to use ResourceClaim …"
            devices = devices_of(claim.status.allocation)
            if any(sandbox.node not in self._devices[name].nodes for name in devices):
                return  # NodePrepareResources fails: the device is not there, whatever the node's labels say
            uid = claim.metadata.uid
            granted[uid] = self._prepared(sandbox.node, uid) or devices
        if pod.metadata.name.startswith(placeholders.NAME_PREFIX):
            granted = {}  # it only pauses
        sandbox.ready, sandbox.changed, sandbox.devices = True, self._clock.stamp, granted

    @staticmethod
    def _lists(claim: ResourceClaim, pod: Pod) -> bool:
        gang = pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group is not None else None
        return any(e.uid == pod.metadata.uid or (e.is_pod_group and e.name == gang) for e in claim.entries)

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
