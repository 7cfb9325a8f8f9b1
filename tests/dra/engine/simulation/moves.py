"""The moves of the machine as values: a failing run prints as a list of them, and a known history is one.

Small moves (one event delivered, one request made) reach every interleaving; big ones (everybody works) get to the
interesting places soon. ``which`` counts round and round through what is there; a move that is impossible does nothing.
"""

from collections.abc import Sequence
from typing import Final, Literal, TypeVar

from dra.model.claims import ResourceClaim
from dra.model.meta import Struct, Uid
from dra.model.nodes import Node
from dra.model.pods import Pod
from dra.model.templates import PodGroup
from tests.dra.engine.simulation import objects, reservations
from tests.dra.engine.simulation.cluster import FULL_PACE, SchedulerPace, SimulatedCluster
from tests.dra.engine.simulation.objects import Job, PodShape, Reservation
from tests.dra.engine.simulation.requests import RequestOutcome
from tests.dra.engine.simulation.server import Actor

T = TypeVar("T")

POD_NAMES = tuple(f"p{number}" for number in range(12))
"""Few names, so that they come back with other uids."""

POD_GROUP: Final = "gang"
"""The only PodGroup."""


class Move(Struct, frozen=True):
    """Something that may happen."""

    @property
    def kind(self) -> str:
        """What campaigns count: the move, and which of its variants."""
        variant = getattr(self, "how", getattr(self, "what", ""))
        return f"{type(self).__name__} {variant}".rstrip()

    def apply(self, cluster: SimulatedCluster) -> bool:
        """Let it happen; return whether it was possible."""
        raise NotImplementedError


# Everybody at work:


class EverybodyWorks(Move, frozen=True):
    """Everybody does what there is to do, after so many seconds."""

    pace: SchedulerPace = FULL_PACE
    seconds: float = 1.0

    def apply(self, cluster: SimulatedCluster) -> bool:
        cluster.advance(self.seconds)
        cluster.controller_works()
        cluster.scheduler_works(self.pace)
        cluster.kubelets_work()
        return True


class ControllerWorks(Move, frozen=True):
    """After so many seconds our controller has heard everything and decides what is due.

    The first request of each sync has this outcome.
    """

    outcome: RequestOutcome = RequestOutcome.DONE
    seconds: float = 0.0

    def apply(self, cluster: SimulatedCluster) -> bool:
        cluster.advance(self.seconds)
        cluster.controller_works(self.outcome)
        return True


class SchedulerWorks(Move, frozen=True):
    """The scheduler tries whatever waits."""

    pace: SchedulerPace = FULL_PACE

    def apply(self, cluster: SimulatedCluster) -> bool:
        cluster.scheduler_works(self.pace)
        return True


class StockControllerWorks(Move, frozen=True):
    """The stock claim controller looks at everything, with an informer that is ``lag`` versions behind."""

    lag: int = 0

    def apply(self, cluster: SimulatedCluster) -> bool:
        return cluster.stock_controller is not None and cluster.stock_controller.work(lag=self.lag)


class KubeletsWork(Move, frozen=True):
    """The kubelets start, end and report their pods."""

    def apply(self, cluster: SimulatedCluster) -> bool:
        cluster.kubelets_work()
        return True


class TimePasses(Move, frozen=True):
    """Nothing happens for so many seconds, but that binding cycles run out of time."""

    seconds: float

    def apply(self, cluster: SimulatedCluster) -> bool:
        cluster.advance(self.seconds)
        return True


# Users, and owners of workloads:


class CreatePods(Move, frozen=True):
    """Some pods of one shape, under the first names that are free."""

    shape: PodShape
    count: int = 1

    def apply(self, cluster: SimulatedCluster) -> bool:
        free = [name for name in POD_NAMES if cluster.server.find(Pod, objects.key(name)) is None]
        for name in free[: self.count]:
            cluster.create_pod(name, self.shape)
        return bool(free)


PodChange = Literal["ended", "deleted", "killed", "ungated", "nominated"]


class ChangePod(Move, frozen=True):
    """A pod ends, is deleted, is deleted by force, or loses its foreign gates and finalizers."""

    how: PodChange
    which: int = 0

    def apply(self, cluster: SimulatedCluster) -> bool:
        pod = _pick([pod for pod in cluster.server.list(Pod) if _applies(pod, self.how)], self.which)
        if pod is not None:
            _change_pod(cluster, pod, self.how)
        return pod is not None


class ChangePods(Move, frozen=True):
    """The same for all pods, or all but one."""

    how: PodChange
    but: int = 11

    def apply(self, cluster: SimulatedCluster) -> bool:
        found = [pod for number, pod in enumerate(cluster.server.list(Pod)) if number != self.but]
        found = [pod for pod in found if _applies(pod, self.how)]
        for pod in found:
            _change_pod(cluster, pod, self.how)
        return bool(found)


class CreateClaim(Move, frozen=True):
    """A claim, perhaps reserved for a workload, whose uid its creator may know."""

    name: str
    reserved_for: str = ""
    known: bool = False
    pre_list: bool = False

    def apply(self, cluster: SimulatedCluster) -> bool:
        if cluster.server.find(ResourceClaim, objects.key(self.name)) is not None:
            return False
        job = cluster.server.find(Job, objects.key(self.reserved_for)) if self.known else None
        uid = job.metadata.uid if job is not None else Uid("")
        claim = objects.claim(self.name, reserved_for=self.reserved_for, uid=uid, pre_list=self.pre_list)
        cluster.server.create(claim, by=Actor.USER)
        return True


class ChangeClaim(Move, frozen=True):
    """A claim is deleted, released by the owner of its workload or by force, or listed for something foreign."""

    name: str
    how: Literal["deleted", "released", "shared", "forced"]

    def apply(self, cluster: SimulatedCluster) -> bool:
        claim = cluster.server.find(ResourceClaim, objects.key(self.name))
        if claim is None:
            return False
        before = cluster.server.version
        match self.how:
            case "deleted":
                cluster.server.delete(ResourceClaim, claim.metadata.key, by=Actor.USER)
            case "released":
                cluster.release_claim(claim)
            case "shared":
                cluster.add_foreign_entry(claim)
            case "forced":
                cluster.force_release(claim)
        return cluster.server.version != before


class ChangeJob(Move, frozen=True):
    """A workload comes, ends, goes, is replaced by another of the same name, or is suspended for a while."""

    name: str
    how: Literal["created", "finished", "deleted", "replaced", "suspended", "resumed"]

    def apply(self, cluster: SimulatedCluster) -> bool:
        key = objects.key(self.name)
        job = cluster.server.find(Job, key)
        if (job is None) is not (self.how == "created"):
            return False
        if job is not None and self.how == "finished":
            cluster.finish_job(job)
        if job is not None and self.how in {"suspended", "resumed"}:
            if job.suspended is (self.how == "suspended"):
                return False
            cluster.suspend_job(job, suspended=not job.suspended)
        if job is not None and self.how in {"deleted", "replaced"}:
            cluster.server.delete(Job, key, by=Actor.OWNER)
        if self.how in {"created", "replaced"}:
            cluster.server.create(objects.job(self.name), by=Actor.OWNER)
        return True


class ChangePodGroup(Move, frozen=True):
    """A PodGroup whose pods share a claim comes or goes."""

    how: Literal["created", "deleted"]
    claim: str = "a"

    def apply(self, cluster: SimulatedCluster) -> bool:
        there = cluster.server.find(PodGroup, objects.key(POD_GROUP)) is not None
        if there is (self.how == "created"):
            return False
        if self.how == "created":
            cluster.server.create(objects.pod_group(POD_GROUP, (self.claim,)), by=Actor.OWNER)
        else:
            cluster.server.delete(PodGroup, objects.key(POD_GROUP), by=Actor.OWNER)
        return True


class ChangeReservation(Move, frozen=True):
    """A Reservation comes, ends, or goes; or it gets the place of its placeholder, which is deleted after that."""

    how: Literal["created", "placed", "ended", "deleted"]

    def apply(self, cluster: SimulatedCluster) -> bool:
        found = cluster.extender.find()
        if (found is None) is not (self.how == "created"):
            return False
        before = cluster.server.version
        match self.how:
            case "created":
                cluster.extender.create()
            case "placed":
                cluster.extender.work()
            case "ended":
                cluster.extender.end()
            case "deleted":
                cluster.server.delete(Reservation, objects.key(reservations.RESERVATION_NAME), by=Actor.USER)
        return cluster.server.version != before


class Backup(Move, frozen=True):
    """The state of the API server is saved, or restored from what was saved last."""

    how: Literal["taken", "restored"]

    def apply(self, cluster: SimulatedCluster) -> bool:
        if self.how == "taken":
            cluster.take_backup()
        else:
            cluster.restore_backup()
        return True


# Nodes and kubelets:


class ChangeNode(Move, frozen=True):
    """What becomes of a node. To start anew takes longer than the second that timestamps can tell apart.

    A node that is silent is called not ready later; one that is lost has been silent for long enough.
    """

    how: Literal["cordoned", "uncordoned", "silent", "lost", "back", "booted", "relabelled", "removed", "added"]
    which: int = 0

    def apply(self, cluster: SimulatedCluster) -> bool:
        if self.how == "booted":
            cluster.advance(5.0)
        if self.how == "added":
            return cluster.add_node()
        node = _pick(cluster.server.list(Node), self.which)
        if node is None:
            return False
        match self.how:
            case "cordoned" | "uncordoned":
                cluster.cordon(node, cordoned=self.how == "cordoned")
            case "silent":
                cluster.kubelets.fall_silent(node.metadata.name)
            case "lost" | "back":
                cluster.kubelets.set_ready(node, ready=self.how == "back")
            case "booted":
                cluster.kubelets.boot(node)
            case "relabelled":
                return cluster.relabel(node)
            case "removed":
                cluster.remove_node(node)
        return True


class ScaleDown(Move, frozen=True):
    """Cluster autoscaler makes a node a candidate for deletion, or changes its mind."""

    how: Literal["condemned", "spared"]
    which: int = 0

    def apply(self, cluster: SimulatedCluster) -> bool:
        node = _pick(cluster.server.list(Node), self.which)
        if node is not None:
            cluster.condemn(node, condemned=self.how == "condemned")
        return node is not None


class CollectPods(Move, frozen=True):
    """PodGC deletes the pods of nodes that are gone."""

    def apply(self, cluster: SimulatedCluster) -> bool:
        before = cluster.server.version
        cluster.collect_pods()
        return cluster.server.version != before


class ChangeSandbox(Move, frozen=True):
    """A kubelet looks at one pod, or its containers end, or its sandbox is lost; the latter are not reported yet."""

    how: Literal["synced", "ended", "lost"]
    which: int = 0

    def apply(self, cluster: SimulatedCluster) -> bool:
        pod = _pick(cluster.kubelets.running_pods(), self.which)
        if pod is None:
            return False
        match self.how:
            case "synced":
                cluster.kubelets.sync(pod)
            case "ended":
                cluster.kubelets.end(pod)
            case "lost":
                cluster.kubelets.lose_sandbox(pod)
        return True


class ReportDevice(Move, frozen=True):
    """A driver reports that a device can be bound, or that it cannot."""

    how: Literal["attached", "broken"]
    which: int = 0

    def apply(self, cluster: SimulatedCluster) -> bool:
        claim = _pick([c for c in cluster.server.list(ResourceClaim) if c.status.allocation is not None], self.which)
        condition = objects.ATTACHED if self.how == "attached" else objects.BROKEN
        return claim is not None and cluster.report_device(claim, condition)


class CollectClaims(Move, frozen=True):
    """The garbage collector deletes the claims that were made for pods which are gone."""

    def apply(self, cluster: SimulatedCluster) -> bool:
        before = cluster.server.version
        cluster.collect_claims()
        return cluster.server.version != before


# Schedulers, request by request:


class Schedule(Move, frozen=True):
    """One scheduling cycle, on claims as they were ``lag`` versions ago; its binding cycle begins."""

    which: int = 0
    lag: int = 0
    pick: int = 0
    permit: float = 0.0

    def apply(self, cluster: SimulatedCluster) -> bool:
        pod = _pick(cluster.schedulable(), self.which)
        scheduler = cluster.scheduler_of(pod) if pod is not None else None
        if pod is None or scheduler is None:
            return False
        scheduler.schedule(pod, lag=self.lag, pick=self.pick, permit=self.permit)
        return True


class StepCycle(Move, frozen=True):
    """A binding cycle makes its next request; if there is none, one begins."""

    which: int = 0
    outcome: RequestOutcome = RequestOutcome.DONE

    def apply(self, cluster: SimulatedCluster) -> bool:
        cycle = _pick(cluster.cycles, self.which)
        if cycle is None:
            return Schedule(which=self.which).apply(cluster)
        cycle.scheduler.step(cycle, self.outcome)
        return True


class FinishCycle(Move, frozen=True):
    """A binding cycle succeeds; if there is none, one begins."""

    which: int = 0

    def apply(self, cluster: SimulatedCluster) -> bool:
        cycle = _pick(cluster.cycles, self.which)
        if cycle is None:
            return Schedule(which=self.which).apply(cluster)
        cycle.scheduler.finish(cycle)
        return True


class RetryCycle(Move, frozen=True):
    """A binding cycle fails, and the pod is tried again, on claims as they were ``lag`` versions ago."""

    which: int = 0
    lag: int = 0

    def apply(self, cluster: SimulatedCluster) -> bool:
        cycle = _pick(cluster.cycles, self.which)
        if cycle is None:
            return Schedule(which=self.which).apply(cluster)
        cycle.scheduler.finish(cycle, RequestOutcome.REFUSED)
        pod = cluster.server.find(Pod, cycle.pod.metadata.key)
        if pod is not None and cycle.scheduler.can_try(pod):
            cycle.scheduler.schedule(pod, lag=self.lag)
        return True


class PermitPod(Move, frozen=True):
    """A Permit plugin lets a pod go on that it has made wait."""

    which: int = 0

    def apply(self, cluster: SimulatedCluster) -> bool:
        cycle = _pick([cycle for cycle in cluster.cycles if cycle.permit_until > cluster.clock.now], self.which)
        if cycle is not None:
            cycle.scheduler.permit(cycle)
        return cycle is not None


class WaitForDeadline(Move, frozen=True):
    """Until just before the first binding cycle runs out of time."""

    def apply(self, cluster: SimulatedCluster) -> bool:
        first = min((cycle.deadline for cycle in cluster.cycles), default=None)
        if first is None:
            return False
        cluster.advance(max(first - cluster.clock.now - 0.01, 0.0))
        return True


# Our controller, event by event and request by request:


class DeliverEvents(Move, frozen=True):
    """Some events of one watch arrive: of nodes, claims, pods, Jobs, PodGroups, Reservations."""

    which: int
    count: int = 1

    def apply(self, cluster: SimulatedCluster) -> bool:
        pending = cluster.controller.replica.watches[self.which].pending_events
        cluster.controller.replica.deliver(self.which, self.count)
        return bool(pending)


Watch = Literal["nodes", "claims", "pods", "jobs", "groups", "reservations"]
WATCHES: Final[tuple[Watch, ...]] = ("nodes", "claims", "pods", "jobs", "groups", "reservations")


class SetWatchLag(Move, frozen=True):
    """From now on a watch is behind by so many seconds; 0: by nothing more than its events take."""

    what: Watch
    seconds: float = 0.0

    def apply(self, cluster: SimulatedCluster) -> bool:
        watch = cluster.controller.replica.watches[WATCHES.index(self.what)]
        changed = watch.lag != self.seconds
        watch.lag = self.seconds
        return changed


class DecideClaim(Move, frozen=True):
    """A claim is decided, with or without a reason; the first request of the plan is about to be made."""

    name: str

    def apply(self, cluster: SimulatedCluster) -> bool:
        cluster.controller.replica.begin(objects.key(self.name))
        return True


class StepSync(Move, frozen=True):
    """A sync makes its next request; if there is none, one begins for a claim that is due."""

    which: int = 0
    outcome: RequestOutcome = RequestOutcome.DONE

    def apply(self, cluster: SimulatedCluster) -> bool:
        replica = cluster.controller.replica
        key = _pick(list(replica.syncs), self.which)
        if key is not None:
            replica.step(key, self.outcome)
            return True
        for due in replica.due()[:1]:
            replica.begin(due)
            return True
        return False


class DeliverLateRequest(Move, frozen=True):
    """The last request of a process that is no more reaches the server."""

    which: int = 0

    def apply(self, cluster: SimulatedCluster) -> bool:
        late = cluster.controller.late_requests
        if late:
            cluster.controller.deliver_late(self.which % len(late))
        return bool(late)


class Restart(Move, frozen=True):
    """A process dies and comes back, or a watch is lost and listed anew.

    A writer dies with a request of each plan that is due on its way.
    """

    what: Literal["controller", "writer", "scheduler", "watch"]
    which: int = 0

    def apply(self, cluster: SimulatedCluster) -> bool:
        match self.what:
            case "writer":
                replica = cluster.controller.replica
                for key in replica.due():
                    replica.begin(key)
                busy = bool(replica.syncs)
                cluster.restart_controller()
                return busy
            case "controller":
                cluster.restart_controller()
            case "scheduler":
                scheduler = _pick(cluster.schedulers, self.which)
                assert scheduler is not None
                scheduler.restart()
            case "watch":
                cluster.controller.replica.relist(self.which)
        return True


def _pick(found: Sequence[T], which: int) -> T | None:
    return found[which % len(found)] if found else None


def _applies(pod: Pod, how: PodChange) -> bool:
    """Whether that can happen to a pod."""
    match how:
        case "ended":
            return bool(pod.spec.node_name) and not pod.terminal
        case "deleted":
            return not pod.metadata.deleting
        case "ungated":
            return objects.FOREIGN_GATE in pod.gates or bool(pod.metadata.finalizers)
        case "nominated":
            return not pod.spec.node_name and not pod.terminal
    return True


def _change_pod(cluster: SimulatedCluster, pod: Pod, how: PodChange) -> None:
    match how:
        case "ended":
            cluster.kubelets.end(pod)
            if cluster.kubelets.up(pod.spec.node_name):
                cluster.kubelets.report(pod)
        case "deleted":
            cluster.server.delete(Pod, pod.metadata.key, by=Actor.USER)
        case "killed":
            cluster.force_delete_pod(pod)
        case "ungated":
            cluster.remove_foreign_gates(pod)
        case "nominated":
            cluster.nominate(pod)
