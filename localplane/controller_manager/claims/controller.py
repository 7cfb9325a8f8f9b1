"""The loop of the stock claim controller, which runs beside dra-reserve in mode ``alongside``."""

import asyncio
from random import Random
from typing import Any

from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.errors import NotFound
from dra.kube.resources import CLAIMS, PODS, TEMPLATES
from dra.kube.workqueue import WorkQueue
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, Uid
from dra.model.pods import Pod, claim_names
from dra.model.templates import ResourceClaimTemplate
from localplane.controller_manager.claims import decide
from localplane.controller_manager.informer import Informer
from localplane.controller_manager.object_control import ObjectControl


class ClaimController:
    """Generates, lists and deallocates claims, with informers of its own; `run` never returns, so cancel it."""

    def __init__(self, client: Client, *, clock: Clock, random: Random) -> None:
        self._client = client
        self._claims = Informer(client, CLAIMS, ResourceClaim, clock=clock, random=random)
        self._templates = Informer(client, TEMPLATES, ResourceClaimTemplate, clock=clock, random=random)
        self._pods = Informer(client, PODS, Pod, clock=clock, random=random)
        self._claim_control = ObjectControl(client, self._claims, clock=clock)
        self._pod_control = ObjectControl(client, self._pods, clock=clock)
        self._pods_by_uid: dict[Uid, Pod] = {}
        self._users: dict[Key, set[Key]] = {}
        """Claim → the pods that name it."""

        self._waiting: dict[Key, set[Key]] = {}
        """Template that does not exist → the pods that wait for it."""

        self._claim_queue: WorkQueue[Key] = WorkQueue(clock)
        self._pod_queue: WorkQueue[Key] = WorkQueue(clock)
        self._claims.add_event_handler(self._claim_changed)
        self._templates.add_event_handler(self._template_changed)
        self._pods.add_event_handler(self._pod_changed)

    async def run(self) -> None:
        """Reconcile claims and pods until cancelled."""
        informers: tuple[Informer[Any], ...] = (self._claims, self._templates, self._pods)
        async with asyncio.TaskGroup() as group:
            for informer in informers:
                group.create_task(informer.reflector.run(), name=f"reflect {informer.resource.label} for claims")
            for informer in informers:
                await informer.reflector.synced.wait()
            group.create_task(self._claim_queue.run(self._sync_claim), name="stock claims")
            group.create_task(self._pod_queue.run(self._sync_pod), name="claims of pods")

    def _claim_changed(self, claim: ResourceClaim, *, deleted: bool) -> None:
        if not deleted:
            self._claim_queue.add(claim.metadata.key)
        for pod in self._users.get(claim.metadata.key, ()):
            self._pod_queue.add(pod)

    def _template_changed(self, template: ResourceClaimTemplate, *, deleted: bool) -> None:
        if not deleted:
            for pod in self._waiting.pop(template.metadata.key, ()):
                self._pod_queue.add(pod)

    def _pod_changed(self, pod: Pod, *, deleted: bool) -> None:
        key = pod.metadata.key
        if deleted:
            self._pods_by_uid.pop(pod.metadata.uid, None)
        else:
            self._pods_by_uid[pod.metadata.uid] = pod
            self._pod_queue.add(key)
        for name in claim_names(pod):
            claim = (key[0], name)
            users = self._users.setdefault(claim, set())
            (users.discard if deleted else users.add)(key)
            if not users:
                del self._users[claim]
            self._claim_queue.add(claim)

    async def _sync_claim(self, key: Key) -> None:
        while (claim := self._claims.get(key)) is not None:
            await self._read_unknown_pods(claim)
            plan = decide.plan_claim(claim, self._pods_by_uid)
            if plan.status is not None:
                await self._claim_control.patch(claim.metadata, {"status": plan.status}, subresource="status")
            elif plan.finalizers is not None:
                await self._claim_control.patch(claim.metadata, {"metadata": {"finalizers": plan.finalizers or None}})
            elif plan.delete:
                await self._claim_control.delete(claim)
            else:
                return

    async def _read_unknown_pods(self, claim: ResourceClaim) -> None:
        """Read listed pods that no watch has shown, as upstream does: without that, a new pod would lose its entry."""
        for entry in claim.entries:
            if entry.is_pod and entry.uid not in self._pods_by_uid:
                try:
                    self._pods.observe(await self._client.get(PODS, (claim.metadata.namespace, entry.name), Pod))
                except NotFound:
                    continue

    async def _sync_pod(self, key: Key) -> None:
        pod = self._pods.get(key)
        if pod is None or pod.terminal or pod.metadata.deleting:
            return
        for entry in decide.lacking_entries(pod, self._owned(pod)):
            template_key = (key[0], entry.resource_claim_template_name or "")
            template = self._templates.get(template_key)
            if template is None:
                self._waiting.setdefault(template_key, set()).add(key)
            else:
                manifest = decide.claim_manifest(pod, entry.name, template)
                await self._claim_control.create(manifest, namespace=key[0])
        statuses = decide.claim_statuses(pod, self._owned(pod))
        if statuses is not None:
            body = {"status": {"resourceClaimStatuses": statuses}}
            await self._pod_control.patch(pod.metadata, body, subresource="status")
        elif pod.spec.node_name:
            await self._list(pod)

    def _owned(self, pod: Pod) -> tuple[ResourceClaim, ...]:
        return tuple(self._claims.controlled_by(pod.metadata.uid))

    async def _list(self, pod: Pod) -> None:
        for name in claim_names(pod):
            claim = self._claims.get((pod.metadata.namespace, name))
            status = decide.listing_patch(claim, pod) if claim is not None else None
            if claim is not None and status is not None:
                await self._claim_control.patch(claim.metadata, {"status": status}, subresource="status")
