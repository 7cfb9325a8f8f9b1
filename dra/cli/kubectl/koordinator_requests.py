"""Translation of requests in Koordinator's form in manifests, for API servers that cannot do so themselves.

From Kubernetes 1.36 on the policies of deploy/koordinator translate pods. Before, ``kubectl dra apply`` translates the
pods and pod templates of manifests, in the same namespaces: those with the label ``reserve.dra/koordinator=enabled``.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dra.api.koordinator import well_known
from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.manifests import MalformedManifestError
from dra.engine.translation.translated_pods import translate, translated_pod
from dra.kube.client import Client
from dra.kube.errors import NotFound
from dra.kube.resources import NAMESPACES, PRIORITY_CLASSES, group_path
from dra.model.meta import ObjectMeta, Struct
from dra.model.preemption import PriorityClass

Json = dict[str, Any]

POD_TEMPLATES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("v1", "Pod"): (),
    ("v1", "ReplicationController"): ("spec", "template"),
    **{("apps/v1", kind): ("spec", "template") for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")},
    ("batch/v1", "Job"): ("spec", "template"),
    ("batch/v1", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
}
"""Fields that lead to the pod in manifests of each kind."""

MUTATING_POLICIES: Final = "mutatingadmissionpolicies"


class _ServedResource(Struct, frozen=True):
    name: str = ""


class _ServedResources(Struct, frozen=True):
    resources: list[_ServedResource] = msgspec.field(default_factory=list)


class _Namespace(Struct, frozen=True):
    metadata: ObjectMeta


class RequestTranslator:
    """Translates manifests for one API server, which is asked at most once about each namespace and priority class."""

    def __init__(self, connection: Connection) -> None:
        self._client = connection.client
        self._has_policies: bool | None = None
        self._enabled: dict[str, bool] = {}
        self._priorities: dict[str, int | None] = {}

    async def translated(self, manifest: Json, *, namespace: str) -> Json:
        """Return a manifest with claims for its requests; raise MalformedManifestError if it has no translation.

        The manifest itself is returned if it asks for nothing, or if the API server or nobody is to translate it.
        """
        path = POD_TEMPLATES.get((str(manifest["apiVersion"]), str(manifest["kind"])))
        pod = None if path is None else pod_at(manifest, path)
        if path is None or not isinstance(pod, Mapping) or not _asks(pod):
            return manifest
        if await self._server_translates() or not await self._is_enabled(namespace):
            return manifest
        translation = translate(await self._with_priority(pod))
        if translation.refusals:
            prefix = "".join(f"{field}." for field in path)
            raise MalformedManifestError(
                "; ".join(f"{prefix}{refusal.path}: {refusal.text}" for refusal in translation.refusals)
            )
        return replaced(manifest, path, translated_pod(pod, translation.entries)) if translation.entries else manifest

    async def _server_translates(self) -> bool:
        if self._has_policies is None:
            self._has_policies = await serves_policies(self._client)
        return self._has_policies

    async def _is_enabled(self, namespace: str) -> bool:
        if namespace not in self._enabled:
            try:
                namespace_object = await self._client.get(NAMESPACES, ("", namespace), _Namespace)
            except NotFound:  # the API server will say so
                return False
            labels = namespace_object.metadata.labels or {}
            self._enabled[namespace] = labels.get(well_known.LABEL_ENABLED) == well_known.ENABLED
        return self._enabled[namespace]

    async def _with_priority(self, pod: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a pod with the priority of its PriorityClass, as admission sets it."""
        spec = pod.get("spec")
        name = spec.get("priorityClassName") if isinstance(spec, Mapping) else None
        if not isinstance(spec, Mapping) or not isinstance(name, str) or not name:
            return pod
        if name not in self._priorities:
            try:
                priority_class = await self._client.get(PRIORITY_CLASSES, ("", name), PriorityClass)
                self._priorities[name] = priority_class.value
            except NotFound:
                self._priorities[name] = None
        priority = self._priorities[name]
        return pod if priority is None else {**pod, "spec": {**spec, "priority": priority}}


async def serves_policies(client: Client) -> bool:
    """Report whether the API server evaluates MutatingAdmissionPolicies (Kubernetes 1.36)."""
    try:
        served = await client.read(group_path("admissionregistration.k8s.io", "v1"), _ServedResources)
    except NotFound:
        return False
    return any(resource.name == MUTATING_POLICIES for resource in served.resources)


def _asks(pod: Mapping[str, Any]) -> bool:
    translation = translate(pod)
    return bool(translation.entries or translation.refusals)


def pod_at(manifest: Any, path: tuple[str, ...]) -> Any:  # noqa: ANN401 - a part of a manifest
    """Return the part of a manifest at a path of `POD_TEMPLATES`; None if it is absent."""
    for field in path:
        manifest = manifest.get(field) if isinstance(manifest, Mapping) else None
    return manifest


def replaced(manifest: Mapping[str, Any], path: tuple[str, ...], pod: Json) -> Json:
    """Return a manifest with another pod at a path of `POD_TEMPLATES`."""
    if not path:
        return pod
    field, *rest = path
    return {**manifest, field: replaced(manifest[field], tuple(rest), pod)}
