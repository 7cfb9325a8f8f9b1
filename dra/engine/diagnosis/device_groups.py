"""The devices that are held and used now, by namespace, workload and class, as the metrics of the controller count."""

from collections.abc import Mapping
from datetime import datetime

from dra.engine.device_usage.gpu_activity import GpuActivity
from dra.engine.device_usage.groups import DeviceNumbers, UsageGroup, count_groups
from dra.engine.diagnosis.cluster_state import ClusterState, slice_taints
from dra.engine.instants import Moment


def device_groups(cluster: ClusterState, *, now: datetime) -> Mapping[UsageGroup, DeviceNumbers]:
    """Return the numbers of devices of a snapshot by group; NodeMetrics that it lacks tell of no idle GPU."""
    activity, moment = GpuActivity(), Moment(instant=0.0, wall=now.timestamp())
    for resource_slice in cluster.snapshot.slices:
        activity.observe_slice(slice_taints(resource_slice))
    for metric in (cluster.node_metrics or {}).values():
        activity.observe_metric(metric, now=moment.instant)
    return count_groups(cluster.claim_cache.records(), activity.at(moment))
