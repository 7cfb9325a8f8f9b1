"""The persistent volumes of pods, as far as these protect a pod: only one node can mount it, or its StorageClass.

A volume of a local provisioner is no emptyDir, and its pod can run on one node all the same: wherever else a place were
held, the replacement would wait.
"""

from collections.abc import Collection, Iterator

from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.snapshot import Snapshot
from dra.model.meta import Key
from dra.model.nodes import matches_node_selector
from dra.model.volumes import PersistentVolumeClaim


class PodVolumes:
    """The persistent volume claims and volumes of a snapshot, by name."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._nodes = snapshot.nodes
        self._claims = {claim.metadata.key: claim for claim in snapshot.objects.volume_claims}
        self._volumes = {volume.metadata.name: volume for volume in snapshot.objects.volumes}
        self._single: dict[str, str] = {}
        """Volume that one node alone can mount → that node; empty for any other volume."""

    def single_node_reason(self, pod: DeschedulingPod) -> str:
        """Return which volume of a pod can be mounted on one node alone; empty if none is of that kind."""
        for key in _claim_keys(pod):
            claim = self._claims.get(key)
            if claim is not None and (node := self._single_node(claim.spec.volume_name)):
                name = f"pod {'/'.join(pod.metadata.key)}"
                return f"{name}: volume {claim.spec.volume_name} can be mounted on node {node} alone"
        return ""

    def class_reason(self, pod: DeschedulingPod, classes: Collection[str]) -> str:
        """Return which claim of a pod is of one of the StorageClasses; unknown classes count as one of these."""
        for key in _claim_keys(pod):
            name, storage_class = "/".join(key), _storage_class(self._claims.get(key))
            if not storage_class:
                return f"persistentvolumeclaim {name}: its StorageClass is not known, so that its pod stays"
            if storage_class in classes:
                return f"persistentvolumeclaim {name}: StorageClass {storage_class} protects its pod (podProtections)"
        return ""

    def _single_node(self, volume_name: str) -> str:
        if volume_name not in self._single:
            volume = self._volumes.get(volume_name)
            affinity = volume.spec.node_affinity if volume is not None else None
            nodes: list[str] = []
            if affinity is not None and affinity.required is not None:
                for name, node in self._nodes.items():
                    if matches_node_selector(affinity.required, name=name, labels=node.node.metadata.labels):
                        nodes.append(name)
                    if len(nodes) > 1:
                        break
            self._single[volume_name] = nodes[0] if len(nodes) == 1 else ""
        return self._single[volume_name]


def _claim_keys(pod: DeschedulingPod) -> Iterator[Key]:
    namespace = pod.metadata.namespace
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            yield (namespace, str(volume.persistent_volume_claim.get("claimName", "")))
        elif volume.ephemeral is not None:
            yield (namespace, f"{pod.metadata.name}-{volume.name}")


def _storage_class(claim: PersistentVolumeClaim | None) -> str:
    return "" if claim is None else claim.spec.storage_class_name or ""
