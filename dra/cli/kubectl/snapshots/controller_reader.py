"""Reads the controllers of pods, and their controllers: the pods of a Deployment are controlled by its ReplicaSets.

Each level is one list of metadata for each kind, whatever the number of pods.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final, TypeAlias

from dra.cel.object_rules import RuleError, WorkloadLifecycle, WorkloadRules, compile_workload_rules
from dra.engine.claims.view import WorkloadPhase
from dra.engine.diagnosis.snapshot import PodController, Snapshot, UnreadResource
from dra.kube.client import Client, Selection
from dra.kube.codec import decode_object
from dra.kube.discovery import Discovery
from dra.kube.errors import ApiError, NotFound
from dra.kube.object_sizes import EVALUATED_MEMORY_MAX, plain_data_bytes_max
from dra.kube.resources import InvalidNameError, Resource
from dra.model.meta import ObjectMeta, OwnerReference, PartialObjectMetadata, RawObject, Uid, UnstructuredObject
from dra.model.references import GroupResource
from dra.model.scheduling import SchedulerPod
from dra.model.workload_reservations import NO_UID
from dra.model.workload_types import RELEASE_RULES, SUSPENDED_RULES, WORKLOAD_TYPES

_UNKNOWN_LIFECYCLE: Final = WorkloadLifecycle()

LEVELS_MAX: Final = 5
"""Maximum number of controllers above each other: pods of a TrainJob have three."""


class UnknownWorkloadError(Exception):
    """The kind or the name of a workload is unknown; the text says which."""


@cache
def workload_rules() -> Mapping[GroupResource, WorkloadRules]:
    """Return the compiled rules of the kinds of workloads; the page asks for them every few seconds."""
    return compile_workload_rules(RELEASE_RULES, SUSPENDED_RULES)


def evaluate_lifecycle(rules: WorkloadRules, content: Mapping[str, Any]) -> WorkloadLifecycle:
    """Evaluate the rules of a kind; without a result, the workload has not finished, as in the controller."""
    try:
        return rules.evaluate(content)
    except RuleError:
        return _UNKNOWN_LIFECYCLE


_Version: TypeAlias = tuple[Uid, str, str | None]
"""The uid, resourceVersion and apiVersion of an object: an object with the same three has the same content."""


class LifecycleCache:
    """The lifecycles of workloads that are read again and again; a workload that has not changed is not evaluated."""

    def __init__(self) -> None:
        self._before: dict[_Version, WorkloadLifecycle] = {}
        self._now: dict[_Version, WorkloadLifecycle] = {}

    def evaluate(self, rules: WorkloadRules, workload: UnstructuredObject) -> WorkloadLifecycle:
        """Return what `evaluate_lifecycle` returns for a workload."""
        metadata = workload.metadata
        if not (metadata.uid and metadata.resource_version):
            return evaluate_lifecycle(rules, workload.content)
        version = (metadata.uid, metadata.resource_version, workload.content.get("apiVersion"))
        known = self._before.get(version)
        self._now[version] = known if known is not None else evaluate_lifecycle(rules, workload.content)
        return self._now[version]

    def evaluate_raw(self, rules: WorkloadRules, resource: Resource, workload: RawObject) -> WorkloadLifecycle:
        """Return the lifecycle of a workload, which is decoded only if it is not known; of too large a one nothing."""
        metadata = workload.metadata
        version = (metadata.uid, metadata.resource_version, resource.api_version)
        known = self._before.get(version)
        if known is not None:
            self._now[version] = known
            return known
        if plain_data_bytes_max(workload.raw) > EVALUATED_MEMORY_MAX:
            return _UNKNOWN_LIFECYCLE
        return self.evaluate(rules, decode_object(resource, workload))

    def end_read(self) -> None:
        """Forget the workloads that were not evaluated since the last call."""
        self._before, self._now = self._now, {}


class ControllerReader:
    """Reads controllers; what cannot be read is a gap."""

    def __init__(self, client: Client, discovery: Discovery, *, namespace: str | None) -> None:
        """Create a reader for one namespace, or for all."""
        self._client = client
        self._discovery = discovery
        self._namespace = namespace
        self.gaps: list[UnreadResource] = []

    async def resolve(self, wanted: GroupResource) -> Resource:
        """Return the kind for any name that kubectl accepts; raise UnknownWorkloadError for an unknown one."""
        canonical = await self._discovery.expand_shortcut(wanted)
        resource = None
        # The same name in another group is another kind.
        if canonical is not None and canonical.group in (wanted.group or canonical.group, wanted.unversioned.group):
            resource = await self._discovery.resolve(canonical)
        if resource is None:
            raise UnknownWorkloadError(f"{wanted}: the server serves no namespaced kind of that name")
        return resource

    async def read_object(self, resource: Resource, name: str) -> PodController:
        """Return one object, whether or not it controls pods; without a uid if it does not exist."""
        rules = workload_rules().get(_group_resource(resource))
        key = (self._namespace or "", name)
        try:
            if rules is None:
                return _controller(resource, (await self._client.get(resource, key, PartialObjectMetadata)).metadata)
            controller = await self._client.get(resource, key, UnstructuredObject)
        except NotFound:
            return _controller(resource, ObjectMeta(namespace=key[0], name=name))
        except InvalidNameError as error:
            raise UnknownWorkloadError(str(error)) from error
        return _controller(resource, controller.metadata, evaluate_lifecycle(rules, controller.content))

    async def read_controllers(self, pods: Iterable[SchedulerPod]) -> list[PodController]:
        """Return the controllers of pods, and their controllers."""
        controllers: dict[Uid, PodController] = {}
        seen: set[tuple[str, str]] = set()
        owners = [pod.metadata.controller for pod in pods if self._namespace in {None, pod.metadata.namespace}]
        for _ in range(LEVELS_MAX):
            kinds = {_kind(owner) for owner in owners if owner is not None} - seen
            seen |= kinds
            level = [controller for kind in sorted(kinds) for controller in await self._list_kind(*kind)]
            owners = [metadata.controller for _, metadata in level]
            controllers |= {metadata.uid: _controller(resource, metadata) for resource, metadata in level}
        return [controllers[uid] for uid in sorted(_ancestors(pods, controllers))]

    async def _list_kind(self, group: str, kind: str) -> list[tuple[Resource, ObjectMeta]]:
        listed: list[tuple[Resource, ObjectMeta]] = []
        try:
            resource = await self._discovery.resolve_kind(group, kind)
            if resource is None or not resource.namespaced:  # static pods have a Node as controller
                return []
            pages = self._client.list_pages(
                resource, PartialObjectMetadata, selection=Selection(namespace=self._namespace)
            )
            async for page in pages:
                if page.first:
                    listed.clear()
                listed += [(resource, item.metadata) for item in page.items]
        except ApiError as error:
            self.gaps.append(UnreadResource(resource=f"{kind.lower()}s.{group}".rstrip("."), why=str(error)))
        return listed


def _ancestors(pods: Iterable[SchedulerPod], controllers: Mapping[Uid, PodController]) -> set[Uid]:
    """Return the uids of all controllers of the pods; other objects of the same kinds are left out."""
    reached: set[Uid] = set()
    for pod in pods:
        owner = pod.metadata.controller
        uid = owner.uid if owner is not None else NO_UID
        while uid in controllers and uid not in reached:
            reached.add(uid)
            uid = controllers[uid].controller
    return reached


def _kind(owner: OwnerReference) -> tuple[str, str]:
    return (owner.api_version.partition("/")[0] if "/" in owner.api_version else "", owner.kind)


def find_controller(
    snapshot: Snapshot, wanted: GroupResource, name: str, *, namespace: str | None = None
) -> PodController:
    """Return a workload of a snapshot, by any name of its kind; without a namespace, the only one of that name.

    Raises UnknownWorkloadError if there is none, or if several namespaces have one.
    """
    known = [*snapshot.controllers]
    kinds = {workload_type.resource: workload_type for workload_type in WORKLOAD_TYPES}
    known += [
        PodController(
            resource=workload.resource,
            group=workload.group,
            kind=kinds[workload.key.kind].kind if workload.key.kind in kinds else workload.resource,
            namespace=workload.namespace,
            name=workload.name,
            uid=workload.uid,
            finished=workload.phase is WorkloadPhase.FINISHED,
            suspended=workload.suspended,
        )
        for workload in snapshot.workloads
    ]
    controllers = [
        controller for controller in known if controller.name == name and namespace in {None, controller.namespace}
    ]
    controllers = sorted((controller for controller in controllers if _is_named(controller, wanted)), key=_group_order)
    namespaces = sorted({controller.namespace for controller in controllers})
    if not controllers:
        raise UnknownWorkloadError(f"{wanted} {name}: the bundle has no such workload")
    if len(namespaces) > 1:
        where = f"found in namespaces {', '.join(namespaces)}; select one with -n NAMESPACE"
        raise UnknownWorkloadError(f"{wanted} {name}: {where}")
    return controllers[0]


def _is_named(controller: PodController, wanted: GroupResource) -> bool:
    """Report whether the words of a user denote the kind of an object."""
    aliases = next(
        (workload_type.aliases for workload_type in WORKLOAD_TYPES if workload_type.resource == controller.key.kind), ()
    )
    return wanted.resource.lower() in {controller.resource, controller.kind.lower(), *aliases} and controller.group in (
        wanted.group or controller.group,
        wanted.unversioned.group,
    )


def _group_order(controller: PodController) -> tuple[bool, str]:
    return (controller.group not in {"", "apps", "batch"}, controller.group)


def _group_resource(resource: Resource) -> GroupResource:
    return GroupResource(resource=resource.plural, group=resource.group)


def _controller(
    resource: Resource, metadata: ObjectMeta, lifecycle: WorkloadLifecycle = _UNKNOWN_LIFECYCLE
) -> PodController:
    owner = metadata.controller
    return PodController(
        resource=resource.plural,
        group=resource.group,
        kind=resource.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        controller=owner.uid if owner is not None else NO_UID,
        finished=lifecycle.finished,
        suspended=lifecycle.suspended,
    )
