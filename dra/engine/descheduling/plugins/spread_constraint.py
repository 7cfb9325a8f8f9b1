"""A topology spread constraint as a pod has it: which pods match, and on which nodes they count.

The rules are those of kube-scheduler's PodTopologySpread: no labelSelector matches no pod and an empty one matches
every pod of the namespace; matchLabelKeys adds the values that the pod itself has.
"""

from collections.abc import Mapping

import msgspec

from dra.engine.descheduling.pods import DeschedulingPod, TopologySpreadConstraint
from dra.model.meta import Struct
from dra.model.nodes import NodeSelector, matches_node_selector
from dra.model.preemption import LabelSelector
from dra.model.scheduling import SchedulerNode, Toleration

_HONOR = "Honor"


class SpreadConstraint(Struct, frozen=True):
    """A constraint together with what it takes from the pod that has it."""

    topology_key: str
    max_skew: int
    selector: LabelSelector | None
    """The pods that count; None: no pod."""
    labels: dict[str, str]
    """Labels that the pods must have as well, because of matchLabelKeys."""
    node_selector: dict[str, str]
    """The pod's ``nodeSelector``, if its nodes count alone."""
    node_affinity: NodeSelector | None
    """The pod's required node affinity, if its nodes count alone."""
    tolerations: list[Toleration] | None
    """What taints of a node the pod tolerates, if only such nodes count; None: all nodes."""

    @property
    def key(self) -> bytes:
        """The key that pods with the same constraint share."""
        return msgspec.json.encode(self, order="deterministic")

    @property
    def nodes_key(self) -> bytes:
        """The key that constraints which count in the same domains share."""
        place = (self.topology_key, self.node_selector, self.node_affinity, self.tolerations)
        return msgspec.json.encode(place, order="deterministic")

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether a pod of the namespace with these labels counts."""
        return self.selector is not None and self.labels.items() <= labels.items() and self.selector.selects(labels)

    def includes(self, node: SchedulerNode) -> bool:
        """Return whether pods on a node count."""
        name, labels = node.metadata.name, node.metadata.labels or {}
        if not self.node_selector.items() <= labels.items():
            return False
        if not matches_node_selector(self.node_affinity, name=name, labels=labels):
            return False
        tolerations = self.tolerations
        return tolerations is None or all(
            any(toleration.tolerates(taint) for toleration in tolerations) for taint in node.spec.filtering_taints
        )


def spread_constraint(given: TopologySpreadConstraint, pod: DeschedulingPod) -> SpreadConstraint:
    """Return a constraint of a pod."""
    labels, affinity = pod.metadata.labels or {}, pod.spec.affinity and pod.spec.affinity.node_affinity
    honors_affinity = given.node_affinity_policy == _HONOR
    return SpreadConstraint(
        topology_key=given.topology_key,
        max_skew=given.max_skew,
        selector=given.label_selector,
        labels={key: labels[key] for key in given.match_label_keys or () if key in labels},
        node_selector=(pod.spec.node_selector or {}) if honors_affinity else {},
        node_affinity=affinity.required_during_scheduling_ignored_during_execution
        if honors_affinity and affinity
        else None,
        tolerations=list(pod.spec.tolerations or ()) if given.node_taints_policy == _HONOR else None,
    )
