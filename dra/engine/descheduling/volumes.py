"""The nodes on which a pod can mount its PersistentVolumes: kube-scheduler's filters VolumeBinding and VolumeZone.

A volume of one node keeps its pod there. Claims that are not bound yet restrict nothing: their volumes are made where
the pod goes. How many volumes a node can attach (CSINode) is not known here.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from dra.engine.descheduling.candidate import Candidate, Demand
from dra.engine.descheduling.node_labels import NodeLabels
from dra.engine.reservations.capacity_index import NodeSet
from dra.model.meta import Key
from dra.model.volumes import PersistentVolume, PersistentVolumeClaim

NODE_CONFLICT: Final = "node(s) didn't match PersistentVolume's node affinity"
ZONE_CONFLICT: Final = "node(s) had no available volume zone"
NO_VOLUME: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

_ZONE_KEYS: Final = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
_VALUES_SEPARATOR: Final = "__"


class Volumes:
    """The filter, over all nodes at once; volumes never change within a round."""

    def __init__(
        self, labels: NodeLabels, claims: Iterable[PersistentVolumeClaim], volumes: Iterable[PersistentVolume]
    ) -> None:
        """Create the filter for the pods that use the claims."""
        self._labels = labels
        self._claims: dict[Key, PersistentVolumeClaim] = {claim.metadata.key: claim for claim in claims}
        self._volumes: dict[str, PersistentVolume] = {volume.metadata.name: volume for volume in volumes}
        self._rejections: dict[Demand, tuple[tuple[str, NodeSet], ...]] = {}
        self._in_a_zone: NodeSet = 0
        for key in _ZONE_KEYS:
            self._in_a_zone |= labels.with_key(key)

    def nodes(self, candidate: Candidate) -> NodeSet:
        """Return the nodes that can mount all volumes of a pod."""
        nodes = self._labels.all
        for _, rejected in self._rejections_of(candidate.demand):
            nodes &= ~rejected
        return nodes

    def reason(self, candidate: Candidate, node: NodeSet) -> str:
        """Return why a single node cannot mount all volumes of a pod; empty if it can."""
        return next((text for text, rejected in self._rejections_of(candidate.demand) if rejected & node), "")

    def _rejections_of(self, demand: Demand) -> tuple[tuple[str, NodeSet], ...]:
        if not demand.claim_names:
            return ()
        known = self._rejections.get(demand)
        if known is None:
            namespace = demand.example.metadata.namespace
            known = self._rejections[demand] = tuple(
                rejection for name in demand.claim_names for rejection in self._rejecting((namespace, name))
            )
        return known

    def _rejecting(self, key: Key) -> Iterator[tuple[str, NodeSet]]:
        """Yield the nodes that cannot mount the volume of a claim, with the reasons."""
        claim = self._claims.get(key)
        if claim is None:
            yield f'persistentvolumeclaim "{key[1]}" not found', self._labels.all
        elif claim.spec.volume_name:
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is None:
                yield NO_VOLUME, self._labels.all
            else:
                affinity = volume.spec.node_affinity
                required = affinity.required if affinity is not None else None
                yield NODE_CONFLICT, self._labels.all & ~self._labels.matching(required)
                yield ZONE_CONFLICT, self._in_a_zone & ~self._in_zones(volume)

    def _in_zones(self, volume: PersistentVolume) -> NodeSet:
        """Return the nodes in the zones that the labels of a volume name."""
        nodes = self._labels.all
        for key in _ZONE_KEYS:
            zones = (volume.metadata.labels or {}).get(key)
            if zones is not None:
                values = self._labels.values(key)
                allowed = 0
                for zone in zones.split(_VALUES_SEPARATOR):
                    allowed |= values.get(zone, 0)
                nodes &= allowed
        return nodes
