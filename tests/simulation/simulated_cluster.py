"""Everything together: a server, the processes on it, and the hands of users."""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final

import msgspec

from controller.application import Application
from dra.kube.backoff import JITTER
from dra.kube.client import Client
from dra.kube.clock import rfc3339
from dra.kube.rate_limiter import RateLimiter
from dra.kube.resources import CLAIMS, JOBS, NODES, PODS, TEMPLATES, Resource
from dra.kube.transport import JSON, MERGE_PATCH, Request, Response, Transport
from dra.model.pods import Pod
from dra.model.scheduling import DEFAULT_SCHEDULER
from dra.model.workload_reservations import FORCE_RELEASE
from localplane.controller_manager.manager import ControllerManager
from localplane.fault_injection import FaultInjector
from localplane.nodes.kubelets import REBOOT_SECONDS, Kubelets
from localplane.nodes.node_objects import EmulatedNode
from localplane.objects import Object
from localplane.scheduler.scheduler import Scheduler
from localplane.schemas.builtin_schemas import Dialect
from localplane.server import ApiServer, WatchResponse
from localplane.store import ObjectKey, StoredObject, WatchCacheEvent
from tests.dra.engine.simulation.violation import Violation
from tests.simulation.autoscaler import AUTOSCALER, PROVIDER, Autoscaler
from tests.simulation.device_driver import DRIVER, RecordingDriver
from tests.simulation.initial_state import InitialState, configuration
from tests.simulation.kueue import KUEUE, VOLCANO, Kueue
from tests.simulation.operations import FOREIGN_GATE, TEMPLATE, URGENT
from tests.simulation.processes import SimulatedProcess
from tests.simulation.safety import FOREIGN, SafetyState, SystemSafetyChecker
from tests.simulation.virtual_loop import LoopClock, VirtualLoop
from tests.simulation.write_log import WriteLog

USER: Final = "user"
OWNER: Final = "owner"
NODE_CONTROLLER: Final = "nodectl"
FOREIGN_CONTROLLER: Final = "stranger"

RESTART_SECONDS: Final = 3.0
"""Seconds for which a process is down that a rule has killed."""

UNLIMITED: Final = 1e6
"""Requests per second of everybody but the controller."""

PREEMPTOR: Final = "scheduler"
DISRUPTION: Final = "DisruptionTarget"

NOMINATION_SECONDS: Final = 30.0
"""Seconds after which a scheduler takes a nomination back that has come to nothing."""

POD_GC_SECONDS: Final = 45.0
"""Seconds after which the pods of a node that is gone are removed (podgc: a quarantine of 40 s, a look each 20 s)."""

LABEL: Final = "reach.example.com/{}"
"""The label by which nodes reach a device, where they do so by labels."""

NODE_MONITOR_GRACE_PERIOD: Final = 40.0
"""Seconds after which the node controller takes a silent kubelet for lost (``--node-monitor-grace-period``)."""


class _ActorConnection:
    """The server with the author of each request: a write is one step of the loop, so its author cannot be mixed up."""

    def __init__(self, system: "SimulatedSystem", actor: str) -> None:
        self._system = system
        self._actor = actor

    async def handle(self, request: Request) -> Response | WatchResponse:
        self._system.actor = self._actor
        return await self._system.server.handle(request)


class SimulatedSystem:
    """One run."""

    def __init__(self, loop: VirtualLoop, initial_state: InitialState, *, seed: int) -> None:
        JITTER.seed(seed)
        self.kep = initial_state.kep
        self.initial_state = initial_state
        self.clock = LoopClock(loop)
        self.server = ApiServer(
            api=Dialect.KEP if initial_state.kep else Dialect.STOCK, clock=self.clock, random=Random(seed)
        )
        self.faults = FaultInjector(clock=self.clock, random=Random(seed + 1))
        self.faults.crash_component = self._crash
        self.faults.current_revision = lambda: self.server.store.revision
        self.write_log = WriteLog()
        self.safety = SystemSafetyChecker(self)
        self.actor = USER
        self.violation: Violation | None = None
        self.driver = RecordingDriver(self)
        self.silent_nodes: dict[str, float] = {}
        """Nodes that are silent, and since when."""
        self._restarted_in_silence: set[str] = set()
        """Silent nodes whose kubelets have started anew: they end what has no pod once they hear of the API server."""
        self.effects: Counter[str] = Counter()
        """How often each kind of operation has had an effect."""
        self.kubelets: Kubelets | None = None
        self._loop = loop
        self._backup: tuple[int, list[StoredObject], SafetyState] | None = None
        self._random = Random(seed + 2)
        group, quota, backoff = initial_state.node_group, initial_state.quota, initial_state.requeue_seconds
        self.autoscaler = Autoscaler(self, group) if group is not None else None
        self.queue = Kueue(self, quota=quota, backoff=backoff, seed=seed) if quota else None
        actors = (USER, OWNER, NODE_CONTROLLER, FOREIGN_CONTROLLER, PREEMPTOR, AUTOSCALER, PROVIDER, KUEUE, VOLCANO)
        self._connections = {actor: _ActorConnection(self, actor) for actor in actors}
        self._watch_writes()
        starts: dict[str, Callable[[Transport], Any]] = {
            "scheduler": self._scheduler,
            "nodes": self._nodes,
            "workloads": self._workloads,
        }
        names = (
            ("controller",)
            if initial_state.replicas == 1
            else tuple(f"controller{n}" for n in range(initial_state.replicas))
        )
        starts |= {name: partial(self._controller, name) for name in names}
        self.processes = {
            name: SimulatedProcess(name, start, server=_ActorConnection(self, name), faults=self.faults)
            for name, start in starts.items()
        }
        self._controllers: dict[str, Application] = {}

    async def start(self) -> None:
        """Create the initial objects and start all processes."""
        for namespace in self.initial_state.namespaces:
            await self.create_at("/api/v1/namespaces", {"metadata": {"name": namespace}})
            await self.create(TEMPLATES, namespace, _TEMPLATE)
        await self.create_at("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": URGENT}, "value": 1})
        await self.create_at("/apis/resource.k8s.io/v1/deviceclasses", _CLASS)
        for device, reached in self.initial_state.devices:
            slices = _slice(device, reached, by_label=self.initial_state.by_label)
            await self.create_at("/apis/resource.k8s.io/v1/resourceslices", slices)
        for process in self.processes.values():
            process.start()
        for party in (self.autoscaler, self.queue):
            if party is not None:
                self._loop.create_task(party.run()).add_done_callback(self._party_ended)

    def _party_ended(self, task: asyncio.Task[None]) -> None:
        """Let an error of a fake party end the run: it would do nothing from then on."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failed(error if isinstance(error, Violation) else Violation(f"a fake party fails: {error!r}"))

    # Those who work:

    async def _controller(self, name: str, transport: Transport) -> None:
        identity = f"{name}_{self.processes[name].incarnations}"
        settings = configuration(
            replicas=self.initial_state.replicas,
            release_finished=self.initial_state.release_finished,
            release_suspended=self.initial_state.release_suspended,
        )
        application = Application(settings, transport, clock=self.clock, identity=identity)
        self._controllers[name] = application
        await application.run()

    def watchers(self) -> tuple[Application, ...]:
        """Return the controllers that run, and have listed everything."""
        running = [each for name, each in self._controllers.items() if self.processes[name].up]
        return tuple(each for each in running if not each._informers.not_ready_reasons())

    async def _scheduler(self, transport: Transport) -> None:
        await Scheduler(self._client(transport), clock=self.clock, random=self._random).run()

    async def _workloads(self, transport: Transport) -> None:
        await ControllerManager(self._client(transport), clock=self.clock, random=self._random).run()

    async def _nodes(self, transport: Transport) -> None:
        self.kubelets = Kubelets(
            self._client(transport),
            nodes=[
                *(EmulatedNode(name=name, labels=self._labels(name)) for name in self.initial_state.nodes),
                *(self.autoscaler.group.nodes() if self.autoscaler is not None else ()),
            ],
            clock=self.clock,
            random=self._random,
            api=Dialect.KEP if self.kep else Dialect.STOCK,
            preparer=self.driver,
            leases=False,
        )
        for name in (*self.silent_nodes, *(self.autoscaler.absent() if self.autoscaler is not None else ())):
            self.kubelets.silence(name)
        self._restarted_in_silence |= self.silent_nodes.keys()
        for node in sorted(self.driver.nodes - self.silent_nodes.keys()):
            self.driver.forget_orphans(node)
        await self.kubelets.run()

    def _labels(self, node: str) -> dict[str, str]:
        """Return by which labels a node reaches devices."""
        return {LABEL.format(device): "true" for device, nodes in self.initial_state.devices if node in nodes}

    def _client(self, transport: Transport) -> Client:
        return Client(transport, RateLimiter(UNLIMITED, int(UNLIMITED), clock=self.clock), clock=self.clock)

    def kill(self, component: str, *, down: float) -> bool:
        """End processes by a pattern of their names: ``controller`` stands for all replicas."""
        hit = [p for name, p in self.processes.items() if name.startswith(component)]
        killed = [p for p in hit if p.kill(down=down)]
        for process in killed:
            self.note(f"{process.name} dies, back in {down:g} s")
        return bool(killed)

    def _crash(self, component: str) -> bool:
        return self.kill(component, down=RESTART_SECONDS)

    def note(self, text: str) -> None:
        """Say in the history what begins now."""
        self.write_log.note(text, actor="simulation", at=self.clock.now())

    def fault_counts(self) -> Counter[str]:
        """Return how often each kind of fault has happened."""
        return Counter({str(fault): count for fault, count in self.faults.counts.items()})

    # What is there:

    def find(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return an object as it is."""
        found = self.server.store.get(ObjectKey(resource.label, namespace, name))
        return msgspec.json.decode(found.raw) if found is not None else None

    def all(self, resource: Resource) -> list[StoredObject]:
        """Return all objects of a kind."""
        return self.server.store.snapshot(resource.label)

    # Users, and owners of workloads:

    async def create(self, resource: Resource, namespace: str, body: Object) -> bool:
        """Create an object; a name that is taken stays with whoever has it."""
        return await self.create_at(resource.path(namespace or None), body)

    async def create_at(self, path: str, body: Object) -> bool:
        return await self._request(USER, "POST", path, body, accepted_errors=(409,))

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, grace: int | None = None, actor: str = USER
    ) -> bool:
        """Ask for the deletion of an object, if it is there."""
        options = {"gracePeriodSeconds": grace} if grace is not None else {}
        return await self._request(
            actor, "DELETE", resource.path(namespace or None, name), options, accepted_errors=(404,)
        )

    async def end_job(self, namespace: str, name: str, *, finished: bool) -> bool:
        """Finish a Job for good, or delete it."""
        if not finished:
            return await self.delete(JOBS, namespace, name)
        now = rfc3339(self.clock.wall())
        conditions = [
            {
                "type": kind,
                "status": "True",
                "lastTransitionTime": now,
                "lastProbeTime": now,
                "reason": "CompletionsReached",
            }
            for kind in ("SuccessCriteriaMet", "Complete")
        ]
        status = {"conditions": conditions, "startTime": now, "completionTime": now}
        return await self.patch(JOBS, namespace, name, {"status": status}, "status", actor=OWNER)

    async def remove_foreign_gate(self, namespace: str, name: str) -> bool:
        """Take a foreign gate off a pod."""
        found = self.find(PODS, namespace, name)
        gates = (found or {}).get("spec", {}).get("schedulingGates", [])
        kept = [gate for gate in gates if gate["name"] != FOREIGN_GATE]
        if found is None or len(kept) == len(gates):
            return False
        return await self.patch(PODS, namespace, name, {"spec": {"schedulingGates": kept or None}})

    async def release_claim(self, namespace: str, name: str) -> bool:
        """The owner of a workload takes its entry away."""
        found = self.find(CLAIMS, namespace, name)
        entries = (found or {}).get("status", {}).get("reservedFor", [])
        kept = [entry for entry in entries if entry.get("apiGroup") != "batch"]
        if len(kept) == len(entries):
            return False
        body = {"status": {"reservedFor": kept or None}}
        return await self.patch(CLAIMS, namespace, name, body, "status", actor=OWNER)

    async def add_foreign_entry(self, namespace: str, name: str) -> bool:
        """Let some other controller list something that only it understands."""
        found = self.find(CLAIMS, namespace, name)
        status = (found or {}).get("status", {})
        if found is None or status.get("allocation") is None:
            return False
        reference = {"apiGroup": FOREIGN, "resource": "things", "name": "x", "uid": f"{found['metadata']['uid']}-x"}
        entries = [e for e in status.get("reservedFor", []) if e["uid"] != reference["uid"]]
        body = {"status": {"reservedFor": [*entries, reference]}}
        return await self.patch(CLAIMS, namespace, name, body, "status", actor=FOREIGN_CONTROLLER)

    async def remove_foreign_entries(self) -> None:
        """Let whoever made them remove them."""
        for stored in self.all(CLAIMS):
            entries = msgspec.json.decode(stored.raw).get("status", {}).get("reservedFor", [])
            kept = [entry for entry in entries if entry.get("apiGroup") != FOREIGN]
            if len(kept) < len(entries):
                body = {"status": {"reservedFor": kept or None}}
                await self.patch(
                    CLAIMS, stored.key.namespace, stored.key.name, body, "status", actor=FOREIGN_CONTROLLER
                )

    async def force_release(self, namespace: str, name: str) -> bool:
        """Let a person vouch that nobody uses a claim any more."""
        found = self.find(CLAIMS, namespace, name)
        if found is None:
            return False
        annotations = {FORCE_RELEASE: found["metadata"]["uid"]}
        return await self.patch(CLAIMS, namespace, name, {"metadata": {"annotations": annotations}})

    async def preempt(self, namespace: str, name: str, victim: str) -> bool:
        """Let a pod that waits take the place of one that runs, as a scheduler's PostFilter does; see `Preempt`."""
        waiting, leaving = self.find(PODS, namespace, name), self.find(PODS, namespace, victim)
        node = (leaving or {}).get("spec", {}).get("nodeName", "")
        if waiting is None or waiting["spec"].get("nodeName") or waiting["spec"].get("schedulingGates") or not node:
            return False
        self.note(f"pod {name} preempts pod {victim}")
        await self.patch(PODS, namespace, victim, {"status": {"conditions": _preemption_conditions(leaving)}}, "status")
        await self.delete(PODS, namespace, victim, actor=PREEMPTOR)
        await self._nominate(namespace, name, node)
        self.later(NOMINATION_SECONDS, lambda: self._nominate(namespace, name, None))
        return True

    async def _nominate(self, namespace: str, name: str, node: str | None) -> None:
        """Write where a pod is to run, unless it is bound."""
        found = self.find(PODS, namespace, name)
        if found is not None and not found["spec"].get("nodeName"):
            body = {"status": {"nominatedNodeName": node}}
            await self.patch(PODS, namespace, name, body, "status", actor=PREEMPTOR)

    async def patch(
        self, resource: Resource, namespace: str, name: str, body: Object, part: str | None = None, *, actor: str = USER
    ) -> bool:
        """Change an object, if it is there."""
        return await self._request(
            actor, "PATCH", resource.path(namespace or None, name, part), body, accepted_errors=(404, 409, 422)
        )

    async def _request(
        self, actor: str, method: str, path: str, body: Object, *, accepted_errors: tuple[int, ...] = ()
    ) -> bool:
        """Ask the server; return whether it did what it was asked for."""
        kind = MERGE_PATCH if method == "PATCH" else JSON
        raw = msgspec.json.encode(body)
        request = Request(method=method, path=path, body=raw, content_type=kind, timeout=30.0)
        response = await self._connections[actor].handle(request)
        assert isinstance(response, Response)
        if response.status >= 300 and response.status not in accepted_errors:
            raise Violation(f"{method} {path}: {response.status} {response.body.decode()}")
        return response.status < 300

    # Nodes:

    async def disturb_node(self, name: str, how: str, seconds: float) -> bool:
        """Let a node fall silent for a while, reboot, be cordoned, lose its labels or be removed (`DisturbNode`)."""
        if self.find(NODES, "", name) is None:
            return False
        self.note(f"node {name} is {how} ({seconds:g} s)")
        match how:
            case "silent":
                since = self.silent_nodes[name] = self.clock.now()
                if self.kubelets is not None:
                    self.kubelets.silence(name)
                self.later(NODE_MONITOR_GRACE_PERIOD, lambda: self._mark_node_unknown(name, since))
                self.later(seconds, lambda: self._resume_node(name))
            case "rebooted":
                return self._reboot_node(name)
            case "cordoned":
                await self._cordon(name, cordoned=True)
                self.later(seconds, lambda: self._cordon(name, cordoned=False))
            case "relabelled" if not self.initial_state.by_label:
                return False
            case "relabelled":
                await self._label(name, labelled=False)
                self.later(seconds, lambda: self._label(name, labelled=True))
            case _:
                return await self._remove_node(name, seconds)
        return True

    def _reboot_node(self, name: str, *, seconds: float = REBOOT_SECONDS) -> bool:
        if self.kubelets is None or not self.processes["nodes"].up:
            return False
        self.kubelets.reboot(name, seconds=seconds)
        self.driver.clear_node(name)
        return True

    async def shut_down_node(self, name: str) -> bool:
        """Take a machine away; its Node is left to whoever deletes it."""
        if not self._reboot_node(name, seconds=0.0) or self.kubelets is None:
            return False
        self.kubelets.silence(name)
        self.later(POD_GC_SECONDS, lambda: self._delete_orphaned_pods(name))
        return True

    def boot_node(self, name: str) -> None:
        """Let a machine register that was not there."""
        if self.kubelets is not None:
            self.kubelets.resume(name)

    def node_names(self) -> tuple[str, ...]:
        """Return the nodes that are there once nothing is the matter with them."""
        return (*self.initial_state.nodes, *(self.autoscaler.present() if self.autoscaler is not None else ()))

    async def _remove_node(self, name: str, seconds: float) -> bool:
        """Take a machine away with its Node; after some seconds there is a new one of the name."""
        if name in self.silent_nodes or not self._reboot_node(name, seconds=seconds):
            return False
        await self.delete(NODES, "", name)
        self.later(POD_GC_SECONDS, lambda: self._delete_orphaned_pods(name))
        return True

    async def _delete_orphaned_pods(self, name: str) -> None:
        """Remove the pods of a node that is gone, as the pod garbage collector does."""
        if self.find(NODES, "", name) is not None:
            return
        for stored in self.all(PODS):
            if msgspec.json.decode(stored.raw)["spec"].get("nodeName") == name:
                await self.delete(PODS, stored.key.namespace, stored.key.name, grace=0, actor=NODE_CONTROLLER)

    async def _label(self, name: str, *, labelled: bool) -> None:
        labels = {label: value if labelled else None for label, value in self._labels(name).items()}
        await self.patch(NODES, "", name, {"metadata": {"labels": labels}})

    def take_backup(self) -> None:
        """Save the state of the API server."""
        store = self.server.store
        objects = [stored for name in store.collections() for stored in store.snapshot(name)]
        self._backup = (store.revision, objects, self.safety.backup_state())

    def restore_backup(self) -> bool:
        """Put the saved state back, and restart scheduler, kubelets and the controllers of workloads.

        So kubernetes.io/docs/tasks/administer-cluster/configure-upgrade-etcd tells administrators: a scheduler never
        forgets what it has bound. Our controller has to find out by itself.
        """
        if self._backup is None:
            return False
        revision, objects, saved = self._backup
        self.note(f"the backup of revision {revision} is restored")
        self.server.store.restore(objects, revision=revision)
        self.safety.restore_state(saved, [(stored.key.collection, stored.raw) for stored in objects])
        for name in ("scheduler", "nodes", "workloads"):
            self.processes[name].kill(down=1.0)
        return True

    def is_foreign_gated(self, pod: Pod) -> bool:
        """Whether a pod waits for somebody who is not here."""
        return FOREIGN_GATE in pod.gates

    def names_absent_scheduler(self, pod: Pod) -> bool:
        """Whether a pod names a scheduler that is not here."""
        found = self.find(PODS, *pod.metadata.key)
        return found is not None and found["spec"].get("schedulerName") not in {None, DEFAULT_SCHEDULER}

    async def resume_nodes(self) -> None:
        """End all that is the matter with nodes."""
        for name in self.node_names():
            if name in self.silent_nodes:
                await self._resume_node(name)
            await self._cordon(name, cordoned=False)
            await self._label(name, labelled=True)

    async def lose_sandbox(self, namespace: str, name: str) -> bool:
        """Let the runtime of a node lose a sandbox."""
        found = self.find(PODS, namespace, name)
        if found is None or not found["spec"].get("nodeName") or self.kubelets is None:
            return False
        self.note(f"pod {name} loses its sandbox")
        self.kubelets.lose_sandbox(found["metadata"]["uid"])
        return True

    def later(self, seconds: float, act: Callable[[], Any]) -> None:
        self._loop.call_later(seconds, lambda: self._loop.create_task(act()))

    async def _mark_node_unknown(self, name: str, since: float) -> None:
        """Let the node controller tell that a kubelet is silent, if it still is since then.

        A comparison of the seconds would miss a grace period that is rounded down.
        """
        if self.silent_nodes.get(name) == since:
            await self._report_node(name, ready="Unknown")

    async def _resume_node(self, name: str) -> None:
        if self.silent_nodes.pop(name, None) is not None:
            await self._report_node(name, ready="True")
            if name in self._restarted_in_silence:
                self._restarted_in_silence.discard(name)
                self.driver.forget_orphans(name)
            if self.kubelets is not None:
                self.kubelets.resume(name)

    async def _cordon(self, name: str, *, cordoned: bool) -> None:
        await self.patch(NODES, "", name, {"spec": {"unschedulable": cordoned or None}})

    async def _report_node(self, name: str, *, ready: str) -> None:
        found = self.find(NODES, "", name)
        if found is None:
            return
        others = [c for c in found.get("status", {}).get("conditions", []) if c["type"] != "Ready"]
        status = {"conditions": [*others, {"type": "Ready", "status": ready}]}
        await self.patch(NODES, "", name, {"status": status}, "status", actor=NODE_CONTROLLER)

    # Below: every write is looked at the moment it is done.

    def _watch_writes(self) -> None:
        store = self.server.store
        remember = store._record_event

        def remember_and_check(collection: Any, event: WatchCacheEvent) -> None:
            remember(collection, event)
            self._check_write(event)

        store._record_event = remember_and_check

    def _check_write(self, event: WatchCacheEvent) -> None:
        at = self.clock.now()
        self.write_log.record(event, actor=self.actor, at=at)
        if self.violation is not None:
            return
        try:
            self.safety.check_write(event, actor=self.actor, at=at)
        except Violation as violation:
            self.failed(violation)

    def failed(self, violation: Violation) -> None:
        """End the run at the end of this step: what follows a breach proves nothing."""
        if self.violation is None:
            self.violation = violation
            self._loop.stop()


_CLASS: Final[Object] = {
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
}


_TEMPLATE: Final[Object] = {
    "metadata": {"name": TEMPLATE},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}},
}


def _preemption_conditions(pod: Object | None) -> list[Object]:
    """Return the conditions of a pod that has to leave."""
    others = [c for c in (pod or {}).get("status", {}).get("conditions", []) if c["type"] != DISRUPTION]
    return [*others, {"type": DISRUPTION, "status": "True", "reason": "PreemptionByScheduler"}]


def _slice(device: str, reached: tuple[str, ...], *, by_label: bool) -> Object:
    """Return the slice of a device in a network: a pool of its own, reached from some nodes."""
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(reached)}
    if by_label:
        term = {"key": LABEL.format(device), "operator": "In", "values": ["true"]}
    return {
        "metadata": {"name": f"{device}-{DRIVER}"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": device, "generation": 1, "resourceSliceCount": 1},
            "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [term]}]},
            "devices": [{"name": device}],
        },
    }
