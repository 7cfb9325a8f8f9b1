"""A small cluster in one process and in virtual time: our API server, controller, extender, and what asks the extender.

The scheduler here does what kube-scheduler does between its extender's calls and no more: it asks for a node, picks the
best, has the pod bound, and tries again later what was refused. It knows nothing of reservations, and of resources only
what it is told: so whatever is given out twice was given out by the extender.
"""

import asyncio
import contextlib
import json
from collections import Counter
from random import Random

from controller.extender.application import Extender
from controller.informers import ControllerInformers
from controller.metrics import ControllerMetrics
from controller.reconciler import run_all
from controller.reservations.reservations import Reservations
from controller.reservations.scheduling_gates import SchedulingGates
from controller.runtime import Runtime
from dra.api.configuration import PlaceholderMode
from dra.api.extender_configuration import ExtenderConfiguration
from dra.api.reservations.crd import custom_resource_definition
from dra.engine.reservations.view import ReservationPolicy
from dra.kube.client import Client
from dra.kube.events import EventRecorder
from dra.kube.rate_limiter import RateLimiter
from dra.kube.transport import MERGE_PATCH, Request
from dra.requests.leadership import Leadership
from localplane.fault_injection import FaultInjector, FaultyHandler
from localplane.objects import decode, encode
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import LoopClock, seeded

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
PODS = "/api/v1/namespaces/default/pods"
UNLIMITED = 1e6
NAMED_FIRST = {"allocateOnce": False, "preAllocation": True, "allocatePolicy": "Restricted"}
"""A reservation that many pods use and whose status names each before the pod is bound."""


class Site:
    """The cluster; `async with` it."""

    def __init__(
        self,
        *,
        nodes=None,
        seed=0,
        rules=(),
        elect=False,
        placeholders=PlaceholderMode.REPLACED,
        binds_placeholders=True,
    ):
        self.clock = LoopClock()
        self.server = ApiServer(clock=self.clock, random=seeded(seed))
        self.faults = FaultInjector(clock=self.clock, random=seeded(seed), rules=())
        self._rules = rules
        self._nodes = nodes or {"n1": "16"}
        self._elect = elect
        self._placeholders = placeholders
        self._binds_placeholders = binds_placeholders
        self.metrics = ControllerMetrics()
        self._tasks = contextlib.AsyncExitStack()
        self.extender = None
        self._extending = None
        self.controller = None
        self.outcomes = Counter()
        """What became of bindings."""

    async def __aenter__(self):
        await self.ask("POST", DEFINITIONS, custom_resource_definition())
        for name, cpu in self._nodes.items():
            await self.add_node(name, cpu)
        self.faults.set(self._rules)
        await self._start_controller()
        await self.start_extender()
        return self

    async def __aexit__(self, *_):
        await self.stop_extender()
        await self._tasks.aclose()

    async def add_node(self, name, cpu, **metadata):
        node = {"metadata": {"name": name, **metadata}}
        await self.ask("POST", "/api/v1/nodes", node)
        status = {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"}}
        await self.ask("PATCH", f"/api/v1/nodes/{name}/status", {"status": status})

    async def has_node(self, name):
        return any(node["metadata"]["name"] == name for node in (await self.ask("GET", "/api/v1/nodes"))["items"])

    async def lose_node(self, name):
        """Take a node away, and the pods on it, as garbage collection does."""
        await self.delete(f"/api/v1/nodes/{name}")
        for pod in await self.pods():
            if pod["spec"].get("nodeName") == name:
                await self.delete(f"{PODS}/{pod['metadata']['name']}")

    async def ask(self, method, path, body=None, *, fine=(200, 201)):
        """Ask the server itself, whatever the faults are."""
        raw = encode(body) if body is not None else b""
        kind = MERGE_PATCH if method == "PATCH" else "application/json"
        answer = await self.server.handle(Request(method=method, path=path, body=raw, content_type=kind, timeout=30.0))
        found = decode(answer.body)
        assert fine is None or answer.status in fine, found
        return found

    def client(self, component):
        transport = LocalTransport(FaultyHandler(self.server, self.faults, component=component))
        limiter = RateLimiter(UNLIMITED, int(UNLIMITED), clock=self.clock)
        return transport, Client(transport, limiter, clock=self.clock)

    async def _start_controller(self):
        _, client = self.client("controller")
        recorder = EventRecorder(client, instance="test", clock=self.clock)
        runtime = Runtime(
            client=client, clock=self.clock, leadership=Leadership(), recorder=recorder, metrics=self.metrics
        )
        informers = ControllerInformers(client, clock=self.clock, placeholders=self._placeholders)
        self.controller = Reservations(runtime, informers, policy=ReservationPolicy(placeholders=self._placeholders))
        gates = SchedulingGates(runtime, informers, cache=self.controller.cache)
        self._controlling = [
            asyncio.ensure_future(work) for work in (informers.run(), run_all([self.controller, gates]), recorder.run())
        ]
        self._tasks.push_async_callback(self.stop_controller)

    async def stop_controller(self):
        """End it between two instructions, as a crash does."""
        while self._controlling:
            await ended(self._controlling.pop())

    async def start_extender(self):
        transport, _ = self.client("extender")
        configuration = ExtenderConfiguration.model_validate(
            {
                "bindSeconds": 2,
                "bindPlaceholders": self._binds_placeholders,
                "leaderElection": {"enabled": self._elect, "namespace": "default"},
                "probes": None,
                "metrics": None,
            }
        )
        self.extender = Extender(configuration, transport, clock=self.clock)
        self._extending = asyncio.ensure_future(self.extender.work())
        while not self.extender.is_binding:
            assert not self._extending.done(), self._extending.exception()
            await asyncio.sleep(0.1)

    async def stop_extender(self):
        """End it between two instructions, as a crash does."""
        if self._extending is not None:
            await ended(self._extending)
        self.extender = self._extending = None

    def detach(self):
        """Let the extender run on beside the next one; return what is running."""
        running, self._extending = self._extending, None
        return running

    # What people do

    async def reserve(self, name, cpu, **spec):
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        whole = {
            "template": {"spec": {"containers": [container]}},
            "owners": [{"labelSelector": {"matchLabels": {"app": name}}}],
        }
        return await self.ask(
            "POST",
            RESERVATIONS,
            {
                "kind": "Reservation",
                "apiVersion": "scheduling.koordinator.sh/v1alpha1",
                "metadata": {"name": name},
                "spec": {**whole, **spec},
            },
        )

    async def pod(self, name, cpu, *, app="", **annotations):
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        metadata = {"name": name, "labels": {"app": app} if app else {}, "annotations": annotations}
        return await self.ask("POST", PODS, {"metadata": metadata, "spec": {"containers": [container]}})

    async def reservation(self, name):
        return await self.ask("GET", f"{RESERVATIONS}/{name}")

    async def reservations(self):
        return (await self.ask("GET", RESERVATIONS))["items"]

    async def pods(self):
        return (await self.ask("GET", PODS))["items"]

    async def node_of(self, name):
        return (await self.ask("GET", f"{PODS}/{name}"))["spec"].get("nodeName", "")

    async def finish(self, name):
        await self.ask("PATCH", f"{PODS}/{name}/status", {"status": {"phase": "Succeeded"}})

    async def delete(self, path):
        await self.ask("DELETE", path, {"gracePeriodSeconds": 0}, fine=None)

    # What a scheduler does

    async def call(self, verb, body):
        """Return the answer of the extender; None if there is none."""
        if self.extender is None:
            return None
        status, answer = await self.extender.handler.handle(verb, json.dumps(body).encode())
        return json.loads(answer) if status == 200 else None

    async def schedule(self, pod):
        """Do one cycle with a pod; return what came of it: a node, or why not."""
        nodes = [node["metadata"]["name"] for node in (await self.ask("GET", "/api/v1/nodes"))["items"]]
        asked = {"Pod": pod, "NodeNames": nodes}
        found = await self.call("filter", asked)
        if found is None or not found["NodeNames"]:
            reasons = found and {**found["FailedNodes"], **found["FailedAndUnresolvableNodes"]}
            await self._say(pod, reasons)
            return None, reasons
        scores = await self.call("prioritize", asked | {"NodeNames": found["NodeNames"]})
        if scores is None:
            return None, None
        points = {each["Host"]: each["Score"] for each in scores}
        best = max(found["NodeNames"], key=lambda name: (points.get(name, 0), name))
        metadata = pod["metadata"]
        bound = await self.call(
            "bind",
            {"PodName": metadata["name"], "PodNamespace": "default", "PodUID": metadata["uid"], "Node": best},
        )
        if bound is None:
            return None, None
        self.outcomes[_outcome(bound["Error"])] += 1
        return (None, bound["Error"]) if bound["Error"] else (best, None)

    async def preempt(self, pod, node, victims):
        """Ask whether a pod may have others leave a node; return the uids of those who are to."""
        asked = {"Pods": [{"UID": each["metadata"]["uid"]} for each in victims], "NumPDBViolations": 0}
        answer = await self.call("preempt", {"Pod": pod, "NodeNameToMetaVictims": {node: asked}})
        chosen = ((answer or {}).get("NodeNameToMetaVictims") or {}).get(node)
        return chosen and {each["UID"] for each in chosen["Pods"]}

    async def _say(self, pod, reasons):
        """Report a failed cycle; kube-scheduler takes a nomination back once no preemption would help the pod."""
        message = f"0/{len(reasons or ())} nodes are available: {sorted(set((reasons or {}).values()))}"
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        path = f"{PODS}/{pod['metadata']['name']}/status"
        status = {"conditions": [condition], "nominatedNodeName": None}
        await self.ask("PATCH", path, {"status": status}, fine=None)

    async def turn(self, *, chance: Random | None = None):
        """Try all pods that wait, once; return who was bound where."""
        waiting = [pod for pod in await self.pods() if not pod["spec"].get("nodeName")]
        if chance is not None:
            chance.shuffle(waiting)
        return {pod["metadata"]["name"]: (await self.schedule(pod))[0] for pod in waiting}

    async def settle(self, seconds=0.5):
        """Let watches and loops come to rest."""
        await asyncio.sleep(seconds)

    async def place(self, name):
        """Have a reservation placed, and return it."""
        await self.settle()
        await self.turn()
        await self.settle()
        return await self.reservation(name)


def _outcome(error):
    if not error:
        return "a bind succeeds"
    return "a bind is not answered" if "outcome of the bind is unknown" in error else "a bind fails"


async def ended(task):
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
