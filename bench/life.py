"""The whole plane: a Job of 10,000 pods on one claim reserved for it, from its creation to its end.

Server, scheduler, kubelets of 20 nodes and controllers in one process, with the system's clock. The stages are kept
apart so that each shows its own cost: the scheduler begins when all pods are there, and the containers end when all
have run. Only *bound* and *running* overlap, as a kubelet starts a pod as soon as it is bound.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from random import Random
from typing import Any, Final

from dra.kube.tasks import background_task
from dra.kube.transport import JSON, Request, Response
from dra.model.meta import Uid
from localplane.nodes.kubelets import Kubelets
from localplane.nodes.pod_types import Container, KubeletPod
from localplane.objects import decode, encode
from localplane.plane import components
from localplane.plane.local_plane import LocalPlane
from localplane.plane.options import PlaneOptions
from localplane.plane.process_settings import relax_garbage_collector
from localplane.scheduler.scheduler import Scheduler
from localplane.store import ObjectKey, Store, WatchEventType

NODES: Final = 20
LOOK: Final = 0.2
"""Seconds between two looks at what the pods have come to."""

LIMIT: Final = 240.0
"""Seconds after which it has evidently failed."""

PODS: Final = "pods"
CREATED: Final = b'"uid":"'
BOUND: Final = b'"nodeName":"'
RUNNING: Final = b'"phase":"Running"'
SUCCEEDED: Final = b'"phase":"Succeeded"'
"""Marks in the JSON of pods that have come to a stage."""

_RESOURCE: Final = "/apis/resource.k8s.io/v1"


class Held:
    """Containers that run until all are let go; a `localplane.nodes.container_runtime.ContainerRuntime`."""

    def __init__(self) -> None:
        self._running: dict[tuple[Uid, str], Callable[[int], None]] = {}

    def start(
        self, pod: KubeletPod, container: Container, ended: Callable[[int], None], *, devices: Sequence[str] = ()
    ) -> None:
        """Take a container in."""
        del devices
        self._running[pod.metadata.uid, container.name] = ended

    def stop(self, uid: Uid, name: str, *, kill: bool) -> None:  # noqa: ARG002 - the protocol's
        """Let one go."""
        self._running.pop((uid, name), None)

    async def run(self) -> None:
        """Nobody ends one but `let_go` and `stop`."""
        await asyncio.get_running_loop().create_future()

    def let_go(self) -> None:
        """End all, with success."""
        running, self._running = self._running, {}
        for ended in running.values():
            ended(0)


class MarkedPods:
    """Counts the pods whose JSON has each mark, from the history of the store: to decode them would be felt."""

    def __init__(self, store: Store, *marks: bytes) -> None:
        self._store = store
        self._revision = store.revision
        self._counts = dict.fromkeys(marks, 0)

    def count(self, mark: bytes) -> int:
        """Return the number of pods that have a mark now."""
        for event in self._store.events_since(PODS, self._revision):
            now = b"" if event.type is WatchEventType.DELETED else event.object.raw
            before = event.previous.raw if event.previous is not None else b""
            for known in self._counts:
                self._counts[known] += (known in now) - (known in before)
            self._revision = event.object.revision
        return self._counts[mark]


class Life:
    """One plane, and what its pods have come to."""

    def __init__(self, pods: int) -> None:
        self._pods = pods
        options = PlaneOptions(nodes=NODES, devices=0)
        self._plane = LocalPlane(options, random=Random(1))  # noqa: S311 - to be the same each time
        self._held = Held()
        self._go = asyncio.Event()
        self._plane.add_component(components.KUBELETS, self._kubelets)
        self._plane.add_component(components.SCHEDULER, self._scheduler)

    async def measure(self) -> dict[str, float]:
        """Return the seconds of each stage, pods a second, and milliseconds of CPU time for each pod."""
        relax_garbage_collector()  # as `dra-reserve local up` does
        figures: dict[str, float] = {}
        store = self._plane.server.store
        pods = MarkedPods(store, CREATED, BOUND, RUNNING, SUCCEEDED)
        async with background_task(self._plane.run(), name="plane"), asyncio.timeout(LIMIT):
            await self._plane.wait_ready()
            began = time.perf_counter()
            await self._prepare()
            await self._stage(figures, {"created": partial(pods.count, CREATED)})
            self._go.set()
            await self._stage(figures, {"bound": partial(pods.count, BOUND), "running": partial(pods.count, RUNNING)})
            self._held.let_go()
            await self._stage(figures, {"ended": partial(pods.count, SUCCEEDED), "counted": self._counted})
            figures["whole life, s"] = time.perf_counter() - began
        return figures

    async def _stage(self, figures: dict[str, float], stages: dict[str, Callable[[], int]]) -> None:
        """Wait until all pods have come to the end of the stages; they begin now."""
        began, cpu = time.perf_counter(), time.process_time()
        while stages:
            await asyncio.sleep(LOOK)
            for name in [name for name, count in stages.items() if count() >= self._pods]:
                del stages[name]
                seconds = time.perf_counter() - began
                figures[f"{name}, s"], figures[f"{name}, pods/s"] = seconds, self._pods / seconds
                figures[f"{name}, CPU ms/pod"] = (time.process_time() - cpu) * 1000 / self._pods

    def _counted(self) -> int:
        """Count the pods that the Job has counted for good: when it is complete."""
        job = self._plane.server.store.get(ObjectKey("jobs.batch", "default", "train"))
        status = decode(job.raw)["status"] if job is not None else {}
        complete = any(condition["type"] == "Complete" for condition in status.get("conditions", ()))
        return int(status["succeeded"]) if complete else 0

    async def _prepare(self) -> None:
        """Create a device that is reached from everywhere, a claim on it for the Job, and the Job."""
        expression = 'device.driver == "fabric.example.com"'
        await self._post(f"{_RESOURCE}/deviceclasses", "fabric", {"selectors": [{"cel": {"expression": expression}}]})
        pool = {"name": "fabric", "generation": 1, "resourceSliceCount": 1}
        devices = {"driver": "fabric.example.com", "pool": pool, "allNodes": True, "devices": [{"name": "port"}]}
        await self._post(f"{_RESOURCE}/resourceslices", "fabric", devices)
        requests = [{"name": "port", "exactly": {"deviceClassName": "fabric"}}]
        used = {"claims": [{"name": "port"}]}
        pod = {
            "containers": [{"name": "main", "image": "train", "resources": used}],
            "resourceClaims": [{"name": "port", "resourceClaimName": "train"}],
            "restartPolicy": "Never",
        }
        job = {"parallelism": self._pods, "completions": self._pods, "template": {"spec": pod}}
        uid = await self._post("/apis/batch/v1/namespaces/default/jobs", "train", job)
        owner = {"apiGroup": "batch", "resource": "jobs", "name": "train", "uid": uid}
        claim = {"devices": {"requests": requests}, "reservedFor": owner}
        await self._post(f"{_RESOURCE}/namespaces/default/resourceclaims", "train", claim)

    async def _post(self, path: str, name: str, spec: dict[str, Any]) -> str:
        body = encode({"metadata": {"name": name}, "spec": spec})
        answer = await self._plane.handler_for("user").handle(
            Request(method="POST", path=path, body=body, content_type=JSON, timeout=10.0)
        )
        if not isinstance(answer, Response) or answer.status != HTTPStatus.CREATED:
            raise SystemExit(f"{path}: {answer}")
        return str(decode(answer.body)["metadata"]["uid"])

    async def _kubelets(self) -> None:
        nodes = components.emulated_nodes(self._plane.options)
        client, random = self._plane.client(components.KUBELETS), Random(2)  # noqa: S311
        await Kubelets(client, nodes=nodes, clock=self._plane.clock, random=random, containers=self._held).run()

    async def _scheduler(self) -> None:
        await self._go.wait()
        client, random = self._plane.client(components.SCHEDULER), Random(3)  # noqa: S311
        await Scheduler(client, clock=self._plane.clock, random=random).run()
