"""A synthetic cluster for the page: any number of nodes and pods, with every state that the page can show.

`ServedPage` runs feed and server in a thread of this process, so that a test or a bench changes single objects and sees
what a browser makes of the change.
"""

import asyncio
import secrets
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from dra.cli.page.cluster_feed import ClusterFeed, bundle_feed
from dra.cli.page.page_server import serve_page
from dra.cli.page.use_sources import UseSource
from dra.engine.claims.view import WorkloadPhase
from dra.engine.diagnosis.snapshot import ControllerLease, ControllerPresence, ReferencedWorkload, Snapshot
from dra.kube.clock import SYSTEM, rfc3339
from dra.model.claims import ResourceClaim
from dra.model.meta import ObjectMeta, UnstructuredObject
from dra.model.scheduling import SchedulerPod

DRIVER: Final = "gpu.example.com"
NAMESPACES: Final = ("ml", "vision", "search", "speech", "batch")
WORKLOADS: Final = ("train", "finetune", "embed", "rank", "detect", "evaluate", "distill", "serve")
LEADER: Final = ControllerLease(
    presence=ControllerPresence.RUNNING,
    name="dra-reserve/dra-reserve-controller",
    holder="dra-reserve-controller-7d9f-x2",
    seconds=2,
)

NOT_READY: Final = range(7, 100_000, 40)
CORDONED: Final = range(11, 100_000, 50)
"""Numbers of the nodes that are not ready, or cordoned."""

T = TypeVar("T")


def _meta(name: str, namespace: str = "", **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    metadata = {"name": name, "uid": f"uid-{namespace}-{name}", "resourceVersion": "1", **more}
    return {**metadata, "namespace": namespace} if namespace else metadata


def node(name: str, *, ready: bool = True, cordoned: bool = False) -> dict[str, Any]:
    """Return a Node."""
    return {
        "metadata": _meta(name, labels={"kubernetes.io/hostname": name}),
        "spec": {"unschedulable": cordoned},
        "status": {
            "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}],
            "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "250"},
        },
    }


def resource_slice(on: str, devices: int, *, tainted: int = -1) -> dict[str, Any]:
    """Return the ResourceSlice of a node; one device may be tainted."""
    taint = [{"key": "gpu.example.com/unhealthy", "value": "xid-79", "effect": "NoSchedule"}]
    return {
        "metadata": _meta(f"{on}-gpus"),
        "spec": {
            "driver": DRIVER,
            "nodeName": on,
            "pool": {"name": on, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {"name": f"gpu-{index}", **({"taints": taint} if index == tainted else {})} for index in range(devices)
            ],
        },
    }


def claim(
    name: str, namespace: str, *devices: str, workload: str = "", count: int = 1, version: int = 1, since: str = ""
) -> dict[str, Any]:
    """Return a ResourceClaim; the devices are NODE/DEVICE."""
    reference = {"apiGroup": "batch", "resource": "jobs", "name": workload, "uid": f"uid-{namespace}-job-{workload}"}
    status: dict[str, Any] = {"reservedFor": [reference]} if workload and devices else {}
    if devices:
        pools = [device.split("/") for device in devices]
        here = {"key": "metadata.name", "operator": "In", "values": sorted({pool for pool, _ in pools})}
        status["allocation"] = {
            "devices": {
                "results": [{"request": "gpu", "driver": DRIVER, "pool": pool, "device": name} for pool, name in pools]
            },
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]},
            "allocationTimestamp": since or rfc3339(SYSTEM.wall()),
        }
    annotations = {"annotations": {"reserve.dra/reserved-for": f"jobs.batch/{workload}"}} if workload else {}
    exactly = {"deviceClassName": DRIVER, "count": count}
    return {
        "metadata": {**_meta(name, namespace, **annotations), "resourceVersion": str(version)},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        "status": status,
    }


def pod(  # noqa: PLR0913 - keyword-only: what tests vary
    name: str, namespace: str, claimed: str, *, on: str = "", why: str = "", job: str = "", version: int = 1
) -> dict[str, Any]:
    """Return a Pod that uses a claim: running on a node, or unschedulable for a reason; ``job`` controls it."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-{namespace}-job-{job}"}
    owners = {"ownerReferences": [{**owner, "controller": True}]} if job else {}
    conditions = [{"type": "PodReadyToStartContainers", "status": "True"}] if on else []
    if why:
        conditions.append({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why})
    return {
        "metadata": {**_meta(name, namespace, **owners), "resourceVersion": str(version)},
        "spec": {
            "nodeName": on,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": claimed}],
        },
        "status": {"phase": "Running" if on else "Pending", "conditions": conditions},
    }


def _unstructured(content: dict[str, Any]) -> UnstructuredObject:
    return UnstructuredObject(metadata=msgspec.convert(content["metadata"], ObjectMeta), content=content)


def reservation(
    name: str, on: str, phase: str, *, created: datetime, ttl: str = "", owner: str = "train"
) -> UnstructuredObject:
    """Return a Reservation."""
    requests = {"cpu": "8", "memory": "64Gi"}
    return _unstructured(
        {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": _meta(name, creationTimestamp=rfc3339(created)),
            "spec": {
                "template": {"spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]}},
                "owners": [{"labelSelector": {"matchLabels": {"app": owner}}}],
                **({"ttl": ttl} if ttl else {}),
            },
            "status": {"phase": phase, "nodeName": on, "allocatable": requests if on else {}},
        }
    )


def migration(name: str, moved: str, namespace: str, phase: str, *, created: datetime) -> UnstructuredObject:
    """Return a PodMigrationJob."""
    return _unstructured(
        {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "PodMigrationJob",
            "metadata": _meta(name, creationTimestamp=rfc3339(created)),
            "spec": {"podRef": {"namespace": namespace, "name": moved}, "mode": "ReservationFirst", "ttl": "30m"},
            "status": {"phase": phase, "nodeName": ""},
        }
    )


def proposed(name: str, moved: str, namespace: str, *, created: datetime, why: str) -> UnstructuredObject:
    """Return a PodMigrationJob of the descheduler that waits for a person."""
    annotations = {
        "koordinator.sh/job-created-by": "dra-reserve-descheduler",
        "koordinator.sh/evict-trigger": "LowNodeUtilization",
        "koordinator.sh/evict-reason": why,
        "reserve.dra/approval": "Required",
        "reserve.dra/profile": "default",
        "reserve.dra/descheduling-round": rfc3339(created),
    }
    waiting = migration(name, moved, namespace, "Pending", created=created)
    metadata = {**waiting.content["metadata"], "annotations": annotations}
    return _unstructured(
        {**waiting.content, "metadata": metadata, "spec": {**waiting.content["spec"], "paused": True}},
    )


def cluster(*, nodes: int, pods: int, devices: int = 2, free: int = 10) -> Snapshot:
    """Return a snapshot in which all pods use claims; every ``free``-th device has none."""
    now = SYSTEM.wall()
    names = [f"node-{index + 1}" for index in range(nodes)]
    slots = [(name, f"{name}/gpu-{index}") for name in names for index in range(devices)]
    used = [slot for number, slot in enumerate(slots) if number % free]
    tainted = max(2, nodes // 8)
    found_claims, found_pods, workloads = [], [], []
    for number, (on, device) in enumerate(used):
        namespace = NAMESPACES[number % len(NAMESPACES)]
        workload = f"{WORKLOADS[number // len(NAMESPACES) % len(WORKLOADS)]}-{number // 40}"
        since = rfc3339(now - timedelta(minutes=7 * (number % 200)))
        found_claims.append(claim(f"{workload}-{number}", namespace, device, workload=workload, since=since))
        found_pods += [
            pod(f"{workload}-{number}-{index}", namespace, f"{workload}-{number}", on=on, job=workload)
            for index in range(pods // max(1, len(used)) + (number < pods % max(1, len(used))))
        ]
        workloads.append((namespace, workload))
    content = {
        "nodes": [
            node(name, ready=number not in NOT_READY, cordoned=number in CORDONED)
            for number, name in enumerate(names, 1)
        ],
        "slices": [
            resource_slice(name, devices, tainted=0 if number % tainted == 1 else -1)
            for number, name in enumerate(names)
        ],
        "claims": found_claims,
        "pods": found_pods,
        "classes": [{"metadata": {"name": DRIVER}, "spec": {"selectors": [{"cel": {"expression": "true"}}]}}],
    }
    snapshot = msgspec.convert(content, Snapshot)
    referenced = tuple(
        ReferencedWorkload(
            resource="jobs",
            group="batch",
            namespace=namespace,
            name=name,
            phase=WorkloadPhase.PRESENT,
            uid=msgspec.convert(f"uid-{namespace}-job-{name}", str),  # type: ignore[arg-type] # a Uid
        )
        for namespace, name in dict.fromkeys(workloads)
    )
    return msgspec.structs.replace(
        snapshot,
        taken=rfc3339(now),
        server="v1.37.2",
        leader=LEADER,
        workloads=referenced,
        reservations=(
            reservation("next-train", "node-1", "Available", created=now - timedelta(minutes=40), ttl="2h"),
            reservation("night-batch", "node-2", "Available", created=now - timedelta(hours=3), ttl="8h"),
            reservation("maintenance", "", "Pending", created=now - timedelta(minutes=3), ttl="1h"),
            reservation("done", "node-3", "Succeeded", created=now - timedelta(hours=5), ttl="4h"),
        ),
        migrations=(
            migration("train-0-1a2b", "train-0-1-0", "vision", "Running", created=now - timedelta(minutes=6)),
            migration("rank-3-9c0d", "rank-0-3-0", "speech", "Failed", created=now - timedelta(minutes=50)),
            proposed(
                "rank-4-77aa",
                "rank-0-4-0",
                "speech",
                created=now - timedelta(minutes=3),
                why="node is overutilized, requested cpu(88.00%)>target(50.00%)",
            ),
        ),
        descheduler=msgspec.structs.replace(LEADER, name="dra-reserve/dra-reserve-descheduler"),
    )


def waiting_cluster(*, nodes: int = 24, pods: int = 240) -> Snapshot:
    """Return a cluster with claims that wait, leaks and other problems, for screenshots and tests of each view."""
    usual = cluster(nodes=nodes, pods=pods, devices=8, free=5)
    why = f"0/{nodes} nodes are available: {nodes} cannot allocate all claims."
    more = msgspec.convert(
        {
            "claims": [
                claim("huge", "ml", count=8),
                claim("nightly", "batch", workload="nightly", count=2),
                *(claim(f"sweep-learning-rate-{number}", "speech", count=9) for number in range(10)),
                claim("forgotten", "vision", "node-1/gpu-0"),
                claim("lost", "search", "node-2/gpu-9", workload="gone"),
            ],
            "pods": [
                *(pod(f"huge-{index}", "ml", "huge", why=why) for index in range(12)),
                *(pod(f"nightly-{index}", "batch", "nightly", why=why) for index in range(3)),
                *(
                    pod(f"sweep-learning-rate-{number}", "speech", f"sweep-learning-rate-{number}", why=why)
                    for number in range(10)
                ),
            ],
        },
        Snapshot,
    )
    return msgspec.structs.replace(usual, claims=(*usual.claims, *more.claims), pods=(*usual.pods, *more.pods))


class ServedPage:
    """A page that is served from a thread of this process."""

    def __init__(self, snapshot: Snapshot, *, use: UseSource | None = None) -> None:
        self._snapshot = snapshot
        self._use = use
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="page server", daemon=True)
        self._started = threading.Event()
        self._stopping = asyncio.Event()
        self._secret = secrets.token_urlsafe(32)
        self._port = 0
        self._version = 1
        self.url = ""
        self.feed: ClusterFeed | None = None

    def start(self) -> None:
        """Start the thread and wait until every row is there."""
        self._thread.start()
        self._started.wait()
        self.wait(lambda feed: feed.stream.is_ready)

    def stop(self) -> None:
        """Stop the server and its thread."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def change(self, *objects: ResourceClaim | SchedulerPod) -> None:
        """Observe new versions of claims and pods, as a watch would deliver them."""
        assert self.feed is not None  # noqa: S101 - started
        for obj in objects:
            cluster_state = self.feed.cluster
            observe: Callable[[Any], None] = (
                cluster_state.observe_claim if isinstance(obj, ResourceClaim) else cluster_state.observe_pod
            )
            self._loop.call_soon_threadsafe(self.feed.queue, partial(observe, obj))

    def next_version(self) -> int:
        """Return a resourceVersion that is newer than all before."""
        self._version += 1
        return self._version

    def wait(self, condition: Callable[[ClusterFeed], bool]) -> None:
        """Wait until a condition holds in the server's event loop."""

        async def wait_for(feed: ClusterFeed) -> None:
            while not condition(feed):  # noqa: ASYNC110 - any condition
                await asyncio.sleep(0.01)

        assert self.feed is not None  # noqa: S101 - started
        self.run(wait_for(self.feed))

    def run(self, work: Awaitable[T]) -> T:
        """Run a coroutine in the server's event loop."""

        async def run() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(timeout=120)

    def restart_server(self) -> None:
        """Close the listener and all connections, and listen again at the same port."""
        assert self._restart is not None  # noqa: S101 - started
        self.run(self._restart())

    _restart: Callable[[], Awaitable[None]] | None = None

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        async with bundle_feed(self._snapshot, now=SYSTEM.wall()) as feed:
            self.feed = feed
            server = serve_page(feed, port=0, secret=self._secret, use=self._use)
            self.url = await server.__aenter__()
            self._port = int(self.url.split(":")[2].partition("/")[0])

            async def restart() -> None:
                nonlocal server
                await server.__aexit__(None, None, None)
                server = serve_page(feed, port=self._port, secret=self._secret, use=self._use)
                await server.__aenter__()

            self._restart = restart
            self._started.set()
            await self._stopping.wait()
            await server.__aexit__(None, None, None)


@contextmanager
def served_page(snapshot: Snapshot, *, use: UseSource | None = None) -> Iterator[ServedPage]:
    """Yield a served page of a snapshot; ``use``: knows the use of devices over time."""
    page = ServedPage(snapshot, use=use)
    page.start()
    try:
        yield page
    finally:
        page.stop()
