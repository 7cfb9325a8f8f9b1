"""Finds the number of pods that the controllers of pods want."""

from collections.abc import Iterable
from typing import Final

from dra.model.meta import OwnerReference, Uid
from localplane.controller_manager.api_types import Pod, ReplicaSet
from localplane.controller_manager.deployments.deployment_types import Deployment
from localplane.controller_manager.informer import Informer

_WITHOUT_SCALE: Final = {"Job": "jobs.batch", "DaemonSet": "daemonsets.apps", "CronJob": "cronjobs.batch"}
"""Kinds without a scale subresource, with their group-resources."""


class UnknownScaleError(Exception):
    """The error of a pod whose controller wants an unknown number of pods."""


class ScaleFinder:
    """Finds the scale of Deployments and ReplicaSets in informers."""

    def __init__(self, *, sets: Informer[ReplicaSet], deployments: Informer[Deployment]) -> None:
        self._sets = sets
        self._deployments = deployments

    def total(self, pods: Iterable[Pod]) -> int:
        """Return the sum over the controllers of pods; pods without a controller count as zero."""
        scales: dict[Uid, int] = {}
        seen: set[Uid] = set()
        for pod in pods:
            owner = pod.metadata.controller
            if owner is None or owner.uid in seen:
                continue
            seen.add(owner.uid)
            uid, scale = self._scale(owner, pod)
            scales[uid] = scale
        return sum(scales.values())

    def _scale(self, owner: OwnerReference, pod: Pod) -> tuple[Uid, int]:
        if owner.kind in _WITHOUT_SCALE:
            raise UnknownScaleError(f"{_WITHOUT_SCALE[owner.kind]} does not implement the scale subresource")
        namespace = pod.metadata.namespace
        replicas = self._sets.get((namespace, owner.name)) if owner.kind == "ReplicaSet" else None
        if replicas is None or replicas.metadata.uid != owner.uid:
            raise UnknownScaleError(f'found no controllers for pod "{pod.metadata.name}"')
        above = replicas.metadata.controller
        if above is not None and above.kind == "Deployment":
            deployment = self._deployments.get((namespace, above.name))
            if deployment is not None and deployment.metadata.uid == above.uid:
                return deployment.metadata.uid, deployment.spec.replicas
        return replicas.metadata.uid, replicas.spec.replicas
