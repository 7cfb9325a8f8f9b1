"""The NodeMetric API as pydantic models: what one node, its system and its pods use.

A NodeMetric has the name of its Node. The controller writes its spec, the node's agent its status, so the models are
lenient: unknown fields are ignored. The fields ``features``, ``suppression``, and ``uid`` and ``psi`` of a pod, are of
dra-reserve.
"""

from typing import Annotated, Final

from pydantic import Field, StrictBool, StrictInt, StrictStr, WithJsonSchema

from dra.api.object_fields import FreeFormObject, LenientModel, ObjectMetadata, ResourceQuantities, Timestamp

GROUP: Final = "slo.koordinator.sh"
VERSION: Final = "v1alpha1"
KIND: Final = "NodeMetric"
PLURAL: Final = "nodemetrics"

Seconds = Annotated[StrictInt, WithJsonSchema({"type": "integer", "format": "int64"})]


class NodeAggregatePolicy(LenientModel):
    """The windows of the percentiles of the node."""

    durations: tuple[StrictStr, ...] = ()
    """The windows, as durations: 5m0s."""


class MetricCollectPolicy(LenientModel):
    """The way in which a node measures and reports."""

    aggregate_duration_seconds: Seconds | None = None
    """The window of the averages, in seconds."""

    report_interval_seconds: Seconds | None = None
    """The time between two reports, in seconds."""

    node_aggregate_policy: NodeAggregatePolicy | None = None

    node_memory_collect_policy: StrictStr = ""
    """Which memory counts as used; nodes of dra-reserve report what is not available, whatever it says."""


class NodeMetricSpec(LenientModel):
    """The wishes of the controller to the node."""

    metric_collect_policy: MetricCollectPolicy | None = None


class ResourceUsage(LenientModel):
    """An amount of CPUs and memory that is used."""

    resources: ResourceQuantities = {}
    """The CPUs and bytes that are used."""

    devices: tuple[FreeFormObject, ...] = ()
    """The use of devices, such as GPUs."""


class AggregatedUsage(LenientModel):
    """The percentiles of one window."""

    usage: Annotated[
        dict[StrictStr, ResourceUsage],
        Field(description="The average and the percentiles: avg, p50, p90, p95 and p99."),
    ] = {}

    duration: StrictStr = ""
    """The window, as a duration: 5m0s."""


class NodeMetricInfo(LenientModel):
    """The use of the node and of its system."""

    node_usage: ResourceUsage | None = None
    """What everything on the node uses."""

    aggregated_node_usages: tuple[AggregatedUsage, ...] = ()
    """Percentiles of what everything on the node uses."""

    system_usage: ResourceUsage | None = None
    """What runs in no pod uses."""

    aggregated_system_usages: tuple[AggregatedUsage, ...] = ()
    """Percentiles of what runs in no pod uses."""


class PodMetricInfo(LenientModel):
    """The use of a pod of the node."""

    namespace: StrictStr = ""
    name: StrictStr = ""

    uid: StrictStr = ""
    """The uid of the pod, by which a pod of the same name that came later is told apart."""

    priority: StrictStr = ""
    """The pod's priority class: koord-prod, koord-mid, koord-batch or koord-free."""

    qos: StrictStr = ""
    """The pod's QoS class: LSE, LSR, LS or BE."""

    pod_usage: ResourceUsage | None = None

    psi: FreeFormObject | None = None
    """The pressure of the pod on the CPUs, where the kernel tells it."""

    extensions: FreeFormObject | None = None
    """Whatever else its reporter knows of the pod."""


class HostApplicationMetricInfo(LenientModel):
    """The use of an application of the host, which runs in no pod."""

    name: StrictStr = ""
    usage: ResourceUsage | None = None
    priority: StrictStr = ""
    """The priority class of the application."""
    qos: StrictStr = ""
    """The QoS class of the application."""


class KernelFeatureInfo(LenientModel):
    """A feature of the node's kernel on which a part of colocation depends."""

    name: StrictStr = ""
    """The feature: cpuQuota, cpuBurst, cpuset, cpuPressure or resctrl."""

    usable: StrictBool = False
    """Whether the kernel has the feature."""

    text: StrictStr = ""
    """The files by which it is used, or what is missing."""


class BatchSuppression(LenientModel):
    """The state of pods of the class BestEffort that are held back."""

    policy: StrictStr = ""
    """What holds the class back: cpuset or cfsQuota."""

    cpu: StrictStr = ""
    """The CPUs that others leave for the class."""

    at_floor: StrictBool = False
    """Whether the class has no more CPUs than it keeps in any case."""


class NodeMetricStatus(LenientModel):
    """The report of the node about its use."""

    update_time: Timestamp | None = None
    """The time of the report."""

    node_metric: NodeMetricInfo | None = None

    pods_metric: tuple[PodMetricInfo, ...] = ()
    """What each pod uses."""

    host_application_metric: tuple[HostApplicationMetricInfo, ...] = ()
    """What applications of the host use."""

    features: tuple[KernelFeatureInfo, ...] = ()
    """What the node's kernel has of the features on which parts of colocation depend."""

    suppression: BatchSuppression | None = None
    """How far batch pods are held back at the time of the report; absent if these are not."""

    prod_reclaimable_metric: FreeFormObject | None = None
    """What of the requests of high-priority pods can be reclaimed; nobody reads it here."""


class NodeMetric(LenientModel):
    """The use of the Node of the same name."""

    metadata: ObjectMetadata = ObjectMetadata()
    spec: NodeMetricSpec = NodeMetricSpec()
    status: NodeMetricStatus = NodeMetricStatus()
