"""Compares the objects of an installation with a cluster, by server-side dry runs, and writes them.

A dry run passes the authorization, validation and admission of the API server, so a plan shows each refusal before
anything is written. Objects in a namespace that does not exist yet cannot be tried; they are created last.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, Final

from dra.cli.kubectl.apply import resource_for, resource_name
from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.gate.opt_in import GATE_POLICY, WITHOUT_POLICY
from dra.cli.kubectl.install.selection import Json, object_id
from dra.cli.kubectl.manifests import MalformedManifestError
from dra.cli.kubectl.option_values import FIELD_MANAGER
from dra.kube.errors import ApiError, Conflict, NotFound
from dra.kube.resources import Resource
from dra.model.meta import Key, UnstructuredObject

CONCURRENT_MAX: Final = 8
"""Maximum number of requests under way at once."""

FIELDS_NAMED_MAX: Final = 4
"""Maximum number of changed fields that a plan names for an object."""

HELM_RELEASE: Final = "meta.helm.sh/release-name"
"""Annotation that Helm sets on the objects of a release."""

ADMISSION_GROUP: Final = "admissionregistration.k8s.io"

LABEL_MANAGER: Final = "kubectl-dra-label"
"""Field manager of single labels. With that of whole objects, which ``kubectl apply --server-side`` has as well, a
label would remove all fields that were applied before, such as the Pod Security level of a namespace."""

_SERVER_FIELDS: Final = frozenset(
    {"managedFields", "resourceVersion", "generation", "creationTimestamp", "uid", "selfLink"}
)
"""Fields of metadata that the server sets at each write."""


class PlannedAction(StrEnum):
    """The effect of an installation on an object."""

    CREATE = "create"
    CHANGE = "change"
    KEEP = "unchanged"
    SKIP = "skipped"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWrite:
    """An object of an installation, and the effect of the installation on the object."""

    manifest: Json
    action: PlannedAction
    resource: Resource | None = None
    """The resource that serves the kind; None if no resource does."""

    detail: str = ""
    manager: str = FIELD_MANAGER

    @property
    def name(self) -> str:
        """The object as kubectl names it."""
        meta = self.manifest["metadata"]
        kind = resource_name(self.resource) if self.resource is not None else str(self.manifest["kind"]).lower()
        where = f" -n {meta['namespace']}" if meta.get("namespace") else ""
        return f"{kind}/{meta['name']}{where}"

    @property
    def key(self) -> Key:
        """The namespace and the name of the object."""
        meta = self.manifest["metadata"]
        return meta.get("namespace", ""), meta["name"]

    def to_data(self) -> dict[str, Any]:
        """Return the planned write as data for JSON and YAML."""
        version, kind, namespace, name = object_id(self.manifest)
        content = {"apiVersion": version, "kind": kind, "namespace": namespace, "name": name}
        content |= {"action": self.action.value, "detail": self.detail}
        return {key: value for key, value in content.items() if value}


class Planner:
    """Plans the writes of objects on one cluster."""

    def __init__(self, connection: Connection, *, force_conflicts: bool, local_plane: bool) -> None:
        self._connection = connection
        self._force = force_conflicts
        self._local_plane = local_plane
        self._known: dict[tuple[str, str], Resource] = {}
        self._absent_namespaces: set[str] = set()

    async def plan(self, objects: Sequence[Json]) -> list[PlannedWrite]:
        """Return a planned write for each object, in the same order; raise ApiError."""
        namespaces = [await self._planned(namespace) for namespace in objects if namespace["kind"] == "Namespace"]
        self._absent_namespaces = {write.key[1] for write in namespaces if write.action is PlannedAction.CREATE}
        for manifest in objects:  # discovery is asked once for each kind, before requests run at once
            await self._resource(manifest)
        limit = asyncio.Semaphore(CONCURRENT_MAX)

        async def limited(manifest: Json) -> PlannedWrite:
            async with limit:
                return await self._planned(manifest)

        return list(await asyncio.gather(*map(limited, objects)))

    async def plan_label(self, namespace: str, label: str, value: str) -> PlannedWrite:
        """Return the planned write of a label of a namespace, which must exist; raise ApiError."""
        metadata = {"name": namespace, "labels": {label: value}}
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        planned = await self._planned(manifest, manager=LABEL_MANAGER)
        if planned.action is PlannedAction.CREATE:
            return replace(planned, action=PlannedAction.REFUSED, detail="no such namespace: create it first")
        return planned

    async def write(self, planned: Iterable[PlannedWrite], report: Callable[[PlannedWrite], None]) -> None:
        """Create and change the objects in order, and report each; raise ApiError at the first failure."""
        for write in planned:
            if write.action in {PlannedAction.CREATE, PlannedAction.CHANGE} and write.resource is not None:
                await self._apply(write.resource, write.manifest, manager=write.manager, dry_run=False)
                report(write)

    async def _resource(self, manifest: Json) -> Resource | None:
        try:
            return await resource_for(self._connection, manifest, self._known)
        except MalformedManifestError:
            return None

    async def _planned(self, manifest: Json, *, manager: str = FIELD_MANAGER) -> PlannedWrite:
        resource = await self._resource(manifest)
        if resource is None:
            return self._not_served(manifest)
        meta = manifest["metadata"]
        live = await self._read(resource, (meta.get("namespace", ""), meta["name"]))
        release = live and live["metadata"].get("annotations", {}).get(HELM_RELEASE)
        if release:
            detail = f"belongs to the Helm release {release}: upgrade the release instead"
            return PlannedWrite(manifest=manifest, resource=resource, action=PlannedAction.REFUSED, detail=detail)
        if live is None and meta.get("namespace") in self._absent_namespaces:
            return PlannedWrite(manifest=manifest, resource=resource, action=PlannedAction.CREATE)
        return await self._tried(resource, manifest, live, manager=manager)

    async def _tried(self, resource: Resource, manifest: Json, live: Json | None, *, manager: str) -> PlannedWrite:
        """Return the planned write by a dry run."""
        planned = partial(PlannedWrite, manifest=manifest, resource=resource, manager=manager)
        try:
            applied = await self._apply(resource, manifest, manager=manager, dry_run=True)
        except ApiError as error:
            advice = "; --force-conflicts takes over the fields" if isinstance(error, Conflict) else ""
            return planned(action=PlannedAction.REFUSED, detail=f"{error}{advice}")
        if live is None:
            return planned(action=PlannedAction.CREATE)
        changed = list(changed_fields(_comparable(live), _comparable(applied)))
        return planned(action=PlannedAction.CHANGE if changed else PlannedAction.KEEP, detail=_named(changed))

    def _not_served(self, manifest: Json) -> PlannedWrite:
        version, kind = manifest["apiVersion"], manifest["kind"]
        if self._local_plane and version.startswith(ADMISSION_GROUP):
            detail = "a local plane evaluates no policies"
            return PlannedWrite(manifest=manifest, action=PlannedAction.SKIP, detail=detail)
        detail = f"the API server does not serve kind {kind} in {version}"
        if manifest["metadata"]["name"] == GATE_POLICY:
            detail += f": {WITHOUT_POLICY}"
        return PlannedWrite(manifest=manifest, action=PlannedAction.REFUSED, detail=detail)

    async def _read(self, resource: Resource, key: Key) -> Json | None:
        try:
            return (await self._connection.client.get(resource, key, UnstructuredObject)).content
        except NotFound:
            return None

    async def _apply(self, resource: Resource, manifest: Json, *, manager: str, dry_run: bool) -> Json:
        meta = manifest["metadata"]
        applied = await self._connection.client.apply(
            resource,
            (meta.get("namespace", ""), meta["name"]),
            manifest,
            model=UnstructuredObject,
            manager=manager,
            force=self._force,
            dry_run=dry_run,
        )
        return applied.content


def _comparable(content: Json) -> Json:
    """Return an object without what the server writes itself."""
    metadata = {key: value for key, value in content["metadata"].items() if key not in _SERVER_FIELDS}
    return {**{key: value for key, value in content.items() if key != "status"}, "metadata": metadata}


def changed_fields(before: Any, after: Any, path: str = "") -> Iterator[str]:  # noqa: ANN401 - JSON
    """Yield the paths of the fields that differ; a list that differs counts as one field."""
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted(before.keys() | after.keys()):
            yield from changed_fields(before.get(key), after.get(key), f"{path}.{key}" if path else key)
    else:
        yield path


def _named(fields: Sequence[str]) -> str:
    more = len(fields) - FIELDS_NAMED_MAX
    return ", ".join(fields[:FIELDS_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
