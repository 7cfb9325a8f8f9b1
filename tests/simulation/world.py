"""Everything together: a server, the processes on it, and the hands of users."""

from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from random import Random
from typing import Any, Final

import msgspec

from controller.application import Application
from dra.api.configuration import Configuration
from dra.kube.backoff import JITTER
from dra.kube.client import Client
from dra.kube.clock import second_time
from dra.kube.limits import Limiter
from dra.kube.resources import CLAIMS, JOBS, NODES, PODS, TEMPLATES, Resource
from dra.kube.transport import JSON, MERGE_PATCH, Request, Response, Transport
from dra.local.faults import Faults
from dra.local.nodes.inventory import NodeSpec
from dra.local.nodes.kubelets import Kubelets
from dra.local.objects import Object
from dra.local.scheduler.scheduler import Scheduler
from dra.local.schemas.structures import Dialect
from dra.local.server import ApiServer, Watch
from dra.local.store import Event, Key, Stored
from dra.local.workloads.controllers import WorkloadControllers
from dra.model.pods import Pod
from dra.model.workloads import FORCE_RELEASE
from tests.simulation.audit import FOREIGN, Audit
from tests.simulation.chronicle import Chronicle
from tests.simulation.decisions import FOREIGN_GATE, TEMPLATE, URGENT
from tests.simulation.driver import DRIVER, Driver
from tests.simulation.limits import USUAL
from tests.simulation.loop import LoopClock, VirtualLoop
from tests.simulation.processes import Process
from tests.simulation.violation import Violation

USER: Final = "user"
OWNER: Final = "owner"
NODE_CONTROLLER: Final = "nodectl"
STRANGER: Final = "stranger"

DOWN: Final = 3.0
"""Seconds for which a process is down that a rule has killed."""

UNLIMITED: Final = 1e6
"""Requests per second of everybody but the controller."""

SILENT: Final = 40.0
"""Seconds after which the node controller takes a silent kubelet for lost (``--node-monitor-grace-period``)."""


class Beginning(msgspec.Struct, frozen=True, kw_only=True):
    """What there is when a run begins."""

    kep: bool = False
    """Whether the API server knows the KEP's fields."""
    devices: tuple[tuple[str, tuple[str, ...]], ...] = (("gpu-0", ("n1", "n2", "n3")),)
    """Names of devices, and of the nodes that reach each."""
    nodes: tuple[str, ...] = ("n1", "n2", "n3")
    namespaces: tuple[str, ...] = ("ml",)
    replicas: int = 1
    """Controllers; more than one have a lease."""
    release_finished: bool = True
    lists: tuple[int, int] = USUAL
    """How many entries a list holds, and how many of them are left to the scheduler."""


@cache
def configuration(*, replicas: int, release_finished: bool) -> Configuration:
    """Return what the controllers are configured with: nothing unusual, but no sockets."""
    content: dict[str, Any] = {
        "mode": "replace",
        "probes": None,
        "metrics": None,
        "releaseFinished": release_finished,
        "leaderElection": {"enabled": replicas > 1, "namespace": "kube-system"},
    }
    return Configuration.model_validate(content)


class _Attributed:
    """The server, told who asks: a write happens within one step of the loop, so its author cannot be mixed up."""

    def __init__(self, world: "World", actor: str) -> None:
        self._world = world
        self._actor = actor

    async def handle(self, request: Request) -> Response | Watch:
        self._world.actor = self._actor
        return await self._world.server.handle(request)


class World:
    """One run."""

    def __init__(self, loop: VirtualLoop, beginning: Beginning, *, seed: int) -> None:
        JITTER.seed(seed)
        self.kep = beginning.kep
        self.beginning = beginning
        self.clock = LoopClock(loop)
        self.server = ApiServer(
            api=Dialect.KEP if beginning.kep else Dialect.STOCK, clock=self.clock, chance=Random(seed)
        )
        self.faults = Faults(clock=self.clock, chance=Random(seed + 1))
        self.faults.crash = self._crash
        self.faults.revision = lambda: self.server.store.revision
        self.chronicle = Chronicle()
        self.audit = Audit(self)
        self.actor = USER
        self.violation: Violation | None = None
        self.driver = Driver(self)
        self.lost: dict[str, float] = {}
        """Nodes that are silent, and since when."""
        self.strokes: Counter[str] = Counter()
        """How often what else can go wrong has happened."""
        self.kubelets: Kubelets | None = None
        self._loop = loop
        self._chance = Random(seed + 2)
        self._hand = {actor: _Attributed(self, actor) for actor in (USER, OWNER, NODE_CONTROLLER, STRANGER)}
        self._listen()
        starts: dict[str, Callable[[Transport], Any]] = {
            "scheduler": self._scheduler,
            "nodes": self._nodes,
            "workloads": self._workloads,
        }
        names = (
            ("controller",) if beginning.replicas == 1 else tuple(f"controller{n}" for n in range(beginning.replicas))
        )
        starts |= {name: partial(self._controller, name) for name in names}
        self.processes = {
            name: Process(name, start, server=_Attributed(self, name), faults=self.faults)
            for name, start in starts.items()
        }
        self.applications: list[Application] = []

    async def begin(self) -> None:
        """Make what there is at the beginning, and start everybody."""
        for namespace in self.beginning.namespaces:
            await self.create_at("/api/v1/namespaces", {"metadata": {"name": namespace}})
            await self.create(TEMPLATES, namespace, _TEMPLATE)
        await self.create_at("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": URGENT}, "value": 1})
        await self.create_at("/apis/resource.k8s.io/v1/deviceclasses", _CLASS)
        for device, reached in self.beginning.devices:
            await self.create_at("/apis/resource.k8s.io/v1/resourceslices", _slice(device, reached))
        for process in self.processes.values():
            process.begin()

    # Those who work:

    async def _controller(self, name: str, transport: Transport) -> None:
        identity = f"{name}_{self.processes[name].lives}"
        settings = configuration(replicas=self.beginning.replicas, release_finished=self.beginning.release_finished)
        application = Application(settings, transport, clock=self.clock, identity=identity)
        self.applications.append(application)
        await application.run()

    async def _scheduler(self, transport: Transport) -> None:
        await Scheduler(self._client(transport), clock=self.clock, chance=self._chance).run()

    async def _workloads(self, transport: Transport) -> None:
        await WorkloadControllers(self._client(transport), clock=self.clock, chance=self._chance).run()

    async def _nodes(self, transport: Transport) -> None:
        self.kubelets = Kubelets(
            self._client(transport),
            nodes=[NodeSpec(name=name) for name in self.beginning.nodes],
            clock=self.clock,
            chance=self._chance,
            api="kep" if self.kep else "stock",
            preparer=self.driver,
            leases=False,
        )
        for name in self.lost:
            self.kubelets.silence(name)
        await self.kubelets.run()

    def _client(self, transport: Transport) -> Client:
        return Client(transport, Limiter(UNLIMITED, int(UNLIMITED), clock=self.clock), clock=self.clock)

    def kill(self, component: str, *, down: float) -> bool:
        """End processes by a pattern of their names: ``controller`` stands for all replicas."""
        hit = [p for name, p in self.processes.items() if name.startswith(component)]
        killed = [p for p in hit if p.kill(down=down)]
        for process in killed:
            self.note(f"{process.name} dies, back in {down:g} s")
            self.strokes["death"] += 1
        return bool(killed)

    def _crash(self, component: str) -> bool:
        return self.kill(component, down=DOWN)

    def note(self, text: str) -> None:
        """Say in the history what begins now."""
        self.chronicle.note(text, actor="fate", at=self.clock.now())

    def counts(self) -> Counter[str]:
        """Return how often each kind of bad luck has happened."""
        return Counter({str(fault): count for fault, count in self.faults.counts.items()}) + self.strokes

    # What is there:

    def find(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return an object as it is."""
        found = self.server.store.get(Key(resource.label, namespace, name))
        return msgspec.json.decode(found.raw) if found is not None else None

    def all(self, resource: Resource) -> list[Stored]:
        """Return all objects of a kind."""
        return self.server.store.snapshot(resource.label)

    # Users, and owners of workloads:

    async def create(self, resource: Resource, namespace: str, body: Object) -> None:
        """Create an object; a name that is taken stays with whoever has it."""
        await self.create_at(resource.path(namespace or None), body)

    async def create_at(self, path: str, body: Object) -> None:
        await self._ask(USER, "POST", path, body, but=(409,))

    async def delete(self, resource: Resource, namespace: str, name: str, *, grace: int | None = None) -> None:
        """Ask for the deletion of an object, if it is there."""
        options = {"gracePeriodSeconds": grace} if grace is not None else {}
        await self._ask(USER, "DELETE", resource.path(namespace or None, name), options, but=(404,))

    async def end_job(self, namespace: str, name: str, *, finished: bool) -> None:
        """Finish a Job for good, or delete it."""
        if not finished:
            await self.delete(JOBS, namespace, name)
            return
        now = second_time(self.clock.wall())
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
        await self.patch(JOBS, namespace, name, {"status": status}, "status", actor=OWNER)

    async def let_go(self, namespace: str, name: str) -> None:
        """Take a foreign gate off a pod."""
        found = self.find(PODS, namespace, name)
        gates = (found or {}).get("spec", {}).get("schedulingGates", [])
        kept = [gate for gate in gates if gate["name"] != FOREIGN_GATE]
        if found is not None and len(kept) < len(gates):
            await self.patch(PODS, namespace, name, {"spec": {"schedulingGates": kept or None}})

    async def release(self, namespace: str, name: str) -> None:
        """The owner of a workload takes its entry away."""
        found = self.find(CLAIMS, namespace, name)
        entries = (found or {}).get("status", {}).get("reservedFor", [])
        kept = [entry for entry in entries if entry.get("apiGroup") != "batch"]
        if len(kept) < len(entries):
            await self.patch(CLAIMS, namespace, name, {"status": {"reservedFor": kept or None}}, "status", actor=OWNER)

    async def share(self, namespace: str, name: str) -> None:
        """Let some other controller list something that only it understands."""
        found = self.find(CLAIMS, namespace, name)
        status = (found or {}).get("status", {})
        if found is not None and status.get("allocation") is not None:
            thing = {"apiGroup": FOREIGN, "resource": "things", "name": "x", "uid": f"{found['metadata']['uid']}-x"}
            entries = [e for e in status.get("reservedFor", []) if e["uid"] != thing["uid"]]
            body = {"status": {"reservedFor": [*entries, thing]}}
            await self.patch(CLAIMS, namespace, name, body, "status", actor=STRANGER)

    async def take_foreign_entries_back(self) -> None:
        """Let whoever made them remove them."""
        for stored in self.all(CLAIMS):
            entries = msgspec.json.decode(stored.raw).get("status", {}).get("reservedFor", [])
            kept = [entry for entry in entries if entry.get("apiGroup") != FOREIGN]
            if len(kept) < len(entries):
                body = {"status": {"reservedFor": kept or None}}
                await self.patch(CLAIMS, stored.key.namespace, stored.key.name, body, "status", actor=STRANGER)

    async def force(self, namespace: str, name: str) -> None:
        """Let a person vouch that nobody uses a claim any more."""
        found = self.find(CLAIMS, namespace, name)
        if found is not None:
            mark = {FORCE_RELEASE: found["metadata"]["uid"]}
            await self.patch(CLAIMS, namespace, name, {"metadata": {"annotations": mark}})

    async def patch(
        self, resource: Resource, namespace: str, name: str, body: Object, part: str | None = None, *, actor: str = USER
    ) -> None:
        """Change an object, if it is there."""
        await self._ask(actor, "PATCH", resource.path(namespace or None, name, part), body, but=(404, 409, 422))

    async def _ask(self, actor: str, method: str, path: str, body: Object, *, but: tuple[int, ...] = ()) -> None:
        kind = MERGE_PATCH if method == "PATCH" else JSON
        raw = msgspec.json.encode(body)
        request = Request(method=method, path=path, body=raw, content_type=kind, timeout=30.0)
        answer = await self._hand[actor].handle(request)
        assert isinstance(answer, Response)
        if answer.status >= 300 and answer.status not in but:
            raise Violation(f"{method} {path}: {answer.status} {answer.body.decode()}")

    # Nodes:

    async def disturb_node(self, name: str, how: str, seconds: float) -> None:
        """Let a node fall silent for a while, start anew, or be cordoned for a while."""
        self.note(f"node {name} is {how} ({seconds:g} s)")
        self.strokes[f"node {how}"] += 1
        if how == "lost":
            self.lost[name] = self.clock.now()
            if self.kubelets is not None:
                self.kubelets.silence(name)
            self._later(SILENT, lambda: self._judge(name))
            self._later(seconds, lambda: self._bring_back(name))
        elif how == "booted":
            if self.kubelets is not None and self.processes["nodes"].up:
                self.kubelets.reboot(name)
                self.driver.rebooted(name)
        else:
            await self._cordon(name, cordoned=True)
            self._later(seconds, lambda: self._cordon(name, cordoned=False))

    def is_foreign_gated(self, pod: Pod) -> bool:
        """Whether a pod waits for somebody who is not here."""
        return FOREIGN_GATE in pod.gates

    async def bring_nodes_back(self) -> None:
        """End all that is the matter with nodes."""
        for name in self.beginning.nodes:
            if name in self.lost:
                await self._bring_back(name)
            await self._cordon(name, cordoned=False)

    async def lose_sandbox(self, namespace: str, name: str) -> None:
        """Let the runtime of a node lose a sandbox."""
        found = self.find(PODS, namespace, name)
        if found is not None and found["spec"].get("nodeName") and self.kubelets is not None:
            self.note(f"pod {name} loses its sandbox")
            self.strokes["sandbox lost"] += 1
            self.kubelets.lose_sandbox(found["metadata"]["uid"])

    def _later(self, seconds: float, act: Callable[[], Any]) -> None:
        self._loop.call_later(seconds, lambda: self._loop.create_task(act()))

    async def _judge(self, name: str) -> None:
        """Let the node controller tell that a kubelet is silent, if it has been for long enough."""
        since = self.lost.get(name)
        if since is not None and self.clock.now() - since >= SILENT:
            await self._report_node(name, ready="Unknown")

    async def _bring_back(self, name: str) -> None:
        if self.lost.pop(name, None) is not None:
            await self._report_node(name, ready="True")
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

    def _listen(self) -> None:
        store = self.server.store
        remember = store._remember

        def told(collection: Any, event: Event) -> None:
            remember(collection, event)
            self._wrote(event)

        store._remember = told

    def _wrote(self, event: Event) -> None:
        at = self.clock.now()
        self.chronicle.wrote(event, actor=self.actor, at=at)
        if self.violation is not None:
            return
        try:
            self.audit.take(event, actor=self.actor, at=at)
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


def _slice(device: str, reached: tuple[str, ...]) -> Object:
    """Return the slice of a device in a network: a pool of its own, reached from some nodes."""
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(reached)}
    return {
        "metadata": {"name": f"{device}-{DRIVER}"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": device, "generation": 1, "resourceSliceCount": 1},
            "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [term]}]},
            "devices": [{"name": device}],
        },
    }
