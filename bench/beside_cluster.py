"""An API server inside a process, for `bench.beside`: 5,000 nodes with reports and 100,000 pods, which change.

The objects are those of `bench.descheduling`, kept as JSON, and claims with their Jobs and pods besides. Writes are
answered at once, and the watches show written Nodes and claims. A change is due at a time of its own, whether or not
the event loop is free then.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

from bench.descheduling_cluster import Cluster
from dra.kube.clock import SYSTEM, rfc3339
from dra.kube.transport import Request, Response
from tests.dra.engine.migration.examples import at

Json: TypeAlias = dict[str, Any]

NAMESPACE: Final = "ml"
NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/pods"
CLAIMS: Final = "/apis/resource.k8s.io/v1/resourceclaims"
JOBS: Final = "/apis/batch/v1/jobs"
METRICS: Final = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
CONFIG_MAPS: Final = "/api/v1/namespaces/koordinator-system/configmaps"

PODS_PER_CLAIM: Final = 3
BASE: Final = 1_000_000
"""The resourceVersion of all objects before the first change."""

_FIRST: Final = b'{"metadata": {"resourceVersion": "%d", ' % BASE
_REPORTED: Final = at(-30).encode()
_USED: Final = b'"cpu": "500m", "memory": "4Gi"'
_BATCH: Final = {"groupVersion": "batch/v1", "version": "v1"}
_DISCOVERY: Final[Mapping[str, Json]] = {
    "/version": {"major": "1", "minor": "37", "gitVersion": "v1.37.2"},
    "/apis/batch": {"name": "batch", "versions": [_BATCH], "preferredVersion": _BATCH},
    "/apis/batch/v1": {
        "groupVersion": "batch/v1",
        "resources": [{"name": "jobs", "kind": "Job", "namespaced": True, "verbs": ["get", "list", "watch"]}],
    },
}


def write_world(folder: Path, *, nodes: int, pods: int) -> None:
    """Write the objects of `bench.descheduling` as lines of JSON, one file for each kind."""
    files = {kind: (folder / kind).open("w", encoding="ascii") for kind in ("Node", "Pod", "NodeMetric")}

    def show(kind: str, content: str) -> None:
        versioned = content if kind == "Pod" else content.replace('{"metadata": {', _FIRST.decode(), 1)
        files[kind].write(versioned + "\n")

    Cluster(nodes=nodes, pods=pods, show=show)
    for file in files.values():
        file.close()


class SyntheticCluster:
    """Implements `dra.kube.transport.Transport`; `bench.beside_processes` makes the changes."""

    def __init__(self, world: Path, *, on_claim_written: Callable[[bytes], None]) -> None:
        self.nodes = [json.loads(line) for line in (world / "Node").read_bytes().splitlines()]
        self.pods = (world / "Pod").read_bytes().splitlines()
        self.metrics = (world / "NodeMetric").read_bytes().splitlines()
        self._nodes = {node["metadata"]["name"]: node for node in self.nodes}
        self.claims = {number_name(number): claim(number) for number in range(2 * len(self.nodes) // 5)}
        self.version = BASE
        self._on_claim_written = on_claim_written
        self._watches: dict[str, list[_Watch]] = {}
        self._random = Random(41)  # noqa: S311 - the same use in each run

    def report(self, number: int) -> bytes:
        """Return the NodeMetric of a node as it is reported now: the use of the system differs each time."""
        self.version += 1
        cpu = b'"cpu": "%dm", "memory": "4Gi"' % self._random.randrange(500, 12_000)
        head = b'{"metadata": {"resourceVersion": "%d", ' % self.version
        now = rfc3339(SYSTEM.wall()).encode()
        text = self.metrics[number].replace(_REPORTED, now, 1)
        return head + text.replace(_USED, cpu).removeprefix(_FIRST)

    def show(self, path: str, content: bytes, *, kind: str = "MODIFIED") -> None:
        """Send an event to the watches of a kind that have no selector."""
        for watch in self._watches.get(path, ()):
            watch.send(b'{"type":"%s","object":%s}\n' % (kind.encode(), content))

    def next_version(self) -> str:
        """Return the resourceVersion of the next change."""
        self.version += 1
        return str(self.version)

    async def send(self, request: Request, /) -> Response:
        """Answer at once."""
        if request.method == "GET":
            return self._read(request)
        if request.method == "PATCH" and "/resourceclaims/" in request.path:
            return self._patch_claim(request)
        if request.method == "PATCH" and request.path.startswith(f"{NODES}/"):
            return self._patch_node(request)
        if request.method == "PATCH":
            name = request.path.split("/")[-1]
            return _ok({"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": self.next_version()}})
        return Response(201, {}, request.body or b"{}")

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncIterator[AsyncIterator[bytes]]:
        """Watch; what has a selector never changes."""
        watch = _Watch()
        if not request.query.keys() & {"fieldSelector", "labelSelector"}:
            self._watches.setdefault(request.path, []).append(watch)
        yield watch.blocks()

    async def close(self) -> None:
        """Nothing is open."""

    def _read(self, request: Request) -> Response:
        if request.path in _DISCOVERY:
            return _ok(_DISCOVERY[request.path])
        if "/resourceclaims/" in request.path:
            return _ok(self.claims[request.path.split("/")[-1]])
        if "limit" not in request.query and "resourceVersion" not in request.query:
            return Response(404, {}, b'{"kind":"Status","code":404,"reason":"NotFound"}')
        begin, limit = int(request.query.get("continue") or 0), int(request.query.get("limit") or 1 << 30)
        items = list(self._items(request, begin, begin + limit))
        rest = b',"continue":"%d"' % (begin + limit) if len(items) == limit else b""
        listed = b'{"metadata":{"resourceVersion":"%d"%s},"items":[%s]}' % (self.version, rest, b",".join(items))
        return Response(200, {"content-type": "application/json"}, listed)

    def _items(self, request: Request, begin: int, end: int) -> Iterator[bytes]:
        """Yield a page of a list."""
        if request.path == CONFIG_MAPS:
            if begin == 0:
                yield _json(_CONFIGURATION)
            return
        name = request.query.get("fieldSelector", "").removeprefix("metadata.name=")
        if request.path == NODES and name in self._nodes:
            yield _json(self._nodes[name])
            return
        if request.query.keys() & {"fieldSelector", "labelSelector"}:
            return
        match request.path:
            case "/api/v1/nodes":
                yield from map(_json, self.nodes[begin:end])
            case "/api/v1/pods":
                yield from self.pods[begin:end]
                numbers = range(max(0, begin - len(self.pods)), max(0, end - len(self.pods)))
                known = numbers[: max(0, len(self.claims) * PODS_PER_CLAIM - numbers.start)]
                yield from (_json(running_pod(number, claims=len(self.claims))) for number in known)
            case path if path == METRICS:
                yield from (self.report(number) for number in range(begin, min(end, len(self.metrics))))
            case path if path == CLAIMS:
                yield from map(_json, list(self.claims.values())[begin:end])
            case path if path == JOBS:
                yield from (_json(job(number)) for number in range(begin, min(end, len(self.claims))))

    def _patch_claim(self, request: Request) -> Response:
        body = json.loads(request.body or b"")
        name = request.path.removesuffix("/status").split("/")[-1]
        before = self.claims[name]
        wanted = body.get("metadata", {}).get("resourceVersion", before["metadata"]["resourceVersion"])
        if wanted != before["metadata"]["resourceVersion"]:
            return Response(409, {}, b'{"kind":"Status","code":409,"reason":"Conflict"}')
        annotations = {**before["metadata"]["annotations"], **(body.get("metadata", {}).get("annotations") or {})}
        metadata = {**before["metadata"], "annotations": annotations, "resourceVersion": self.next_version()}
        self.claims[name] = {**before, "metadata": metadata, "status": {**before["status"], **body.get("status", {})}}
        self._on_claim_written(request.body or b"")
        self.show(CLAIMS, _json(self.claims[name]))
        return _ok(self.claims[name])

    def _patch_node(self, request: Request) -> Response:
        node = self._nodes[request.path.removesuffix("/status").split("/")[-1]]
        for part, amounts in json.loads(request.body or b"").get("status", {}).items():
            node["status"][part] = {**node["status"][part], **amounts}
        node["metadata"]["resourceVersion"] = self.next_version()
        self.show(NODES, _json(node))
        return _ok(node)


class _Watch:
    """One open watch."""

    def __init__(self) -> None:
        self._frames: list[bytes] = []
        self._changed = asyncio.Event()

    def send(self, frame: bytes) -> None:
        self._frames.append(frame)
        self._changed.set()

    async def blocks(self) -> AsyncIterator[bytes]:
        while True:
            await self._changed.wait()
            self._changed.clear()
            frames, self._frames = self._frames, []
            yield b"".join(frames)


def number_name(number: int) -> str:
    """Return the name of a claim and of its Job."""
    return f"train-{number:05}"


def job(number: int) -> Json:
    """Return a Job for which a claim is reserved."""
    name = number_name(number)
    return {"metadata": {"name": name, "namespace": NAMESPACE, "uid": f"job-{name}", "resourceVersion": str(BASE)}}


def claim(number: int) -> Json:
    """Return an allocated claim that is reserved for its Job."""
    name = number_name(number)
    entry = {"apiGroup": "batch", "resource": "jobs", "name": name, "uid": f"job-{name}"}
    guard = {"apiGroup": "reserve.dra", "resource": "guards", "name": name, "uid": f"claim-{name}"}
    node = f"node-{number:05}"
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": node, "device": "gpu-0"}
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"claim-{name}",
            "resourceVersion": str(BASE),
            "annotations": {
                "reserve.dra/reserved-for": f"jobs.batch/{name}",
                "reserve.dra/reserved-for-uid": f"job-{name}",
            },
            "finalizers": ["resource.kubernetes.io/delete-protection"],
        },
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
        "status": {
            "allocation": {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [here]}},
            "reservedFor": [entry, guard],
        },
    }


def claim_pod(name: str, claim_name: str, *, version: str, node: str = "", phase: str = "Pending") -> Json:
    """Return a pod of a Job that uses its claim; with a node, its sandbox is ready."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": claim_name, "uid": f"job-{claim_name}"}
    ready = [{"type": "PodReadyToStartContainers", "status": "True"}, {"type": "Ready", "status": "True"}]
    return {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{name}",
            "resourceVersion": version,
            "creationTimestamp": rfc3339(SYSTEM.wall()),
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": claim_name}],
        },
        "status": {"phase": phase, "conditions": ready if node and phase == "Running" else []},
    }


def running_pod(number: int, *, claims: int) -> Json:
    """Return one of the pods that run from the beginning."""
    name, node = number_name(number % claims), f"node-{number % claims:05}"
    return claim_pod(f"{name}-{number}", name, version=str(BASE), node=node, phase="Running")


_CONFIGURATION: Final = {
    "metadata": {
        "name": "slo-controller-config",
        "namespace": "koordinator-system",
        "uid": "configuration",
        "resourceVersion": str(BASE),
    },
    "data": {"colocation-config": '{"enable": true}'},
}


def _json(content: Json) -> bytes:
    return json.dumps(content).encode()


def _ok(content: Json) -> Response:
    return Response(200, {"content-type": "application/json"}, _json(content))


async def paced(rate: float, *, seconds: float) -> AsyncIterator[float]:
    """Yield the times at which something is due, each when it is; at once, those that have passed meanwhile."""
    begun = time.perf_counter()
    for number in range(int(rate * seconds)):
        due = begun + number / rate
        delay = due - time.perf_counter()
        if delay > 0:
            await asyncio.sleep(delay)
        elif number % 16 == 0:
            await asyncio.sleep(0)
        yield due
