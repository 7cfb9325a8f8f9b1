"""The Deployment controller's shell: reads informers, carries out plans and writes to the API server."""

from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.errors import AlreadyExists, Conflict, NotFound
from dra.kube.resources import REPLICA_SETS
from dra.kube.workqueue import WorkQueue
from dra.model.meta import Key
from localplane.controller_manager.api_types import Pod, ReplicaSet
from localplane.controller_manager.deployments.decision import DeploymentPlan, decide
from localplane.controller_manager.deployments.deployment_types import Deployment, template_contents
from localplane.controller_manager.informer import Informer
from localplane.controller_manager.object_control import ObjectControl


class DeploymentController:
    """Creates ReplicaSets of Deployments and scales them."""

    def __init__(
        self,
        client: Client,
        *,
        deployments: Informer[Deployment],
        sets: Informer[ReplicaSet],
        pods: Informer[Pod],
        clock: Clock,
    ) -> None:
        self._client = client
        self._deployments = deployments
        self._sets = sets
        self._pods = pods
        self._deployment_control = ObjectControl(client, deployments, clock=clock)
        self._set_control = ObjectControl(client, sets, clock=clock)
        self._clock = clock
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        deployments.add_event_handler(self._deployment_changed)
        sets.add_event_handler(self._set_changed)
        pods.add_event_handler(self._pod_changed)

    async def run(self) -> None:
        """Reconcile Deployments until cancelled; start this when the informers have synced."""
        await self._queue.run(self._sync)

    def _deployment_changed(self, deployment: Deployment, *, deleted: bool) -> None:
        if not deleted:
            self._queue.add(deployment.metadata.key)

    def _set_changed(self, replicas: ReplicaSet, *, deleted: bool) -> None:
        del deleted
        owner = replicas.metadata.controller
        if owner is not None and owner.kind == "Deployment":
            self._queue.add((replicas.metadata.namespace, owner.name))

    def _pod_changed(self, pod: Pod, *, deleted: bool) -> None:
        """Sync the Deployment of a deleted pod: Recreate waits for old pods, whose end no ReplicaSet reports."""
        owner = pod.metadata.controller
        if deleted and owner is not None and owner.kind == "ReplicaSet":
            replicas = self._sets.get((pod.metadata.namespace, owner.name))
            if replicas is not None:
                self._set_changed(replicas, deleted=False)

    async def _sync(self, key: Key) -> float | None:
        while (deployment := self._deployments.get(key)) is not None:
            sets = tuple(self._sets.controlled_by(deployment.metadata.uid))
            wanted = template_contents(deployment.spec.template)
            old = (replica_set for replica_set in sets if template_contents(replica_set.spec.template) != wanted)
            old_pods_running = any(
                not pod.terminal for replica_set in old for pod in self._pods.controlled_by(replica_set.metadata.uid)
            )
            plan = decide(deployment, sets, old_pods_running=old_pods_running, now=self._clock.wall())
            if not await self._apply(deployment, plan):
                return None if plan.requeue_after is None else self._clock.now() + plan.requeue_after
        return None

    async def _apply(self, deployment: Deployment, plan: DeploymentPlan) -> bool:
        """Carry out a plan; return whether any object has changed."""
        namespace = deployment.metadata.namespace
        if plan.create is not None:
            key = (namespace, plan.create["metadata"]["name"])
            try:
                created = await self._client.create(REPLICA_SETS, plan.create, model=ReplicaSet, namespace=namespace)
            except AlreadyExists:  # an earlier attempt has succeeded
                created = await self._client.get(REPLICA_SETS, key, ReplicaSet)
            self._sets.observe(created)
        for replicas, patch in plan.patches:
            await self._set_control.patch(replicas.metadata, patch)
        for replicas in plan.delete:
            try:
                await self._client.delete(REPLICA_SETS, replicas.metadata.key, uid=replicas.metadata.uid)
            except (NotFound, Conflict):
                continue
            finally:
                self._sets.forget(replicas.metadata)
        changed = bool(plan.create or plan.patches or plan.delete)
        if plan.annotations:
            changed |= await self._deployment_control.patch(
                deployment.metadata, {"metadata": {"annotations": plan.annotations}}
            )
        elif plan.status is not None:
            changed |= await self._deployment_control.patch(deployment.metadata, plan.status, subresource="status")
        return changed
