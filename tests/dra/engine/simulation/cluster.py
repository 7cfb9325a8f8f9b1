"""Everything together, and the moves that the machine makes of it."""

from typing import Final

import msgspec

from dra.engine.claims.policy import Policy
from dra.engine.instants import Instant
from dra.model import workloads
from dra.model.claims import ResourceClaim
from dra.model.meta import Struct
from dra.model.nodes import Node
from dra.model.pods import Pod
from dra.model.references import ConsumerReference
from tests.dra.engine.simulation import objects
from tests.dra.engine.simulation.audit import Audit
from tests.dra.engine.simulation.clock import Clock
from tests.dra.engine.simulation.conduct import Conduct
from tests.dra.engine.simulation.controller import Controller
from tests.dra.engine.simulation.history import ClaimHistory
from tests.dra.engine.simulation.kubelets import Kubelets
from tests.dra.engine.simulation.objects import Device, Job
from tests.dra.engine.simulation.requests import Fate, Invalid
from tests.dra.engine.simulation.scheduler import Scheduler
from tests.dra.engine.simulation.server import Actor, Server
from tests.dra.engine.simulation.validation import check_status_update

NODES: Final = ("n1", "n2", "n3")

ONE_DEVICE: Final = (Device(name="gpu-0", nodes=("n1", "n2")),)
"""One device that two of three nodes reach: claims compete for it, and pods may be stuck outside."""

TWO_DEVICES: Final = (Device(name="gpu-0", nodes=("n1", "n2")), Device(name="gpu-1", nodes=("n3",)))
"""A second one elsewhere: an allocation that is taken back can come out elsewhere."""


class Pace(Struct, frozen=True):
    """How the scheduler works: on claims as they were ``lag`` versions ago, and how far its binding cycles get."""

    lag: int = 0
    pick: int = 0
    requests: int = 99
    fails: bool = False


AT_ONCE: Final = Pace()


class Cluster:
    """A cluster of three nodes."""

    def __init__(self, *, devices: tuple[Device, ...], policy: Policy) -> None:
        self.clock = Clock()
        self.server = Server(self.clock)
        self.kubelets = Kubelets(self.server, self.clock)
        self.audit = Audit(self.server, self.kubelets)
        history = ClaimHistory(self.server, self.clock)
        self.scheduler = Scheduler(self.server, self.clock, history, devices=devices, on_bound=self.audit.bound)
        self.policy = policy
        self.controller = Controller(self.server, self.clock, policy, self.scheduler.places)
        self.conduct = Conduct(self.server, self.audit.tenures, lambda: self.controller.replica)
        for name in NODES:
            self.server.create(objects.node(name), by=Actor.USER)

    def advance(self, seconds: float) -> None:
        """Let time pass; binding cycles that it is too long for fail when their time is over."""
        until: Instant = self.clock.now + seconds
        while True:
            deadlines = [cycle.deadline for cycle in self.scheduler.cycles.values() if cycle.deadline <= until]
            self.clock.now = max(self.clock.now, min(deadlines, default=until))
            self.scheduler.expire()
            if not deadlines:
                return

    # Everybody at work:

    def controller_works(self, fate: Fate = Fate.DONE) -> None:
        """Deliver everything and decide whatever is due; the first request of each turn may fail."""
        replica = self.controller.replica
        replica.catch_up()
        for key in list(replica.turns):
            replica.finish(key)
        for key in replica.due():
            replica.begin(key)
            replica.finish(key, fate)

    def scheduler_works(self, pace: Pace = AT_ONCE) -> None:
        """Try every pod that waits. Binding cycles that are under way are left alone: one may be slow, others fast."""
        for pod in self.server.list(Pod):
            if self.scheduler.can_try(pod):
                self.scheduler.schedule(pod, lag=pace.lag, pick=pace.pick)
                cycle = self.scheduler.cycles.get(pod.metadata.uid)
                for _ in range(pace.requests):
                    if cycle is not None and cycle.running:
                        self.scheduler.step(cycle, Fate.DONE)
                if cycle is not None and pace.fails:
                    self.scheduler.finish(cycle, Fate.REFUSED)

    def kubelets_work(self) -> None:
        """Start, end and report what can be."""
        for pod in self.kubelets.mine():
            self.kubelets.sync(pod)

    # Users, owners of workloads, nodes:

    def release(self, claim: ResourceClaim) -> None:
        """The owners of workloads take their entries away, by uid, with whatever else is in the list."""

        def change(found: ResourceClaim) -> ResourceClaim:
            kept = [e for e in found.entries if e.api_group != objects.JOBS.group]
            status = msgspec.structs.replace(found.status, reserved_for=kept or None)
            return msgspec.structs.replace(found, status=status)

        meta = claim.metadata
        self.server.patch(ResourceClaim, meta.key, meta.uid, change, by=Actor.OWNER)

    def add_foreign_entry(self, claim: ResourceClaim) -> None:
        """Some other controller lists something that only it understands."""
        meta = claim.metadata
        foreign = ConsumerReference(api_group="other.example", resource="things", name="x", uid=f"{meta.uid}-x")

        def change(found: ResourceClaim) -> ResourceClaim:
            if found.status.allocation is None or foreign in found.entries:
                return found
            status = msgspec.structs.replace(found.status, reserved_for=[*found.entries, foreign])
            changed = msgspec.structs.replace(found, status=status)
            try:
                check_status_update(found, changed)
            except Invalid:
                return found
            return changed

        self.server.patch(ResourceClaim, meta.key, meta.uid, change, by=Actor.OWNER)

    def force(self, claim: ResourceClaim) -> None:
        """Somebody vouches that the claim is not used any more."""
        meta = claim.metadata
        mark = {**(meta.annotations or {}), workloads.FORCE_RELEASE: str(meta.uid)}

        def change(found: ResourceClaim) -> ResourceClaim:
            marked = msgspec.structs.replace(found.metadata, annotations=mark)
            return msgspec.structs.replace(found, metadata=marked)

        self.server.patch(ResourceClaim, meta.key, meta.uid, change, by=Actor.USER)

    def finish_job(self, job: Job) -> None:
        """The workload ends: Complete or Failed."""

        def change(found: Job) -> Job:
            return msgspec.structs.replace(found, finished=True)

        self.server.patch(Job, job.metadata.key, job.metadata.uid, change, by=Actor.OWNER)

    def let_go(self, pod: Pod) -> None:
        """Foreign gates and finalizers go: Kueue admits the pod, the Job controller has counted it."""

        def change(found: Pod) -> Pod:
            gates = [g for g in found.spec.scheduling_gates or () if g.name != objects.FOREIGN_GATE]
            spec = msgspec.structs.replace(found.spec, scheduling_gates=gates or None)
            meta = msgspec.structs.replace(found.metadata, finalizers=None)
            return msgspec.structs.replace(found, metadata=meta, spec=spec)

        self.server.patch(Pod, pod.metadata.key, pod.metadata.uid, change, by=Actor.USER)

    def kill(self, pod: Pod) -> None:
        """Delete a pod by force: the object goes at once, whatever its node does."""
        self.server.delete(Pod, pod.metadata.key, by=Actor.USER, force=True)
        if self.server.find(Pod, pod.metadata.key) is None:
            self.kubelets.forget(pod.metadata.uid)

    def cordon(self, node: Node, *, cordoned: bool) -> None:
        """Take a node out of scheduling, or put it back."""

        def change(found: Node) -> Node:
            return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, unschedulable=cordoned))

        self.server.patch(Node, node.metadata.key, node.metadata.uid, change, by=Actor.USER)
