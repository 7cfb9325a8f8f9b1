"""The kubelets of all emulated nodes in one component: a client of the API server like any other.

The component watches pods, advances their state machines (`pod_workers`) and performs the resulting actions: it reads
claims, prepares devices, writes statuses and deletes objects. Each status write carries the resourceVersion it is based
on, so that no condition of another component is lost; the response is the base of the next write.

Faults are injected with `reboot`, `lose_sandbox`, `silence` and `resume`, or with the annotations below where only
kubectl is available.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from random import Random
from typing import Final

from dra.kube.client import Client
from dra.kube.clock import Clock, rfc3339
from dra.kube.errors import ApiError, Conflict, NotFound
from dra.kube.event_correlator import EventRecord, Regarding
from dra.kube.event_handlers import EventHandlerFuncs, ignore
from dra.kube.events import EventRecorder
from dra.kube.reflector import Reflector
from dra.kube.resources import CLAIMS, NODES, PODS
from dra.kube.workqueue import WorkQueue
from dra.model.claims import ResourceClaim
from dra.model.event_type import EventType
from dra.model.meta import Key, Uid
from dra.model.nodes import Node
from dra.model.pods import POD_READY_TO_START_CONTAINERS
from dra.model.releases import NEWEST, Release
from localplane.nodes import pod_workers
from localplane.nodes.cdi import CdiInjectionError
from localplane.nodes.container_devices import allocated_resources, cdi_names
from localplane.nodes.container_runtime import ContainerRuntime
from localplane.nodes.dra_manager import Checkpointer, DraManager, PrepareDynamicResourcesError, pod_claims
from localplane.nodes.drivers import Device, DeviceHealthSource, DriverError, Preparer, SimulatedDriver
from localplane.nodes.machines import Machines
from localplane.nodes.node_objects import EmulatedNode
from localplane.nodes.pod_status import generate_pod_status
from localplane.nodes.pod_types import KubeletPod, needs_update
from localplane.nodes.pod_workers import ContainerRun, PodAction, PodWorker, PodWorkerState
from localplane.schemas.builtin_schemas import Dialect

LOSE_SANDBOX: Final = "local.reserve.dra/lose-sandbox"
"""Annotation of a pod: each new value destroys the pod's sandbox."""

REBOOT: Final = "local.reserve.dra/reboot"
"""Annotation of a node: each new value reboots the node."""

SILENT: Final = "local.reserve.dra/silent"
"""Annotation of a node: while the value is ``"true"``, the node sends nothing to the API server."""

REBOOT_SECONDS: Final = 5.0
UNPREPARE_RETRY_SECONDS: Final = 5.0

START_ERROR_EXIT_CODE: Final = 128
"""Exit code of a container that failed to start."""


class Kubelets:
    """Runs the kubelets of all nodes; `run` never returns, so cancel it."""

    def __init__(  # noqa: PLR0913 - keyword-only; where, what, and the injected clock and random generator
        self,
        client: Client,
        *,
        nodes: Sequence[EmulatedNode],
        clock: Clock,
        random: Random,
        api: Dialect = Dialect.KEP,
        preparer: Preparer | None = None,
        health: DeviceHealthSource | None = None,
        checkpoint: Checkpointer | None = None,
        release: Release = NEWEST,
        leases: bool = True,
        containers: ContainerRuntime | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self._machines = Machines(
            client, nodes, clock=clock, random=random, leases=leases, release=release, on_registered=self._wake_node
        )
        self._preparer = preparer or SimulatedDriver(frozenset(spec.name for spec in nodes))
        self.dra_manager = DraManager(
            self._preparer, api=api, get_claim=self._get_claim, checkpoint=checkpoint, release=release
        )
        """The claims that are prepared on each node; public for audits."""

        self._health = health
        if health is not None:
            health.add_health_listener(self._wake_node)
        self._containers = containers
        self._started: dict[Uid, dict[str, int]] = {}
        """Number of the last run of each container that was passed to the container runtime."""

        self._pod_workers: dict[Uid, PodWorker] = {}
        self._unadopted: set[Uid] = set()
        self._queue: WorkQueue[Uid] = WorkQueue(clock)
        self._recorder = EventRecorder(client, instance="local", controller="kubelet", clock=clock)
        self._pods = Reflector(
            client,
            PODS,
            KubeletPod,
            handler=EventHandlerFuncs(on_upsert=self._update_pod, on_delete=self._on_pod_deleted, on_restore=ignore),
            keep=lambda pod: pod.spec.node_name in self._machines,
            clock=clock,
            random=random,
        )
        self._nodes = Reflector(
            client,
            NODES,
            Node,
            handler=EventHandlerFuncs(on_upsert=self._on_node, on_restore=ignore),
            clock=clock,
            random=random,
        )
        self._handled_annotations: dict[str, tuple[str | None, str | None]] = {}

    async def run(self) -> None:
        """Register the nodes and run their pods, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._machines.run(), name="machines")
            group.create_task(self._nodes.run(), name="reflect nodes for kubelets")
            group.create_task(self._pods.run(), name="reflect pods for kubelets")
            group.create_task(self._queue.run(self._sync), name="kubelets")
            group.create_task(self._recorder.run(), name="events of kubelets")
            if self._containers is not None:
                group.create_task(self._containers.run(), name="containers of kubelets")

    def reboot(self, node: str, *, seconds: float = REBOOT_SECONDS) -> None:
        """Reboot a node: the node is down for some seconds, and all its sandboxes are lost."""
        self._machines.reboot(node, seconds=seconds)
        self.dra_manager.node_rebooted(node)
        self._preparer.node_rebooted(node)
        for worker in self._workers_on(node):
            self._lose_pod_sandbox(worker)

    def lose_sandbox(self, uid: Uid) -> None:
        """Destroy the sandbox of a pod, as a crash of its pause container does."""
        worker = self._pod_workers.get(uid)
        if worker is not None:
            self._lose_pod_sandbox(worker)

    def silence(self, node: str) -> None:
        """Cut a node off from the API server; its containers keep running."""
        self._machines.silence(node)

    def resume(self, node: str) -> None:
        """Reconnect a silent node to the API server."""
        self._machines.resume(node)
        self._wake_node(node)

    def _workers_on(self, node: str) -> list[PodWorker]:
        return [worker for worker in self._pod_workers.values() if worker.node == node]

    def _lose_pod_sandbox(self, worker: PodWorker) -> None:
        pod_workers.sandbox_lost(worker, now=self._clock.now(), wall=self._wall())
        self._queue.add(worker.pod.metadata.uid)

    def _wake_node(self, node: str) -> None:
        for worker in self._workers_on(node):
            self._queue.add(worker.pod.metadata.uid)

    def _wall(self) -> str:
        return rfc3339(self._clock.wall())

    async def _get_claim(self, key: Key) -> ResourceClaim:
        return await self._client.get(CLAIMS, key, ResourceClaim)

    def _on_node(self, node: Node) -> None:
        """Act on the annotations of a node; a reboot value that is older than this process counts as done."""
        meta = node.metadata
        if meta.name not in self._machines:
            return
        wanted = (meta.annotation(REBOOT), meta.annotation(SILENT))
        before = self._handled_annotations.get(meta.name, (wanted[0], None))
        self._handled_annotations[meta.name] = wanted
        if wanted[0] is not None and wanted[0] != before[0]:
            self.reboot(meta.name)
        unknown = any(c.type == "Ready" and c.status == "Unknown" for c in node.status.conditions or ())
        if unknown and self._machines[meta.name].alive(self._clock.now()):
            self._machines.renew(meta.name)
        if wanted[1] != before[1]:
            (self.silence if wanted[1] == "true" else self.resume)(meta.name)

    def _on_pod_deleted(self, pod: KubeletPod) -> None:
        worker = self._pod_workers.get(pod.metadata.uid)
        if worker is not None:
            worker.object_deleted = True
            self._queue.add(pod.metadata.uid)

    def _update_pod(self, pod: KubeletPod) -> None:
        uid = pod.metadata.uid
        worker = self._pod_workers.get(uid)
        if worker is None:
            self._add_pod_worker(pod)
            return
        before = worker.pod
        if int(pod.metadata.resource_version) <= int(before.metadata.resource_version):
            return
        worker.pod = pod
        if pod.metadata.annotation(LOSE_SANDBOX) != before.metadata.annotation(LOSE_SANDBOX):
            pod_workers.sandbox_lost(worker, now=self._clock.now(), wall=self._wall())
        if needs_update(pod, before):
            pod_workers.pod_updated(worker, now=self._clock.now())
            self._queue.add(uid)

    def _add_pod_worker(self, pod: KubeletPod) -> None:
        """Add a worker for a pod that is bound to one of these nodes, now or before this process started."""
        if pod.terminal and not pod.metadata.deleting:
            return  # the kubelet is done with this pod
        machine, now = self._machines[pod.spec.node_name], self._clock.now()
        uid = pod.metadata.uid
        worker = PodWorker(pod, pod.spec.node_name, pod.status.pod_ip or machine.address())
        worker.runs_processes = self._containers is not None
        self._pod_workers[uid] = worker
        worker.reported_summary = worker.summary()  # a pending pod needs no status write
        if pod.terminal:
            worker.state = PodWorkerState.TERMINATED
            worker.reported_summary = worker.summary()
        elif (
            pod.has_condition(POD_READY_TO_START_CONTAINERS) and not worker.runs_processes
        ):  # processes ended with the program that ran them
            self._unadopted.add(uid)
            _adopt_containers(worker, now=now, wall=self._clock.wall())
        elif machine.spec.start_seconds:
            worker.attempt_at = now + self._random.uniform(0.0, machine.spec.start_seconds)
        self._queue.add(uid)

    async def _sync(self, uid: Uid) -> float | None:
        """Perform all due actions of a pod; return when the next one is due."""
        worker = self._pod_workers.get(uid)
        if worker is None:
            return None
        machine = self._machines[worker.node]
        while True:
            now = self._clock.now()
            if not machine.alive(now) or (machine.boots and not machine.registered):
                return None  # when the node returns, its pods are queued again
            if uid in self._unadopted:
                await self._adopt_claims(worker)
            if self._health is not None:
                devices = partial(self._devices, worker)
                worker.resources = allocated_resources(
                    worker.pod, devices, health=partial(self._health.health, worker.node)
                )
            step = pod_workers.next_action(worker, now=now, wall=self._wall())
            if self._containers is not None:
                self._sync_processes(worker, self._containers)
            if step is PodAction.NONE:
                return worker.wake_at
            if step is PodAction.FORGET:
                del self._pod_workers[uid]
                self._started.pop(uid, None)
                return None
            try:
                await self._perform(step, worker)
            except DriverError as error:
                self._warn(worker.pod, "FailedUnprepareDynamicResources", str(error))
                return self._clock.now() + UNPREPARE_RETRY_SECONDS

    def _sync_processes(self, worker: PodWorker, containers: ContainerRuntime) -> None:
        """Start and stop processes according to the state of the pod."""
        uid = worker.pod.metadata.uid
        started = self._started.setdefault(uid, {})
        specs = {container.name: container for container in worker.pod.spec.containers or ()}
        for run in worker.containers:
            if run.running and started.get(run.name) != run.number:
                started[run.name] = run.number
                on_exit = partial(self._container_exited, worker, run, run.number)
                names = cdi_names(worker.pod, specs[run.name], partial(self._devices, worker))
                try:
                    containers.start(worker.pod, specs[run.name], on_exit, devices=names)
                except CdiInjectionError as error:
                    self._warn(worker.pod, "Failed", f"Error: CDI device injection failed: {error}")
                    on_exit(START_ERROR_EXIT_CODE)
            elif run.name in started and (not run.running or worker.state is PodWorkerState.TERMINATING):
                containers.stop(uid, run.name, kill=not run.running)

    def _devices(self, worker: PodWorker, claim: str) -> tuple[Device, ...]:
        return self.dra_manager.devices(worker.node, (worker.pod.metadata.namespace, claim))

    def _container_exited(self, worker: PodWorker, run: ContainerRun, number: int, exit_code: int) -> None:
        now = self._clock.now()
        pod_workers.container_exited(worker, run, number=number, exit_code=exit_code, now=now, wall=self._wall())
        self._queue.add(worker.pod.metadata.uid)

    async def _perform(self, step: PodAction, worker: PodWorker) -> None:
        """Perform one action for a pod."""
        match step:
            case PodAction.CREATE_SANDBOX:
                await self._create_sandbox(worker)
            case PodAction.UNPREPARE:
                await self.dra_manager.unprepare(worker.node, worker.pod)
                worker.state = PodWorkerState.TERMINATED
            case PodAction.UPDATE_STATUS:
                await self._update_status(worker)
            case _:
                await self._delete_pod(worker)

    async def _create_sandbox(self, worker: PodWorker) -> None:
        """Create a sandbox if all claims of the pod can be prepared."""
        machine = self._machines[worker.node]
        boots = machine.boots
        try:
            if worker.pod.spec.resource_claims or worker.pod.status.extended_resource_claim_status:
                await self.dra_manager.prepare(worker.node, worker.pod)
        except PrepareDynamicResourcesError as error:
            pod_workers.prepare_failed(worker, now=self._clock.now(), random=self._random)
            self._warn(worker.pod, "FailedPrepareDynamicResources", str(error))
            return
        if machine.boots != boots:  # the node went down meanwhile
            self.dra_manager.node_rebooted(worker.node)
            return
        pod_workers.sandbox_created(worker, now=self._clock.now(), wall=self._wall())

    async def _update_status(self, worker: PodWorker) -> None:
        """Write the status of a pod."""
        meta = worker.pod.metadata
        summary = worker.summary()
        try:
            pod = await self._client.merge_patch(
                PODS,
                meta.key,
                {"status": generate_pod_status(worker, wall=self._wall())},
                model=KubeletPod,
                subresource="status",
                resource_version=meta.resource_version,
                uid=meta.uid,
            )
        except Conflict:
            await self._reread(worker)
            raise
        except NotFound:
            worker.object_deleted = True
        else:
            worker.reported_summary = summary
            self._update_pod(pod)

    async def _reread(self, worker: PodWorker) -> None:
        """Re-read a pod that another component has written."""
        meta = worker.pod.metadata
        try:
            pod = await self._client.get(PODS, meta.key, KubeletPod)
        except NotFound:
            worker.object_deleted = True
            return
        if pod.metadata.uid == meta.uid:
            self._update_pod(pod)
        else:
            worker.object_deleted = True

    async def _delete_pod(self, worker: PodWorker) -> None:
        """Delete the object of a pod that has ended; finalizers may keep the object until their owners act."""
        meta = worker.pod.metadata
        worker.deletion_sent = True
        try:
            await self._client.delete(PODS, meta.key, uid=meta.uid, grace_seconds=0)
        except (NotFound, Conflict):
            worker.object_deleted = True
        except ApiError:
            worker.deletion_sent = False
            raise

    async def _adopt_claims(self, worker: PodWorker) -> None:
        """Find out which claims a pod uses that was running before this process started."""
        claims: list[ResourceClaim] = []
        for name, _ in pod_claims(worker.pod):
            try:
                claims.append(await self._get_claim((worker.pod.metadata.namespace, name)))
            except NotFound:
                continue
        await self.dra_manager.adopt(worker.node, worker.pod, claims)
        self._unadopted.discard(worker.pod.metadata.uid)

    def _warn(self, pod: KubeletPod, reason: str, note: str) -> None:
        regarding = Regarding.of(PODS, pod.metadata)
        self._recorder.record(EventRecord(regarding, EventType.WARNING, reason, "Syncing", note))


def _adopt_containers(worker: PodWorker, *, now: float, wall: datetime) -> None:
    """Take over the containers of a pod from its status: their timers continue where they were."""
    statuses = {status.name: status for status in worker.pod.status.container_statuses or ()}
    for container in worker.pod.spec.containers or ():
        known = statuses.get(container.name)
        state = (known.state if known is not None else None) or {}
        run = ContainerRun(container.name, restarts=known.restart_count if known is not None else 0)
        worker.containers.append(run)
        if "running" in state:
            since = state["running"].get("startedAt") or rfc3339(wall)
            ago = (wall - datetime.fromisoformat(since)).total_seconds()
            pod_workers.container_adopted(worker, run, started_monotonic=now - max(ago, 0.0), wall=since)
        elif "terminated" in state:
            run.exit_code = int(state["terminated"].get("exitCode") or 0)
            run.started_at = run.finished_at = state["terminated"].get("finishedAt") or rfc3339(wall)
    worker.state = PodWorkerState.RUNNING
    worker.reported_summary = worker.summary()
