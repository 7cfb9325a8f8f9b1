"""The namespace controller: creates default service accounts, and empties namespaces that are deleted."""

from collections.abc import Callable, Sequence
from typing import Final

from dra.kube.client import Client, Selection
from dra.kube.clock import Clock
from dra.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound
from dra.kube.resources import EVENTS, NAMESPACES, PODS, SERVICE_ACCOUNTS, Resource
from dra.kube.workqueue import WorkQueue
from dra.model.meta import PartialObjectMetadata, UnstructuredObject
from localplane.controller_manager.informer import Informer
from localplane.controller_manager.object_control import slow_start_batch

RETRY_SECONDS: Final = 1.0
"""Seconds until a namespace that still has contents is checked again."""

DEFAULT_SERVICE_ACCOUNT: Final = "default"


class NamespaceController:
    """Empties namespaces that are being deleted, and creates the service account of all others."""

    def __init__(
        self,
        client: Client,
        *,
        namespaces: Informer[PartialObjectMetadata],
        accounts: Informer[PartialObjectMetadata],
        kinds: Callable[[], Sequence[Resource]],
        clock: Clock,
    ) -> None:
        self._client = client
        self._namespaces = namespaces
        self._accounts = accounts
        self._kinds = kinds
        self._clock = clock
        self._queue: WorkQueue[str] = WorkQueue(clock)
        namespaces.add_event_handler(self._namespace_changed)
        accounts.add_event_handler(self._account_changed)

    async def run(self) -> None:
        """Reconcile namespaces until cancelled; start this when both informers have synced."""
        await self._queue.run(self._sync)

    def _namespace_changed(self, namespace: PartialObjectMetadata, *, deleted: bool) -> None:
        if not deleted:
            self._queue.add(namespace.metadata.name)

    def _account_changed(self, account: PartialObjectMetadata, *, deleted: bool) -> None:
        if deleted and account.metadata.name == DEFAULT_SERVICE_ACCOUNT:
            self._queue.add(account.metadata.namespace)

    async def _sync(self, name: str) -> float | None:
        namespace = self._namespaces.get(("", name))
        if namespace is None:
            return None
        if namespace.metadata.deleting:
            return await self._empty(name)
        if self._accounts.get((name, DEFAULT_SERVICE_ACCOUNT)) is None:
            try:
                body = {"metadata": {"name": DEFAULT_SERVICE_ACCOUNT}}
                made = await self._client.create(SERVICE_ACCOUNTS, body, model=PartialObjectMetadata, namespace=name)
            except (AlreadyExists, NotFound, Forbidden):  # Forbidden: its deletion has begun meanwhile
                return None
            self._accounts.observe(made)
        return None

    async def _empty(self, name: str) -> float | None:
        """Delete the contents of a namespace; when nothing is left, finalize the namespace."""
        left = 0
        for resource in (PODS, *(kind for kind in self._kinds() if kind.namespaced and kind != PODS), EVENTS):
            left += await self._clear(resource, name)
        if left:
            return self._clock.now() + RETRY_SECONDS
        try:
            namespace = await self._client.get(NAMESPACES, ("", name), UnstructuredObject)
            content = {**namespace.content, "spec": {**namespace.content.get("spec", {}), "finalizers": []}}
            await self._client.replace(
                NAMESPACES, ("", name), content, model=PartialObjectMetadata, subresource="finalize"
            )
        except NotFound:
            return None
        return None

    async def _clear(self, resource: Resource, namespace: str) -> int:
        """Delete all objects of a kind; return the number of objects found."""
        remaining: list[PartialObjectMetadata] = []
        try:
            async for page in self._client.list_pages(
                resource, PartialObjectMetadata, selection=Selection(namespace=namespace)
            ):
                remaining += page.items
        except NotFound:  # the kind no longer exists
            return 0

        async def delete(obj: PartialObjectMetadata) -> None:
            try:
                await self._client.delete(resource, obj.metadata.key, uid=obj.metadata.uid, propagation="Background")
            except (NotFound, Conflict):
                return

        await slow_start_batch([item for item in remaining if not item.metadata.deleting], delete)
        return len(remaining)
