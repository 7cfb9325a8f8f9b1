"""What a seed decides on: values that say when what happens, each complete in itself.

So a history with some of them left out is a history, too: nothing is drawn while it runs. What cannot happen, since its
object is not there, does not.
"""

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from dra.engine.claims.consumers import SCHEDULING_GATE
from dra.kube.resources import CLAIMS, JOBS, PODS
from dra.model import workload_reservations
from localplane.fault_injection import Fault, FaultRule
from localplane.nodes.programs import RUN_SECONDS, STOP_SECONDS
from tests.simulation import kueue

if TYPE_CHECKING:
    from tests.simulation.simulated_cluster import SimulatedSystem

FOREIGN_GATE: Final = "kueue.example.com/admission"

URGENT: Final = "urgent"
"""A PriorityClass."""

TEMPLATE: Final = "one-device"
"""A ResourceClaimTemplate in each namespace."""


class Operation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """Something that happens ``at`` some second."""

    at: float

    @property
    def kind(self) -> str:
        """As what it is counted."""
        return " ".join(filter(None, (type(self).__name__, getattr(self, "how", ""))))

    async def apply(self, system: "SimulatedSystem") -> bool:
        """Let it happen; return whether it could."""
        raise NotImplementedError

    def __str__(self) -> str:
        fields = ((f.name, getattr(self, f.name), f.default) for f in msgspec.structs.fields(self) if f.name != "at")
        text = ", ".join(f"{name}={value!r}" for name, value, default in fields if value != default)
        return f"{self.at:7.2f}  {type(self).__name__}({text})"


class CreateClaim(Operation):
    """A claim on one device, perhaps reserved for a Job, whose uid its creator may know."""

    namespace: str
    name: str
    job: str = ""
    known: bool = False
    pre_list: bool = False

    async def apply(self, system: "SimulatedSystem") -> bool:
        annotations = {workload_reservations.PRE_LIST: "true"} if self.pre_list else {}
        spec: dict[str, Any] = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
        found = system.find(JOBS, self.namespace, self.job) if self.job else None
        uid = found["metadata"]["uid"] if found is not None and (self.known or system.kep) else ""
        if self.job and system.kep and uid:
            spec["reservedFor"] = {"apiGroup": "batch", "resource": "jobs", "name": self.job, "uid": uid}
        elif self.job:
            annotations[workload_reservations.RESERVED_FOR] = f"jobs.batch/{self.job}"
            if uid:
                annotations[workload_reservations.RESERVED_FOR_UID] = uid
        meta = {"name": self.name, **({"annotations": annotations} if annotations else {})}
        return await system.create(CLAIMS, self.namespace, {"metadata": meta, "spec": spec})


class CreateJob(Operation):
    """A workload. With ``pods`` it makes them; without, they are created beside it, as by a controller of its own."""

    namespace: str
    name: str
    pods: int = 0
    claims: tuple[str, ...] = ()
    gated: bool = False
    seconds: float | None = None
    """How long its pods run; None: until somebody ends them."""
    queued: bool = False
    """Whether a queue suspends it until there is quota."""
    topology: bool = False
    """Whether the queue puts a second gate on its pods."""

    @property
    def kind(self) -> str:
        return "CreateJob in a queue" if self.queued else "CreateJob"

    async def apply(self, system: "SimulatedSystem") -> bool:
        annotations = {RUN_SECONDS: str(self.seconds)} if self.seconds is not None else {}
        template = {"metadata": {"annotations": annotations}, "spec": pod_spec(self.claims, gated=self.gated)}
        spec = {"parallelism": self.pods, "completions": max(self.pods, 1), "template": template}
        body: dict[str, Any] = {"metadata": {"name": self.name}, "spec": spec}
        if self.queued:
            kueue.queue_job(body, topology=self.topology)
        return await system.create(JOBS, self.namespace, body)


class EndJob(Operation):
    """A workload ends: it finishes, goes, or another one takes its name."""

    namespace: str
    name: str
    how: Literal["finished", "deleted", "replaced"]

    async def apply(self, system: "SimulatedSystem") -> bool:
        ended = await system.end_job(self.namespace, self.name, finished=self.how == "finished")
        if self.how == "replaced":
            await CreateJob(at=self.at, namespace=self.namespace, name=self.name).apply(system)
        return ended


class CreatePods(Operation):
    """Some pods of one kind."""

    namespace: str
    names: tuple[str, ...]
    claims: tuple[str, ...]
    gated: bool = False
    foreign_gate: bool = False
    opted_in: bool = False
    priority: int = 0
    template: bool = False
    """Whether each of them has a claim of its own besides, made from a template."""
    seconds: float | None = None
    """How long they run; None: until somebody ends them."""
    grace: int = 5
    """Their ``terminationGracePeriodSeconds``."""
    stop: float = 0.0
    """Seconds that their containers take to end."""
    scheduler: str = ""
    """Their ``schedulerName``, if it is not the default one's."""
    queued: bool = False
    """Whether a queue gates them until there is quota."""
    group: str = ""
    """Their pod group in the queue, if they are admitted together."""
    topology: bool = False
    """Whether the queue puts a second gate on them."""
    volcano: bool = False
    """Whether they have a gate that Volcano removes last."""

    @property
    def kind(self) -> str:
        if self.queued:
            return "CreatePods in a queue"
        if self.volcano:
            return "CreatePods with Volcano's gate"
        return "CreatePods of a scheduler that does not run" if self.scheduler else "CreatePods"

    async def apply(self, system: "SimulatedSystem") -> bool:
        annotations = {workload_reservations.PRE_LIST: "true"} if self.opted_in else {}
        if self.stop:
            annotations[STOP_SECONDS] = str(self.stop)
        if self.seconds is not None:
            annotations[RUN_SECONDS] = str(self.seconds)
        spec = pod_spec(self.claims, gated=self.gated, foreign_gate=self.foreign_gate, grace=self.grace)
        if self.scheduler:
            spec["schedulerName"] = self.scheduler
        if self.volcano:
            spec["schedulingGates"] = [{"name": kueue.VOLCANO_GATE}, *spec.get("schedulingGates", ())]
        if self.template:
            spec["resourceClaims"].append({"name": "own", "resourceClaimTemplateName": TEMPLATE})
        if self.priority:
            spec["priorityClassName"] = URGENT
        created = False
        for name in self.names:
            meta = {"name": name, **({"annotations": annotations} if annotations else {})}
            body = {"metadata": meta, "spec": spec}
            if self.queued:
                body = kueue.queued_pod(body, group=self.group, count=len(self.names), topology=self.topology)
            created |= await system.create(PODS, self.namespace, body)
        return created


class EndPod(Operation):
    """A pod is deleted, with its grace period or by force, or loses its foreign gate."""

    namespace: str
    name: str
    how: Literal["deleted", "forced", "ungated"]

    async def apply(self, system: "SimulatedSystem") -> bool:
        if self.how == "ungated":
            return await system.remove_foreign_gate(self.namespace, self.name)
        return await system.delete(PODS, self.namespace, self.name, grace=0 if self.how == "forced" else None)


class EndClaim(Operation):
    """A claim is deleted, released by the owner of its workload or by force, or listed for something foreign."""

    namespace: str
    name: str
    how: Literal["deleted", "released", "forced", "shared"]

    async def apply(self, system: "SimulatedSystem") -> bool:
        match self.how:
            case "deleted":
                return await system.delete(CLAIMS, self.namespace, self.name)
            case "released":
                return await system.release_claim(self.namespace, self.name)
            case "forced":
                return await system.force_release(self.namespace, self.name)
            case "shared":
                return await system.add_foreign_entry(self.namespace, self.name)


class DisturbNode(Operation):
    """A node falls silent for some seconds, starts anew, is cordoned, loses its labels, or is removed with its machine.

    After ``seconds`` it is as before; a machine that was removed comes back as a new one.
    """

    name: str
    how: Literal["silent", "rebooted", "cordoned", "relabelled", "removed"]
    seconds: float = 0.0

    async def apply(self, system: "SimulatedSystem") -> bool:
        return await system.disturb_node(self.name, self.how, self.seconds)


class DelayWatch(Operation):
    """A watch of the controller is behind for some time, up to so many seconds each time."""

    what: Literal["nodes", "pods", "resourceclaims.resource.k8s.io", "jobs.batch"]
    seconds: float
    lasting: float

    @property
    def kind(self) -> str:
        return f"{type(self).__name__} {self.what.partition('.')[0]}"

    async def apply(self, system: "SimulatedSystem") -> bool:
        late = {"component": "controller*", "verb": "watch", "resource": self.what}
        system.faults.add(FaultRule(fault=Fault.DELAY, seconds=self.seconds, lasting=self.lasting, **late))
        return True


class Preempt(Operation):
    """A pod makes another one leave, as a scheduler does: nominated for its node, and the other one is deleted."""

    namespace: str
    name: str
    victim: str

    async def apply(self, system: "SimulatedSystem") -> bool:
        return await system.preempt(self.namespace, self.name, self.victim)


class Evict(Operation):
    """A queue takes quota back: it deletes the pods of a workload, or suspends a Job."""

    namespace: str
    name: str
    how: Literal["pods", "job"]

    async def apply(self, system: "SimulatedSystem") -> bool:
        if system.queue is None:
            return False
        evict = system.queue.evict_pods if self.how == "pods" else system.queue.evict_job
        return await evict(self.namespace, self.name)


class Backup(Operation):
    """The state of the API server is saved, or put back as it was saved last."""

    how: Literal["taken", "restored"]

    async def apply(self, system: "SimulatedSystem") -> bool:
        if self.how == "taken":
            system.take_backup()
            return True
        return system.restore_backup()


class CrashSandbox(Operation):
    """The runtime loses the sandbox of a pod: its kubelet makes another one."""

    namespace: str
    name: str

    async def apply(self, system: "SimulatedSystem") -> bool:
        return await system.lose_sandbox(self.namespace, self.name)


class InjectFault(Operation):
    """From now on requests fail, as the rule says."""

    rule: FaultRule

    async def apply(self, system: "SimulatedSystem") -> bool:
        system.faults.add(self.rule)
        return True

    @property
    def kind(self) -> str:
        return f"{type(self).__name__} {self.rule.fault}"

    def __str__(self) -> str:
        fields = ((f.name, getattr(self.rule, f.name), f.default) for f in msgspec.structs.fields(self.rule))
        text = ", ".join(f"{name}={value!r}" for name, value, default in fields if value != default)
        return f"{self.at:7.2f}  {type(self).__name__}({text})"


class KillProcess(Operation):
    """A process dies just now, and comes back after some seconds."""

    component: str
    seconds: float

    async def apply(self, system: "SimulatedSystem") -> bool:
        return system.kill(self.component, down=self.seconds)


class EndPodOfJob(Operation):
    """One of a Job's pods is deleted, with its grace period or by force."""

    namespace: str
    job: str
    number: int
    forced: bool = False

    async def apply(self, system: "SimulatedSystem") -> bool:
        found = [s.key.name for s in system.all(PODS) if s.key.namespace == self.namespace]
        names = [name for name in found if name.startswith(f"{self.job}-")]
        if not names:
            return False
        name = names[self.number % len(names)]
        return await system.delete(PODS, self.namespace, name, grace=0 if self.forced else None)


def pod_spec(claims: tuple[str, ...], *, gated: bool, foreign_gate: bool = False, grace: int = 5) -> dict[str, Any]:
    """Return the spec of a pod that uses claims."""
    gates = [SCHEDULING_GATE] * gated + [FOREIGN_GATE] * foreign_gate
    uses = [{"name": name, "resourceClaimName": name} for name in claims]
    command = ["sleep", "infinity"]
    container = {
        "name": "main",
        "image": "busybox",
        "command": command,
        "resources": {"claims": [{"name": c} for c in claims]},
    }
    spec: dict[str, Any] = {
        "containers": [container],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": grace,
        "resourceClaims": uses,
    }
    return spec | ({"schedulingGates": [{"name": gate} for gate in gates]} if gates else {})
