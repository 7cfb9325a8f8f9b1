"""Everything together, and the moves that the machine makes of it."""

from typing import Final

import msgspec

from dra.engine.claims.policy import REPLACE, Policy
from dra.engine.instants import Instant
from dra.model import workload_reservations
from dra.model.autoscalers import DeletionSign
from dra.model.claims import AllocatedDeviceStatus, AllocationResult, Condition, ResourceClaim
from dra.model.meta import Struct, Uid
from dra.model.nodes import Node, Taint
from dra.model.pods import Pod
from dra.model.references import ConsumerReference
from tests.dra.engine.simulation import objects
from tests.dra.engine.simulation.claim_versions import ClaimVersions
from tests.dra.engine.simulation.controller import SimulatedController
from tests.dra.engine.simulation.kubelets import Kubelets
from tests.dra.engine.simulation.objects import ONE_DEVICE, TWO_DEVICES, Device, Job, PodShape
from tests.dra.engine.simulation.requests import Invalid, RequestOutcome
from tests.dra.engine.simulation.reservations import SimulatedExtender
from tests.dra.engine.simulation.safety import SafetyChecker
from tests.dra.engine.simulation.scheduler import BindingCycle, SimulatedScheduler
from tests.dra.engine.simulation.server import Actor, Clock, Server, check_status_update
from tests.dra.engine.simulation.setting import Setting
from tests.dra.engine.simulation.stock_controller import StockClaimController
from tests.dra.engine.simulation.write_checker import ControllerWriteChecker

NODE_NAMES: Final = ("n1", "n2", "n3")

SECOND_SCHEDULER: Final = "second"
"""``schedulerName`` of pods that the default scheduler leaves alone."""

__all__ = ["ONE_DEVICE", "TWO_DEVICES", "SchedulerPace", "SimulatedCluster"]


class SchedulerPace(Struct, frozen=True):
    """How the scheduler works: on claims as they were ``lag`` versions ago, and how far its binding cycles get."""

    lag: int = 0
    pick: int = 0
    requests: int = 99
    fails: bool = False
    permit: float = 0.0
    """Seconds for which a Permit plugin makes each pod wait."""


FULL_PACE: Final = SchedulerPace()


class SimulatedCluster:
    """A cluster of three nodes."""

    def __init__(
        self,
        *,
        devices: tuple[Device, ...] = ONE_DEVICE,
        policy: Policy = REPLACE,
        setting: Setting | None = None,
    ) -> None:
        self.setting = setting = setting or Setting(devices=devices, policy=policy)
        self.clock = Clock()
        self.server = Server(self.clock)
        self.kubelets = Kubelets(self.server, self.clock, setting.devices)
        self.safety = SafetyChecker(
            self.server,
            self.kubelets,
            setting.devices,
            process=lambda: self.controller.replica,
            beside_stock=setting.stock,
        )
        history = ClaimVersions(self.server, self.clock)
        in_flight: dict[Uid, AllocationResult] = {}
        names = ("", *[SECOND_SCHEDULER] * setting.second_scheduler)
        self.schedulers = tuple(
            SimulatedScheduler(
                self.server,
                self.clock,
                history,
                setting=setting,
                on_bound=self.safety.pod_bound,
                in_flight=in_flight,
                allowed=lambda seconds: self.controller.replica.bindings.allowed_seconds(seconds, now=self.clock.now),
                name=name,
            )
            for name in names
        )
        self.scheduler = self.schedulers[0]
        self.stock_controller = StockClaimController(self.server, history) if setting.stock else None
        self.policy = setting.policy
        self.controller = SimulatedController(self.server, self.clock, self.policy, self.find_placements)
        self.controller.set_lags(setting.lags)
        self.write_checker = ControllerWriteChecker(
            self.server, self.safety.lifetimes, lambda: self.controller.replica, policy=setting.policy
        )
        self.extender = SimulatedExtender(self.server)
        self.backup = self.server.backup()
        for name in NODE_NAMES:
            self.server.create(objects.node(name, setting.devices), by=Actor.USER)

    @property
    def cycles(self) -> list[BindingCycle]:
        """The binding cycles of all schedulers."""
        return [cycle for scheduler in self.schedulers for cycle in scheduler.cycles.values()]

    def schedulable(self) -> list[Pod]:
        """Return the pods that some scheduler would try."""
        return [pod for pod in self.server.list(Pod) if self.scheduler_of(pod) is not None]

    def scheduler_of(self, pod: Pod) -> SimulatedScheduler | None:
        """Return who would try a pod now, if anybody would."""
        return next((scheduler for scheduler in self.schedulers if scheduler.can_try(pod)), None)

    def find_placements(self, claim: ResourceClaim, pod: Pod) -> tuple[bool, bool]:
        """Return whether a pod could run where its claim is allocated, and whether elsewhere if it were not.

        Whoever asks does not know which schedulers run: the answer is the default one's for pods of any.
        """
        scheduler = next((each for each in self.schedulers if each.serves(pod)), self.scheduler)
        return scheduler.find_placements(claim, pod)

    def advance(self, seconds: float) -> None:
        """Let time pass; binding cycles that it is too long for fail when their time is over."""
        until: Instant = self.clock.now + seconds
        while True:
            deadlines = [cycle.deadline for cycle in self.cycles if cycle.deadline <= until]
            self.clock.now = max(self.clock.now, min(deadlines, default=until))
            for scheduler in self.schedulers:
                scheduler.expire()
            if not deadlines:
                self.kubelets.pass_time()
                return

    def restart_controller(self) -> None:
        """Our controller dies and comes back: what it had seen of slow schedulers, nobody knows any more."""
        self.controller.restart()
        for scheduler in self.schedulers:
            scheduler.limit_to_prompt()

    # Everybody at work:

    def controller_works(self, outcome: RequestOutcome = RequestOutcome.DONE) -> None:
        """Deliver everything and decide whatever is due; the first request of each sync and of each read may fail."""
        replica = self.controller.replica
        replica.catch_up()
        for key in list(replica.syncs):
            replica.finish(key)
        for key in replica.due():
            replica.begin(key)
            replica.finish(key, outcome)
        for key in list(replica.syncs):
            replica.finish(key, outcome)

    def scheduler_works(self, pace: SchedulerPace = FULL_PACE) -> None:
        """Try every pod that waits. Binding cycles that are under way are left alone: one may be slow, others fast."""
        for pod in self.schedulable():
            scheduler = self.scheduler_of(pod)
            if scheduler is None:
                continue
            scheduler.schedule(pod, lag=pace.lag, pick=pace.pick, permit=pace.permit)
            cycle = scheduler.cycles.get(pod.metadata.uid)
            for _ in range(pace.requests):
                if cycle is not None and cycle.running:
                    scheduler.step(cycle, RequestOutcome.DONE)
            if cycle is not None and pace.fails:
                scheduler.finish(cycle, RequestOutcome.REFUSED)

    def resume_cycles(self) -> None:
        """Let the binding cycles that wait for nothing any more make their requests."""
        for cycle in self.cycles:
            cycle.scheduler.finish(cycle)

    def stock_works(self) -> None:
        """The stock claim controller, if it is there, does what there is to do."""
        if self.stock_controller is not None:
            self.stock_controller.work()

    def drivers_work(self) -> None:
        """Drivers attach the devices that somebody waits to bind."""
        if self.setting.drivers:
            for claim in self.server.list(ResourceClaim):
                self.report_device(claim, objects.ATTACHED)

    def kubelets_work(self) -> None:
        """Start, end and report what can be."""
        for pod in self.kubelets.running_pods():
            self.kubelets.sync(pod)

    # Users, owners of workloads, nodes:

    def release_claim(self, claim: ResourceClaim) -> None:
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

    def force_release(self, claim: ResourceClaim) -> None:
        """Somebody vouches that the claim is not used any more."""
        meta = claim.metadata
        annotations = {**(meta.annotations or {}), workload_reservations.FORCE_RELEASE: str(meta.uid)}

        def change(found: ResourceClaim) -> ResourceClaim:
            marked = msgspec.structs.replace(found.metadata, annotations=annotations)
            return msgspec.structs.replace(found, metadata=marked)

        self.server.patch(ResourceClaim, meta.key, meta.uid, change, by=Actor.USER)

    def finish_job(self, job: Job) -> None:
        """The workload ends: Complete or Failed."""

        def change(found: Job) -> Job:
            return msgspec.structs.replace(found, finished=True)

        self.server.patch(Job, job.metadata.key, job.metadata.uid, change, by=Actor.OWNER)

    def suspend_job(self, job: Job, *, suspended: bool) -> None:
        """Suspend the workload, as Kueue does to evict a workload, or resume the workload."""

        def change(found: Job) -> Job:
            return msgspec.structs.replace(found, suspended=suspended, was_suspended=True)

        self.server.patch(Job, job.metadata.key, job.metadata.uid, change, by=Actor.OWNER)

    def remove_foreign_gates(self, pod: Pod) -> None:
        """Foreign gates and finalizers go: Kueue admits the pod, the Job controller has counted it."""

        def change(found: Pod) -> Pod:
            gates = [g for g in found.spec.scheduling_gates or () if g.name != objects.FOREIGN_GATE]
            spec = msgspec.structs.replace(found.spec, scheduling_gates=gates or None)
            meta = msgspec.structs.replace(found.metadata, finalizers=None)
            return msgspec.structs.replace(found, metadata=meta, spec=spec)

        self.server.patch(Pod, pod.metadata.key, pod.metadata.uid, change, by=Actor.USER)

    def force_delete_pod(self, pod: Pod) -> None:
        """Delete a pod by force: the object goes at once; what its containers do is the kubelet's business."""
        self.server.delete(Pod, pod.metadata.key, by=Actor.USER, force=True)
        if self.server.find(Pod, pod.metadata.key) is None:
            self.kubelets.removed(pod)
            self.kubelets.pass_time()

    def create_pod(self, name: str, shape: PodShape) -> None:
        """Somebody creates a pod, and whoever makes claims from templates makes its own, or finds one that is held."""
        pod = self.server.create(objects.pod(name, shape), by=Actor.USER)
        if shape.template and not self.extender.assign_claim(pod):
            made = objects.generated_claim(pod, reserved_for=shape.template_for)
            claim = self.server.create(made, by=Actor.USER).metadata.name
            meta = pod.metadata
            self.server.patch(Pod, meta.key, meta.uid, lambda found: objects.with_claim(found, claim), by=Actor.USER)

    def collect_claims(self) -> None:
        """The garbage collector: delete the claims whose owners are gone."""
        self.extender.collect()

    def collect_pods(self) -> None:
        """PodGC: delete the pods by force whose node is gone."""
        names = {node.metadata.name for node in self.server.list(Node)}
        for pod in self.server.list(Pod):
            if pod.spec.node_name and pod.spec.node_name not in names:
                self.remove_foreign_gates(pod)
                self.force_delete_pod(pod)

    def remove_node(self, node: Node) -> None:
        """A machine is given back: it is no more, and then its Node object goes."""
        self.kubelets.remove_machine(node.metadata.name)
        self.server.delete(Node, node.metadata.key, by=Actor.USER)

    def add_node(self) -> bool:
        """A machine of a name that is missing joins, in another boot."""
        for name in NODE_NAMES:
            if self.server.find(Node, ("", name)) is None:
                boot = self.kubelets.boots.get(name, 1)
                self.server.create(objects.node(name, self.setting.devices, boot=boot), by=Actor.KUBELET)
                return True
        return False

    def relabel(self, node: Node) -> bool:
        """Somebody takes the labels off a node by which devices are reached from it, or puts them back."""
        right = objects.node(node.metadata.name, self.setting.devices).metadata.labels
        if right is None:
            return False
        labels = None if node.metadata.labels else right

        def change(found: Node) -> Node:
            return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, labels=labels))

        self.server.patch(Node, node.metadata.key, node.metadata.uid, change, by=Actor.USER)
        return True

    def report_device(self, claim: ResourceClaim, condition: str) -> bool:
        """A driver reports a condition of a device that is bound on conditions."""
        results = claim.status.allocation.devices.results or () if claim.status.allocation is not None else ()
        conditional = [r for r in results if r.binding_conditions]
        if not conditional or claim.status.devices:
            return False
        conditions = [Condition(type=condition, status="True")]
        devices = [
            AllocatedDeviceStatus(driver=r.driver, pool=r.pool, device=r.device, conditions=conditions)
            for r in conditional
        ]

        def change(found: ResourceClaim) -> ResourceClaim:
            return msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, devices=devices))

        self.server.patch(ResourceClaim, claim.metadata.key, claim.metadata.uid, change, by=Actor.KUBELET)
        return True

    def nominate(self, pod: Pod) -> None:
        """Some other component than the scheduler expects a pod on a node, and says so for good."""

        def change(found: Pod) -> Pod:
            status = msgspec.structs.replace(found.status, nominated_node_name=NODE_NAMES[0])
            return msgspec.structs.replace(found, status=status)

        self.server.patch(Pod, pod.metadata.key, pod.metadata.uid, change, by=Actor.USER)

    def take_backup(self) -> None:
        """Somebody saves the state of the API server."""
        self.backup = self.server.backup()
        self.safety.lifetimes.save(self.server.list(ResourceClaim))

    def restore_backup(self) -> None:
        """Somebody restores it: every client lists anew, and controllers and schedulers are started anew."""
        self.server.restore(self.backup)
        self.controller.late_requests.clear()
        self.restart_controller()
        self.controller.late_requests.clear()
        for scheduler in self.schedulers:
            scheduler.restart()
        self.kubelets.api_server_restored()

    def condemn(self, node: Node, *, condemned: bool) -> None:
        """Give a node cluster autoscaler's soft taint, which no scheduler has to obey, or take it away."""
        taints = [Taint(key=DeletionSign.CANDIDATE.key, effect="PreferNoSchedule")] if condemned else None

        def change(found: Node) -> Node:
            return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, taints=taints))

        self.server.patch(Node, node.metadata.key, node.metadata.uid, change, by=Actor.OWNER)

    def cordon(self, node: Node, *, cordoned: bool) -> None:
        """Take a node out of scheduling, or put it back."""

        def change(found: Node) -> Node:
            return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, unschedulable=cordoned))

        self.server.patch(Node, node.metadata.key, node.metadata.uid, change, by=Actor.USER)
