"""docs/reference/metrics.md: every metric of every process, from the registries that the processes expose.

`LABEL_VALUES` is the closed set of labels. None of their values is the name of a pod, claim or node: such names are
unbounded, and each would be a series of its own for as long as Prometheus keeps data. Only the two gauges of devices
by workload have names of namespaces and workloads, of a limited number of them.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from prometheus_client import CollectorRegistry

from controller.colocation import metrics as colocation_metrics
from controller.colocation.profiles_metrics import ProfilesMetrics
from controller.descheduling.executor import Outcome
from controller.descheduling.metrics import ACCEPTED, COMPLETED, FAILED
from controller.extender.metrics import OUTCOMES, ExtenderMetrics
from controller.metrics import ControllerMetrics
from controller.migration.metrics import DeschedulerMetrics
from dra.api.colocation.well_known import KEY_COLOCATION, KEY_QOS, KEY_THRESHOLD
from dra.api.migration.model import EvictionPolicy, MigrationPhase
from dra.api.reservations.model import ReservationPhase
from dra.cli.page.metrics import PageMetrics
from dra.cli.reference import markdown
from dra.engine.claims import device_counts
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.device_counts import COUNTED_STAGES, HeldBy
from dra.engine.claims.generation.claim_owners import ClaimOwnerKind
from dra.engine.colocation.batch_resources import ZeroReason
from dra.engine.colocation.cache import BatchCache
from dra.engine.colocation.configuration_cache import SloConfigurationCache
from dra.engine.colocation.reasons import ColocationReason
from dra.engine.descheduling.plugin import Refusal
from dra.engine.device_usage.groups import GROUPS_IN_NAMESPACE_MAX, GROUPS_MAX, NAMESPACES_MAX, NONE, OTHER
from dra.engine.devices.taints import TaintSource
from dra.engine.migration.job_cache import JobCache
from dra.engine.resctrl.groups import ResctrlGroup
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.engine.suppression.writes import CgroupFile
from dra.httpserver.connections import DropReason
from dra.model.references import POD_GROUPS
from kubeletplugin.colocation.batch_pods.batch_pods import BatchPods
from kubeletplugin.colocation.batch_pods.metrics import LEVELS, BatchPodMetrics
from kubeletplugin.colocation.metrics import QOS_CLASSES, SAMPLED, ColocationMetrics
from kubeletplugin.colocation.node_agent import LOOPS
from kubeletplugin.colocation.resctrl.division import ResctrlDivision
from kubeletplugin.colocation.resctrl.metrics import ResctrlMetrics
from kubeletplugin.metrics import PluginMetrics

LABEL_VALUES: Final = {
    "admin_access": "`true`, `false`",
    "allocated": "`true`, `false`",
    "cause": ", ".join(f"`{reason.value}`" for reason in DropReason),
    "claim_namespace": f"the namespace of a claim, or `{OTHER}`: at most {NAMESPACES_MAX + GROUPS_MAX}",
    "certificate": "`serving`; of the extender `client-authority`, and `client`, the certificate of the last call, too",
    "code": "HTTP status of the answer; 0: none came",
    "device_class": f"a DeviceClass, `{NONE}` if it is not known, or `{OTHER}`",
    "driver": "a DRA driver, say `gpu.example.com`: as many as are installed",
    "gpu": "the UUID of a GPU: as many as the node has",
    "group": "a control group of resctrl: " + ", ".join(f"`{group.value}`" for group in ResctrlGroup),
    "held_by": ", ".join(f"`{holder.value}`" for holder in HeldBy),
    "key": f"a key of the ConfigMap: `{KEY_COLOCATION}`, `{KEY_THRESHOLD}`, `{KEY_QOS}`",
    "level": ", ".join(f"`{level}`" for level in LEVELS.values()),
    "listener": "`probes`, `metrics`; of the extender `extender`, of the page `page`, too",
    "method": "HTTP method",
    "operation": "`prepare`, `unprepare`",
    "outcome": ", ".join(f"`{outcome}`" for outcome in OUTCOMES)
    + "; of migrations `Succeeded`, `Failed`; of evictions `granted`, `refused`, `unknown`; of rounds "
    f"`{COMPLETED}`, `{FAILED}`; of candidates `{ACCEPTED}`, "
    + ", ".join(f"`{refusal.value}`" for refusal in Refusal)
    + "; of their executions "
    + ", ".join(f"`{outcome.value}`" for outcome in Outcome),
    "owner_api_group": f"empty for pods, `{POD_GROUPS.group}` for PodGroups",
    "owner_api_kind": ", ".join(f"`{kind.value}`" for kind in ClaimOwnerKind),
    "part": ", ".join(f"`{name}`" for name in (BatchPods.name, ResctrlDivision.name, *LOOPS)),
    "phase": ", ".join(f"`{phase.value}`" for phase in ReservationPhase if phase.value)
    + "; of migrations "
    + ", ".join(f"`{phase.value}`" for phase in MigrationPhase),
    "plugin": "a plugin of the descheduler: as many as its profiles enable",
    "policy": ", ".join(f"`{policy.value}`" for policy in EvictionPolicy),
    "qos": ", ".join(f"`{qos}`" for qos in QOS_CLASSES),
    "reason": "those of [reasons](reasons.md#of-claims-and-pods); of the kubelet plugin, "
    "[its own](reasons.md#of-the-kubelet-plugin); of migrations [theirs](reasons.md#of-podmigrationjobs); of refused "
    "claims [those of conditions](reasons.md#why-a-node-refuses-a-claim); of colocation "
    + ", ".join(f"`{reason.value}`" for reason in ColocationReason)
    + "; of nodes that are degraded "
    + ", ".join(f"`{reason.value}`" for reason in ZeroReason),
    "resource": "a resource of the API that we ask for, say `resourceclaims`",
    "room": "`free`, `full`: whether the list was full meanwhile",
    "sampled": ", ".join(f"`{kind}`" for kind in SAMPLED),
    "source": ", ".join(f"`{source.value}`" for source in TaintSource)
    + "; of claims `resource_claim_template`, `extended_resource` or empty",
    "stage": ", ".join(f"`{stage}`" for stage in COUNTED_STAGES.values()),
    "status": "`success`, `failure`",
    "value": ", ".join(f"`{file.value}`" for file in CgroupFile),
    "verb": "`filter`, `prioritize`, `bind`, `preempt`, `load/filter`, `load/prioritize`",
    "workload": "what a claim is reserved for, say `jobs.batch/train`, or the Reservation that keeps it, say "
    f"`reservation/night`, or `{NONE}` or `{OTHER}`: at most {GROUPS_MAX} "
    f"with their namespaces and classes, {GROUPS_IN_NAMESPACE_MAX} of a namespace",
    "write": "a kind of write, say `SetReservedFor`",
}
"""Label → its values, for every label."""


class MetricFamily(NamedTuple):
    """A metric with its type and labels."""

    name: str
    """The exposed name, without the suffixes of histograms."""

    type: str
    labels: tuple[str, ...]
    help: str

    @property
    def series(self) -> tuple[str, ...]:
        """The names that expressions may use."""
        if self.type == "histogram":
            return tuple(f"{self.name}_{ending}" for ending in ("bucket", "sum", "count"))
        return (self.name,)


def metric_families() -> dict[str, tuple[MetricFamily, ...]]:
    """Return all metrics by the process that exposes them."""
    return {process: tuple(_registry_families(registry)) for process, registry in metric_registries().items()}


def metric_registries() -> dict[str, CollectorRegistry]:
    """Return the registries by the process that exposes them, with the series that are there before any event."""
    controller = ControllerMetrics()
    controller.count_claims(list)
    controller.count_refused_claims(list)
    colocation_metrics.ColocationMetrics(controller.registry).count_nodes(BatchCache(SloConfigurationCache()).totals)
    controller.count_workload_devices(dict)
    claim_cache = ClaimCache()
    controller.count_devices(lambda: device_counts.count_devices(claim_cache))
    return {
        "controller": controller.registry,
        "scheduler-extender": ExtenderMetrics(SchedulerCache()).registry,
        "descheduler": DeschedulerMetrics(JobCache()).registry,
        "colocation-profiles": ProfilesMetrics().registry,
        "page": PageMetrics(int).registry,
        "kubelet-plugin": _kubelet_plugin_registry(),
    }


def _kubelet_plugin_registry() -> CollectorRegistry:
    """Return the registry of a plugin with colocation."""
    registry = PluginMetrics().registry
    for metrics in (ColocationMetrics, BatchPodMetrics, ResctrlMetrics):
        metrics(registry)
    return registry


def _registry_families(registry: CollectorRegistry) -> Iterator[MetricFamily]:
    labels = {
        getattr(collector, "_name", ""): tuple(getattr(collector, "_labelnames", ()))
        for collector in getattr(registry, "_collector_to_names")  # noqa: B009 - private, and nothing public tells labels
    }
    for metric in registry.collect():
        own: Any = getattr(metric, "_labelnames", None)
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        yield MetricFamily(
            name, metric.type, tuple(own) if own is not None else labels.get(metric.name, ()), metric.documentation
        )


_TITLES: Final = {
    "controller": "## Of the controller\n\n`dra-reserve controller`, port 8080 as installed.\n",
    "scheduler-extender": "## Of the scheduler extender\n\n`dra-reserve scheduler-extender`, port 8082.\n",
    "descheduler": "## Of the descheduler\n\n`dra-reserve descheduler`, port 8084.\n",
    "colocation-profiles": "## Of the process for profiles\n\n`dra-reserve colocation-profiles`, port 8086.\n",
    "page": "## Of the page\n\n`dra-reserve page`, port 8082.\n",
    "kubelet-plugin": "## Of the kubelet plugin\n\nWith `--metrics HOST:PORT`; on each node for itself.\n",
}


_INTRODUCTION: Final = (
    "At `/metrics` of each process. [How to watch it](../how-to/metrics.md): dashboard, alerts. No label bears the\n"
    "name of a pod, claim or node, and only two gauges have names of namespaces and workloads.\n"
)


def page() -> str:
    """Return docs/reference/metrics.md as Markdown."""
    parts = [_INTRODUCTION]
    for process, families in metric_families().items():
        rows = [(f"`{family.name}`", family.type, _code_list(family.labels), family.help) for family in families]
        parts += [_TITLES[process], markdown.table(("metric", "type", "labels", "help"), rows)]
    parts += [
        "## Labels\n",
        markdown.table(("label", "values"), [(f"`{name}`", values) for name, values in LABEL_VALUES.items()]),
    ]
    return markdown.page("Metrics", *parts)


def _code_list(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "–"
