"""A small cluster in virtual time: our API server with a workload, and what the descheduler asks of it."""

import asyncio
import json

from controller.migration.arbitration import Arbitration
from controller.migration.evictor import Evictor
from controller.migration.informers import MigrationInformers
from controller.migration.job_objects import JobObjects
from controller.migration.metrics import DeschedulerMetrics
from controller.migration.migrations import Migrations
from controller.runtime import Runtime
from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.api.migration import crd as job_crd
from dra.api.reservations import crd as reservation_crd
from dra.engine.migration.job_cache import JobCache
from dra.engine.migration.limits import EvictionPace
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from dra.kube.transport import MERGE_PATCH, Request, Response
from dra.requests.leadership import Leadership
from localplane.objects import decode, encode
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import LoopClock, seeded

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "/apis/scheduling.koordinator.sh/v1alpha1"
JOBS = f"{GROUP}/podmigrationjobs"
RESERVATIONS = f"{GROUP}/reservations"
PODS = "/api/v1/namespaces/ns/pods"
REPLICA_SETS = "/apis/apps/v1/namespaces/ns/replicasets"
UNLIMITED = 1e6


class RecordedEvents:
    """A recorder that posts no Events and keeps their reasons and notes."""

    def __init__(self):
        self.events = []

    def record(self, event):
        self.events.append((event.reason, event.note))


class Site:
    """The cluster; `async with` it. `answers` has responses instead of those of the server."""

    def __init__(self, **args):
        self.clock = LoopClock()
        self.server = ApiServer(clock=self.clock, random=seeded(1))
        self.requests = []
        self.answers = {}
        """Part of ``METHOD path`` → response, or function that is awaited and may return one."""
        limiter = RateLimiter(UNLIMITED, int(UNLIMITED), clock=self.clock)
        self.client = Client(LocalTransport(self), limiter, clock=self.clock)
        self.cache = JobCache()
        self.metrics = DeschedulerMetrics(self.cache)
        self.recorded = RecordedEvents()
        self.args = MigrationControllerArgs.model_validate({"skipCheckExpectedReplicas": True, **args})
        self.runtime = Runtime(
            client=self.client,
            clock=self.clock,
            leadership=Leadership(),
            recorder=self.recorded,
            metrics=self.metrics,
        )
        self.informers = self.make_informers()
        self.arbitration = Arbitration(self.runtime, self.informers, cache=self.cache, args=self.args)
        self.migrations = Migrations(
            self.runtime, self.informers, cache=self.cache, args=self.args, arbitration=self.arbitration
        )
        self.evictor = self.evictor_of(EvictionPace(UNLIMITED, 1000))
        self.migrations.evictor = self.evictor
        self._tasks = []

    def make_informers(self):
        return MigrationInformers(self.client, clock=self.clock)

    def evictor_of(self, pace):
        return Evictor(self.runtime, objects=JobObjects(self.runtime, cache=self.cache), pace=pace)

    async def __aenter__(self):
        await self.ask("POST", DEFINITIONS, job_crd.custom_resource_definition())
        await self.ask("POST", DEFINITIONS, reservation_crd.custom_resource_definition())
        await self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "ns"}})
        return self

    async def __aexit__(self, *_):
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def handle(self, request):
        """Answer a request of the descheduler."""
        if "watch" in request.query:
            return await self.server.handle(request)
        line = f"{request.method} {request.path}"
        self.requests.append((line, decode(request.body) if request.body else None))
        for part, answer in self.answers.items():
            if part in line:
                given = await answer(request) if callable(answer) else answer
                if given is not None:
                    return given
        return await self.server.handle(request)

    def lines(self, part):
        """Return the requests of the descheduler that have a text in their method and path."""
        return [line for line, _ in self.requests if part in line]

    async def ask(self, method, path, body=None):
        """Ask the server as a user."""
        kind = MERGE_PATCH if method == "PATCH" else "application/json"
        raw = encode(body) if body is not None else b""
        answer = await self.server.handle(Request(method=method, path=path, body=raw, content_type=kind, timeout=30.0))
        assert answer.status < 300, answer.body
        return decode(answer.body)

    def watch(self):
        """Begin to fill the cache."""
        self._tasks.append(asyncio.ensure_future(self.informers.run()))

    async def run(self):
        """Begin to migrate."""
        self.watch()
        await self.informers.wait_for_sync()
        self._tasks += [asyncio.ensure_future(each.run()) for each in (self.migrations, self.arbitration)]

    async def workload(self, replicas=3):
        """Create a ReplicaSet and its pods, which run on node n1."""
        labels = {"app": "web"}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template(labels)}
        made = await self.ask("POST", REPLICA_SETS, {"metadata": {"name": "web"}, "spec": spec})
        return [await self.pod(f"web-{n}", owner=made["metadata"]["uid"]) for n in range(replicas)]

    async def pod(self, name, *, owner="", **spec):
        """Create a pod that runs on node n1."""
        metadata = {"name": name, "labels": {"app": "web"}}
        if owner:
            reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": owner, "controller": True}
            metadata["ownerReferences"] = [reference]
        await self.ask("POST", PODS, {"metadata": metadata, "spec": {**template({})["spec"], "nodeName": "n1", **spec}})
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        return await self.ask("PATCH", f"{PODS}/{name}/status", {"status": status})

    async def job(self, name, pod, **spec):
        """Create a job as a user."""
        body = {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "PodMigrationJob",
            "metadata": {"name": name},
            "spec": {"podRef": {"namespace": "ns", "name": pod}, **spec},
        }
        return await self.ask("POST", JOBS, body)

    async def status(self, name):
        """Return the status of a job."""
        return (await self.ask("GET", f"{JOBS}/{name}")).get("status", {})

    async def place(self, reservation, *, node="n2", owners=()):
        """Make a Reservation Available, as scheduler and controller do."""
        status = {"phase": "Available", "nodeName": node, "currentOwners": list(owners)}
        return await self.ask("PATCH", f"{RESERVATIONS}/{reservation}/status", {"status": status})

    async def reserve(self, name, *, app="web", cpu="1"):
        """Create a Reservation as a user."""
        body = {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": name},
            "spec": {
                "template": template({}, cpu=cpu),
                "owners": [{"labelSelector": {"matchLabels": {"app": app}}}],
                "ttl": "1h",
            },
        }
        return await self.ask("POST", RESERVATIONS, body)


def template(labels, *, cpu="1"):
    """Return the template of a pod."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"labels": labels}, "spec": {"containers": [container]}}


def refusal(code, reason="", message="no", *, name=""):
    """Return an error response; ``name``: of the object that it is about."""
    status = {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": message}
    status |= {"details": {"name": name}} if name else {}
    return Response(code, {"content-type": "application/json"}, json.dumps(status).encode())
