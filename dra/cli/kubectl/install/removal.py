"""Plans which objects of an installation are deleted, and which stay because somebody else owns or needs them.

An object belongs to an installation if it has the label of all manifests of dra-reserve and one of their kinds, as
`kubectl delete -l` would select it. A Helm release deletes its own objects; a kind stays unless the user wants all its
objects deleted; a namespace stays while it contains anything else.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import Any, Final

from dra.cli.kubectl.apply import resource_for, resource_name
from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.install.plan import HELM_RELEASE
from dra.cli.kubectl.manifests import MalformedManifestError
from dra.cli.manifests import kustomization
from dra.cli.manifests.components import COMPONENTS
from dra.engine.claims.reasons import list_names
from dra.kube.client import Selection
from dra.kube.errors import Conflict, NotFound
from dra.kube.resources import Resource
from dra.model.meta import Key, PartialObjectMetadata

PART_OF: Final = ("app.kubernetes.io/part-of", "dra-reserve")
"""Label of each object of an installation."""

KINDS_DELETED_FIRST: Final = ("Deployment", "DaemonSet")
"""Kinds whose pods would otherwise go on without their rights."""

CONTENT_KINDS: Final = (
    ("v1", "Pod"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    ("v1", "PersistentVolumeClaim"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("resource.k8s.io/v1", "ResourceClaim"),
)
"""Kinds that keep a namespace: what users lose when the namespace is deleted."""

_MADE_BY_KUBERNETES: Final = frozenset({("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")})


class RemovalAction(StrEnum):
    """The effect of an uninstallation on an object."""

    DELETE = "delete"
    KEEP = "kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRemoval:
    """An object of an installation, and the effect of the uninstallation on the object."""

    resource: Resource
    metadata: PartialObjectMetadata
    action: RemovalAction
    detail: str = ""

    @property
    def name(self) -> str:
        """The object as kubectl names it."""
        namespace, name = self.metadata.metadata.key
        return f"{resource_name(self.resource)}/{name}" + (f" -n {namespace}" if namespace else "")

    def to_data(self) -> dict[str, Any]:
        """Return the planned removal as data for JSON and YAML."""
        namespace, name = self.metadata.metadata.key
        content = {"kind": self.resource.kind, "namespace": namespace, "name": name}
        content |= {"action": self.action.value, "detail": self.detail}
        return {key: value for key, value in content.items() if value}


class Remover:
    """Plans and deletes the objects of an installation on one cluster."""

    def __init__(self, connection: Connection, *, crds: bool) -> None:
        self._connection = connection
        self._crds = crds
        self._known: dict[tuple[str, str], Resource] = {}

    async def plan(self) -> list[PlannedRemoval]:
        """Return the planned removal of each object that is not being deleted yet, in order; raise ApiError."""
        served = [resource for kind in installed_kinds() if (resource := await self._resource(*kind)) is not None]
        ours = Selection(labels="=".join(PART_OF))
        listed = await asyncio.gather(*(self._list(resource, ours) for resource in served))
        removals = [
            self._judged(resource, item)
            for resource, objects in zip(served, listed, strict=True)
            for item in objects
            if item.metadata.deletion_timestamp is None
        ]
        return sorted([await self._with_content(removal) for removal in removals], key=_rank)

    async def delete(self, planned: Iterable[PlannedRemoval], report: Callable[[PlannedRemoval], None]) -> None:
        """Delete the planned objects in order and report each; raise ApiError at the first failure."""
        for removal in planned:
            if removal.action is RemovalAction.DELETE:
                meta = removal.metadata.metadata
                try:
                    await self._connection.client.delete(removal.resource, meta.key, uid=meta.uid)
                except (NotFound, Conflict):
                    continue  # somebody else has deleted the object, or made another one of this name since
                report(removal)

    async def _resource(self, version: str, kind: str) -> Resource | None:
        try:
            return await resource_for(self._connection, {"apiVersion": version, "kind": kind}, self._known)
        except MalformedManifestError:
            return None

    async def _list(self, resource: Resource, selection: Selection) -> list[PartialObjectMetadata]:
        pages = self._connection.client.list_pages(resource, PartialObjectMetadata, selection=selection)
        return [item async for page in pages for item in page.items]

    def _judged(self, resource: Resource, item: PartialObjectMetadata) -> PlannedRemoval:
        release = item.metadata.annotation(HELM_RELEASE)
        kept = ""
        if release:
            kept = f"belongs to the Helm release {release}: run helm uninstall {release}"
        elif resource.kind == "CustomResourceDefinition" and not self._crds:
            kept = "deleting the kind would delete all its objects; --crds deletes it"
        action = RemovalAction.KEEP if kept else RemovalAction.DELETE
        return PlannedRemoval(resource=resource, metadata=item, action=action, detail=kept)

    async def _with_content(self, planned: PlannedRemoval) -> PlannedRemoval:
        """Return the planned removal; a namespace that contains objects of others is kept."""
        if planned.resource.kind != "Namespace" or planned.action is RemovalAction.KEEP:
            return planned
        others = await self._others_in(planned.metadata.metadata.name)
        if not others:
            return planned
        return replace(planned, action=RemovalAction.KEEP, detail=f"also contains {list_names(others)}")

    async def _others_in(self, namespace: str) -> Sequence[str]:
        """Return the objects of a namespace that are not part of an installation, and not made for one that is."""
        others = []
        for version, kind in CONTENT_KINDS:
            resource = await self._resource(version, kind)
            if resource is None:
                continue
            for other in await self._list(resource, Selection(namespace=namespace)):
                meta = other.metadata
                is_ours = (meta.labels or {}).get(PART_OF[0]) == PART_OF[1] and not meta.annotation(HELM_RELEASE)
                if not (is_ours or meta.owner_references or (kind, meta.name) in _MADE_BY_KUBERNETES):
                    others.append(f"{resource_name(resource)}/{meta.name}")
        return others


@cache
def installed_kinds() -> tuple[tuple[str, str], ...]:
    """Return API version and kind of all objects that the components of the package have, each once."""
    kinds: dict[tuple[str, str], None] = {}
    for component in COMPONENTS:
        if component.is_kustomization:
            kinds |= {
                (document["apiVersion"], document["kind"]): None for document in kustomization.render(component.path)
            }
    return tuple(kinds)


def _rank(planned: PlannedRemoval) -> tuple[int, str, Key]:
    """Return the place in the order of deletion: what runs first, kinds and namespaces last."""
    kind = planned.resource.kind
    last = ("CustomResourceDefinition", "Namespace")
    rank = 0 if kind in KINDS_DELETED_FIRST else 2 + last.index(kind) if kind in last else 1
    return rank, kind, planned.metadata.metadata.key
