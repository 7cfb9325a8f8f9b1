"""NodeMetrics, as far as they are read: what a node, its system, its pods and the applications of the host use.

Nothing in a status can be trusted: any node's agent writes it. `dra.engine.colocation.node_usage` reads the amounts.
"""

from typing import Any

from dra.model.meta import BoundedObject, ObjectMeta, Struct


class ResourceUsage(Struct, frozen=True):
    """``resources`` of what is measured: the CPUs and bytes that are used."""

    resources: dict[str, str | int] | None = None
    devices: list[dict[str, Any]] | None = None


class NodeMetricInfo(Struct, frozen=True):
    """``status.nodeMetric``: the use of the node and of its system; None where it is not reported."""

    node_usage: ResourceUsage | None = None
    system_usage: ResourceUsage | None = None


class PodMetricInfo(Struct, frozen=True):
    """``status.podsMetric[]``: the use of a pod."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    """The uid of the pod; empty in reports of other agents."""

    priority: str = ""
    qos: str = ""
    pod_usage: ResourceUsage | None = None
    psi: dict[str, Any] | None = None
    """The pressure of the pod, as the kubelet's summary has it; None in reports of other agents."""


class HostApplicationMetricInfo(Struct, frozen=True):
    """``status.hostApplicationMetric[]``: the use of an application that runs in no pod."""

    priority: str = ""
    qos: str = ""
    usage: ResourceUsage | None = None


class KernelFeature(Struct, frozen=True):
    """``status.features[]``: what a node's kernel has of one feature on which a part of colocation depends."""

    name: str = ""
    usable: bool = False
    text: str = ""
    """The files by which the feature is used, or what is missing."""


class BatchSuppression(Struct, frozen=True):
    """``status.suppression``: how far pods of the class BestEffort are held back."""

    at_floor: bool = False


class NodeMetricStatus(Struct, frozen=True):
    """``status`` of a NodeMetric; empty before the node's first report."""

    update_time: str | None = None
    node_metric: NodeMetricInfo | None = None
    pods_metric: list[PodMetricInfo] | None = None
    host_application_metric: list[HostApplicationMetricInfo] | None = None
    features: list[KernelFeature] | None = None
    """What the agent found; None in reports of other agents."""
    suppression: BatchSuppression | None = None
    """None in reports of other agents, of older ones, and while nobody is held back."""


class NodeMetricSpec(Struct, frozen=True):
    """``spec`` of a NodeMetric."""

    metric_collect_policy: dict[str, Any] | None = None


class NodeMetric(BoundedObject, frozen=True):
    """A NodeMetric, which has the name of its Node."""

    metadata: ObjectMeta
    spec: NodeMetricSpec = NodeMetricSpec()
    status: NodeMetricStatus = NodeMetricStatus()
