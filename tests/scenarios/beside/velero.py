"""Velero as it saves a namespace and restores it: new objects with the old names, and pods before claims.

The player follows pkg/restore/restore.go of Velero 1.18 as ../shared/specs/kueue.md §6 records it: uid,
resourceVersion, ownerReferences, generateName and status are dropped, unless `restoreStatus` names the resource;
annotations, labels and finalizers stay. Pods have a high priority in the order of restoring, resourceclaims are not in
that list. Of Velero's actions for single resources two are needed, since the API server accepts nothing else: a pod
loses its node, a Job the selector and the labels that name its old uid.
"""

from __future__ import annotations

from copy import deepcopy
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from tests.scenarios.api import ApiError
from tests.scenarios.eventually import eventually
from tests.scenarios.resources import CLAIM_TEMPLATES, CLAIMS, JOBS, PODS

if TYPE_CHECKING:
    from collections.abc import Collection

    from tests.scenarios.namespaces import Namespace
    from tests.scenarios.resources import Resource

Json = dict[str, Any]

ORDER: Final = (PODS, JOBS, CLAIMS, CLAIM_TEMPLATES)
"""Pods first; the rest by name."""

DROPPED: Final = ("uid", "resourceVersion", "ownerReferences", "generateName", "creationTimestamp", "managedFields")

LEFT_OUT: Final = "velero.io/exclude-from-backup"
"""The label of objects that no backup has."""

OF_THE_OLD_JOB: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")


class Backup:
    """The objects of a namespace as they were when `take` returned."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace: Final = namespace
        self._saved: Final[dict[Resource, list[Json]]] = {}

    @property
    def uids(self) -> set[str]:
        """The uids of all saved objects; no object has one of them after a restore."""
        return {obj["metadata"]["uid"] for found in self._saved.values() for obj in found}

    async def take(self) -> None:
        """Save what there is, but for objects with the label that leaves them out (Velero's page on filtering)."""
        for resource in ORDER:
            self._saved[resource] = await self._namespace.all(resource, labelSelector=f"{LEFT_OUT}!=true")

    async def restore(self, *, status_of: Collection[Resource] = (), without: Collection[Resource] = ()) -> None:
        """Create the saved objects; with the status of the resources that `restoreStatus` names."""
        for resource in ORDER:
            if resource in without:
                continue
            for saved in self._saved[resource]:
                await self._namespace.create(restored(saved, resource))
                if resource in status_of and saved.get("status"):
                    await self._namespace.patch_status(resource, saved["metadata"]["name"], saved["status"])


def restored(saved: Json, resource: Resource) -> Json:
    """Return what Velero creates of a saved object."""
    obj = deepcopy(saved)
    obj.pop("status", None)
    obj |= {"apiVersion": resource.api_version, "kind": resource.kind}  # items of a list have neither
    for field in DROPPED:
        obj["metadata"].pop(field, None)
    if resource is PODS:
        obj["spec"].pop("nodeName", None)
    if resource is JOBS:
        del obj["spec"]["selector"]
        for labels in (obj["metadata"].get("labels", {}), obj["spec"]["template"]["metadata"]["labels"]):
            for name in OF_THE_OLD_JOB:
                labels.pop(name, None)
    return obj


async def lose(namespace: Namespace) -> None:
    """Delete what a backup has saved, finalizers or not."""
    for resource in (JOBS, PODS, CLAIMS, CLAIM_TEMPLATES):
        await namespace.api.delete_collection(resource, namespace=namespace.name, grace_seconds=0)
    await eventually(lambda: _nothing_left(namespace), saying=f"nothing is left in namespace {namespace.name}")


async def _nothing_left(namespace: Namespace) -> bool:
    left = False
    for resource in (JOBS, PODS, CLAIMS, CLAIM_TEMPLATES):
        for obj in await namespace.all(resource):
            left = True
            if "deletionTimestamp" not in obj["metadata"]:  # made by a controller in between
                await namespace.delete(resource, obj["metadata"]["name"], grace_seconds=0)
            elif obj["metadata"].get("finalizers"):
                await _drop_finalizers(namespace, resource, obj["metadata"]["name"])
    return not left


async def _drop_finalizers(namespace: Namespace, resource: Resource, name: str) -> None:
    try:
        await namespace.patch(resource, name, {"metadata": {"finalizers": None}})
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:  # a controller may have removed the last finalizer in between
            raise
