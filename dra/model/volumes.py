"""PersistentVolumes and their claims, as far as they decide where a pod can run."""

from dra.model.meta import BoundedObject, ObjectMeta, Struct
from dra.model.nodes import NodeSelector


class VolumeNodeAffinity(Struct, frozen=True):
    """``nodeAffinity`` of a PersistentVolume: the nodes that can mount the volume."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Struct, frozen=True):
    """``spec`` of a PersistentVolume."""

    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolume(BoundedObject, frozen=True):
    """A PersistentVolume, as far as its node affinity and its labels go."""

    metadata: ObjectMeta
    spec: PersistentVolumeSpec = PersistentVolumeSpec()


class PersistentVolumeClaimSpec(Struct, frozen=True):
    """``spec`` of a PersistentVolumeClaim."""

    volume_name: str = ""
    """The volume that the claim is bound to; empty before."""
    storage_class_name: str | None = None


class PersistentVolumeClaim(BoundedObject, frozen=True):
    """A PersistentVolumeClaim, as far as its volume goes."""

    metadata: ObjectMeta
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
