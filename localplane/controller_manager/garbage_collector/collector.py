"""The garbage collector's shell: watches all kinds, including custom ones, and carries out the graph's actions.

Events are not watched: they have no owners and expire by themselves.
"""

import asyncio
from functools import partial
from random import Random
from typing import Any, Final

import msgspec

from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.codec import ApiObject
from dra.kube.errors import Conflict, NotFound
from dra.kube.event_handlers import EventHandlerFuncs, ignore
from dra.kube.reflector import Reflector
from dra.kube.resources import (
    CLAIMS,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEVICE_CLASSES,
    SECRETS,
    SLICES,
    TEMPLATES,
    Resource,
)
from dra.kube.workqueue import WorkQueue
from dra.model.meta import ObjectMeta, OwnerReference, PartialObjectMetadata, Struct, Uid
from localplane.controller_manager.garbage_collector.graph import (
    DeleteObject,
    DependencyGraph,
    GarbageAction,
    GraphNode,
    LookUpOwner,
    RemoveFinalizer,
    RemoveOwnerReferences,
)
from localplane.controller_manager.informer import Informer

BUILTIN: Final = (
    CONFIG_MAPS,
    SECRETS,
    CLAIMS,
    TEMPLATES,
    SLICES,
    DEVICE_CLASSES,
)
"""Kinds that no other controller watches."""

UNKNOWN_KIND_RETRY_SECONDS: Final = 30.0
"""Seconds until an owner of an unknown kind is looked up again."""


class _Names(Struct, frozen=True):
    plural: str = ""
    kind: str = ""


class _Version(Struct, frozen=True):
    name: str = ""
    served: bool = False


class _DefinitionSpec(Struct, frozen=True):
    group: str = ""
    scope: str = ""
    names: _Names = _Names()
    versions: list[_Version] = msgspec.field(default_factory=list)


class CustomResourceDefinition(Struct, frozen=True):
    """A CustomResourceDefinition with the fields that name its kind."""

    metadata: ObjectMeta
    spec: _DefinitionSpec = _DefinitionSpec()

    @property
    def resource(self) -> Resource | None:
        """Return the kind that is defined, in its first served version; None if no version is served."""
        spec = self.spec
        version = next((offered.name for offered in spec.versions if offered.served), None)
        if version is None or not spec.names.plural:
            return None
        return Resource(spec.group, version, spec.names.plural, spec.names.kind, spec.scope == "Namespaced")


class GarbageCollector:
    """Deletes objects whose owners are all gone."""

    def __init__(self, client: Client, *, informers: tuple[Informer[Any], ...], clock: Clock, random: Random) -> None:
        self.graph = DependencyGraph()
        self._client = client
        self._clock = clock
        self._random = random
        self._queue: WorkQueue[Uid] = WorkQueue(clock)
        self._resources: dict[tuple[str, str], Resource] = {}
        """Watched kinds, by group and kind."""
        self._custom: dict[str, tuple[Resource, asyncio.Task[None]]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._informers = informers
        for informer in informers:
            self._add_resource(informer.resource)
            informer.add_event_handler(partial(self._observe, informer.resource))
        self._reflectors = [self._reflector(resource) for resource in BUILTIN]
        self._definitions = Reflector(
            client,
            CUSTOM_RESOURCE_DEFINITIONS,
            CustomResourceDefinition,
            handler=EventHandlerFuncs[CustomResourceDefinition](
                on_upsert=lambda definition: self._watch_custom(definition, definition.resource),
                on_delete=lambda definition: self._watch_custom(definition, None),
                on_restore=ignore,
            ),
            clock=clock,
            random=random,
        )

    @property
    def kinds(self) -> tuple[Resource, ...]:
        """Return all kinds that are served and watched."""
        return tuple(self._resources.values())

    async def run(self) -> None:
        """Collect garbage until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for reflector in self._reflectors:
                group.create_task(reflector.run(), name=f"reflect {reflector.resource.label} for garbage")
            group.create_task(self._definitions.run(), name="reflect definitions for garbage")
            for reflector in self._reflectors:
                await reflector.synced.wait()
            for informer in self._informers:
                await informer.reflector.synced.wait()
            group.create_task(self._queue.run(self._sync), name="garbage")

    def _reflector(self, resource: Resource) -> Reflector[PartialObjectMetadata]:
        self._add_resource(resource)
        handler = EventHandlerFuncs[PartialObjectMetadata](
            on_upsert=partial(self._observe, resource, deleted=False),
            on_delete=partial(self._observe, resource, deleted=True),
            on_restore=ignore,
        )
        return Reflector(
            self._client, resource, PartialObjectMetadata, handler=handler, clock=self._clock, random=self._random
        )

    def _add_resource(self, resource: Resource) -> None:
        self._resources[resource.group, resource.kind] = resource

    def _observe(self, resource: Resource, obj: ApiObject, /, *, deleted: bool) -> None:
        to_process = (
            self.graph.remove(obj.metadata.uid) if deleted else self.graph.put(GraphNode(resource, obj.metadata))
        )
        for uid in to_process:
            self._queue.add(uid)

    def _watch_custom(self, definition: CustomResourceDefinition, wanted: Resource | None) -> None:
        """Watch the kind of a definition in the wanted version, or not at all."""
        assert self._group is not None  # noqa: S101 - the reflector runs in it
        name = definition.metadata.name
        known = self._custom.get(name)
        if known is not None and known[0] != wanted:
            known[1].cancel()
            del self._custom[name]
            self._resources.pop((known[0].group, known[0].kind), None)
        if wanted is not None and name not in self._custom:
            task = self._group.create_task(self._reflector(wanted).run(), name=f"reflect {name} for garbage")
            self._custom[name] = (wanted, task)

    async def _sync(self, uid: Uid) -> float | None:
        """Carry out the actions for an object; return when to try again."""
        node = self.graph.nodes.get(uid)
        for action in self.graph.decide(uid):
            assert node is not None  # noqa: S101 - who is not there needs nothing
            if not await self._apply(node, action):
                return self._clock.now() + UNKNOWN_KIND_RETRY_SECONDS
        return None

    async def _apply(self, node: GraphNode, action: GarbageAction) -> bool:
        """Carry out one action; return False if the action has to wait."""
        try:
            match action:
                case LookUpOwner(owner):
                    return await self._look_up(node, owner)
                case DeleteObject(propagation):
                    await self._client.delete(node.resource, node.meta.key, uid=node.meta.uid, propagation=propagation)
                case RemoveOwnerReferences(dependent, owners):
                    rest = [reference for reference in dependent.owners if reference.uid not in owners]
                    await self._patch(dependent, {"ownerReferences": msgspec.to_builtins(rest) or None})
                case RemoveFinalizer(finalizer):
                    left = [other for other in node.meta.finalizers or () if other != finalizer]
                    await self._patch(node, {"finalizers": left or None})
        except NotFound:
            self._forget(node)
        except Conflict:
            await self._reread(node)
            raise
        return True

    async def _look_up(self, node: GraphNode, owner: OwnerReference) -> bool:
        group, _, _ = owner.api_version.rpartition("/")
        resource = self._resources.get((group, owner.kind))
        if resource is None:
            return False
        key = (node.meta.namespace if resource.namespaced else "", owner.name)
        try:
            stored = await self._client.get(resource, key, PartialObjectMetadata)
        except NotFound:
            self.graph.mark_absent(owner.uid)
        else:
            if stored.metadata.uid == owner.uid:
                self._observe(resource, stored, deleted=False)
            else:
                self.graph.mark_absent(owner.uid)
        self._queue.add(node.meta.uid)
        return True

    async def _patch(self, node: GraphNode, metadata: dict[str, Any]) -> None:
        changed = await self._client.merge_patch(
            node.resource,
            node.meta.key,
            {"metadata": metadata},
            model=PartialObjectMetadata,
            resource_version=node.meta.resource_version,
            uid=node.meta.uid,
        )
        self._observe(node.resource, changed, deleted=False)

    async def _reread(self, node: GraphNode) -> None:
        """Re-read an object that another client has written, or that another object has replaced."""
        try:
            current = await self._client.get(node.resource, node.meta.key, PartialObjectMetadata)
        except NotFound:
            self._forget(node)
            return
        if current.metadata.uid != node.meta.uid:
            self._forget(node)
        self._observe(node.resource, current, deleted=False)

    def _forget(self, node: GraphNode) -> None:
        for uid in self.graph.remove(node.meta.uid):
            self._queue.add(uid)
