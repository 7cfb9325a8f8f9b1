"""ClusterColocationProfiles in manifests, for API servers without mutating policies.

From Kubernetes 1.36 on the policy of deploy/colocation-profiles applies profiles to new pods. Before, ``kubectl dra
apply`` applies them to the pods and pod templates of manifests.
"""

from collections.abc import Mapping
from typing import Any

from dra.api.profiles.parameters import ResolvedProfile
from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.koordinator_requests import POD_TEMPLATES, pod_at, replaced, serves_policies
from dra.cli.kubectl.manifests import MalformedManifestError
from dra.engine.profiles.evaluation import evaluate
from dra.engine.profiles.guard import batch_refusals
from dra.engine.profiles.profiled_pods import profiled_pod
from dra.engine.profiles.resolution import priorities_of
from dra.kube.errors import NotFound
from dra.kube.resources import COLOCATION_PROFILES, NAMESPACES, PRIORITY_CLASSES
from dra.model.meta import PartialObjectMetadata, UnstructuredObject
from dra.model.preemption import PriorityClass

Json = dict[str, Any]


class ManifestProfiles:
    """Applies profiles to manifests for one API server, whose profiles are read at most once."""

    def __init__(self, connection: Connection) -> None:
        self._client = connection.client
        self._profiles: tuple[ResolvedProfile, ...] | None = None
        self._priorities: Mapping[str, int] = {}
        self._labels: dict[str, Mapping[str, str]] = {}

    async def applied(self, manifest: Json, *, namespace: str) -> Json:
        """Return a manifest with the profiles that select its pods; raise MalformedManifestError for a refused pod.

        The manifest itself is returned if no profile selects its pods, or if the API server applies profiles itself.
        """
        path = POD_TEMPLATES.get((str(manifest["apiVersion"]), str(manifest["kind"])))
        pod = None if path is None else pod_at(manifest, path)
        if path is None or not isinstance(pod, Mapping) or not isinstance(pod.get("spec"), Mapping):
            return manifest
        profiles = await self._read()
        if not profiles:
            return manifest
        made = profiled_pod(
            self._with_priority(pod), profiles, namespace_labels=await self._namespace_labels(namespace)
        )
        if "priority" not in pod["spec"]:
            made = {**made, "spec": {name: value for name, value in made["spec"].items() if name != "priority"}}
        if refusals := batch_refusals(made):
            prefix = "".join(f"{field}." for field in path)
            raise MalformedManifestError("; ".join(f"{prefix}{refusal}" for refusal in refusals))
        return manifest if made == pod else replaced(manifest, path, made)

    async def _read(self) -> tuple[ResolvedProfile, ...]:
        if self._profiles is None:
            self._profiles = ()
            if not await serves_policies(self._client):
                self._profiles = await self._evaluated()
        return self._profiles

    async def _evaluated(self) -> tuple[ResolvedProfile, ...]:
        try:
            contents = [
                profile.content
                async for page in self._client.list_pages(COLOCATION_PROFILES, UnstructuredObject)
                for profile in page.items
            ]
        except NotFound:  # a cluster without the kind
            return ()
        if not contents:
            return ()
        classes = [
            priority_class
            async for page in self._client.list_pages(PRIORITY_CLASSES, PriorityClass)
            for priority_class in page.items
        ]
        self._priorities = priorities_of(classes)
        return evaluate(contents, priorities=self._priorities).profiles

    async def _namespace_labels(self, namespace: str) -> Mapping[str, str]:
        if namespace not in self._labels:
            try:
                namespace_object = await self._client.get(NAMESPACES, ("", namespace), PartialObjectMetadata)
                self._labels[namespace] = namespace_object.metadata.labels or {}
            except NotFound:  # the API server will say so
                return {}
        return self._labels[namespace]

    def _with_priority(self, pod: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a pod with the priority of its PriorityClass, as admission sets it."""
        spec = pod["spec"]
        priority = self._priorities.get(str(spec.get("priorityClassName", "")))
        return pod if priority is None or "priority" in spec else {**pod, "spec": {**spec, "priority": priority}}
