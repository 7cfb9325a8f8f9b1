"""The arguments of the plugins that balance the load of nodes: by requests, and by measured use.

Fields and defaults are those of the community's descheduler 0.36 (LowNodeUtilization, HighNodeUtilization) and of
Koordinator 1.6 (LowNodeLoad). What these two accept and then silently do nothing with is refused: thresholds that are
given on one side only, a low threshold above its high one, misspelled resources.
"""

import difflib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, StrictBool, model_validator
from pydantic.alias_generators import to_camel

from dra.api.configuration import ConfigurationSection
from dra.api.descheduler.label_selector import Selector
from dra.api.descheduler.plugin_args import Namespaces, PluginArgs
from dra.api.durations import SECOND
from dra.api.object_fields import Duration

MAX_PERCENT: Final = 100.0

MINUTE: Final = 60 * SECOND

RESOURCES_MAX: Final = 32
"""Maximum resources with a threshold."""

POOLS_MAX: Final = 64
"""Maximum node pools, and maximum pod selectors."""

MEASURED: Final = ("cpu", "memory", "pods")
"""The resources of which NodeMetrics report the use; pods are counted."""

_NATIVE: Final = ("cpu", "memory", "pods", "ephemeral-storage")
_HUGE_PAGES: Final = "hugepages-"


def _known_resources(given: Mapping[str, float]) -> Mapping[str, float]:
    if len(given) > RESOURCES_MAX:
        raise ValueError(f"{len(given)} resources; at most {RESOURCES_MAX} can have a threshold")
    for name in given:
        if name in _NATIVE or "/" in name or name.startswith(_HUGE_PAGES):
            continue
        near = difflib.get_close_matches(name.lower(), _NATIVE, n=1)
        hint = f"did you mean {near[0]}" if near else f"known are {', '.join(_NATIVE)}"
        raise ValueError(f"{name[:64]!r} is no resource, {hint} (extended ones have a slash, as in nvidia.com/gpu)")
    return given


Percentage = Annotated[float, Field(ge=0, le=MAX_PERCENT, strict=True, allow_inf_nan=False)]

Thresholds = Annotated[Mapping[str, Percentage], AfterValidator(_known_resources)]
"""Resource → percent of what a node has for pods."""

Count = Annotated[int, Field(ge=0, strict=True)]

NodeCount = Count
"""A number of nodes; a plugin does nothing while no more nodes than this are underutilized."""


def pair_problems(low: Thresholds, high: Thresholds, *, names: tuple[str, str], is_deviation: bool) -> Iterator[str]:
    """Yield what is wrong with a pair of thresholds; each text starts with the path of the field.

    A low threshold without its high one would make the high one 0, and the reverse would make it 100: either way the
    plugin would stand still and say nothing.
    """
    low_name, high_name = names
    for resource in (name for name in low if name not in high):
        yield f"{high_name}.{resource}: is missing, and {low_name} has it; give both the same resources"
    for resource in (name for name in high if name not in low):
        yield f"{low_name}.{resource}: is missing, and {high_name} has it; give both the same resources"
    if is_deviation:  # percent below and above the mean: any two go together
        return
    for resource, percent in low.items():
        if percent > high.get(resource, MAX_PERCENT):
            yield f"{low_name}.{resource}: {percent:g} is above {high_name}.{resource}, {high[resource]:g}"


def _require(problems: Iterator[str]) -> None:
    if text := next(problems, ""):
        raise ValueError(text)


def _only_exclude(given: Namespaces) -> Namespaces:
    if given.include:
        raise ValueError("include: is not supported here, as upstream; list the other namespaces in exclude")
    return given


ExcludedNamespaces = Annotated[Namespaces, AfterValidator(_only_exclude)]
"""The namespaces whose pods count as load and are not evicted."""


class MetricsSource(StrEnum):
    """The source of what nodes and pods use."""

    KUBERNETES_METRICS = "KubernetesMetrics"
    """The measured use; it is read from NodeMetrics, in place of the API metrics.k8s.io."""

    PROMETHEUS = "Prometheus"
    """Refused: the samples of a query say nothing about pods."""


class PrometheusQuery(ConfigurationSection):
    """A query of Prometheus."""

    query: str = ""


class MetricsUtilization(ConfigurationSection):
    """Whether use is measured; without, the requests of pods count."""

    metrics_server: StrictBool = False
    """The old form of ``source: KubernetesMetrics``."""

    source: MetricsSource | None = None

    prometheus: PrometheusQuery | None = None

    @model_validator(mode="after")
    def _supported(self) -> Self:
        if self.source is MetricsSource.PROMETHEUS or self.prometheus is not None:
            raise ValueError(
                "Prometheus is not supported; use KubernetesMetrics, or the plugin LowNodeLoad, which knows the use of "
                "each pod"
            )
        if self.metrics_server and self.source is not None:
            raise ValueError("give source or metricsServer, not both")
        if not self.metrics_server and self.source is None:
            raise ValueError("source: is missing; write KubernetesMetrics, or leave metricsUtilization out")
        return self


class EvictionLimits(ConfigurationSection):
    """The maximum evictions of one plugin in a round."""

    node: Count | None = None
    """Maximum evictions from a node; 0 means none, null no limit."""


class LowNodeUtilizationArgs(PluginArgs):
    """The arguments of LowNodeUtilization: from nodes above their target to nodes below their threshold."""

    thresholds: Thresholds
    """A node whose use of all these resources is at most this receives pods."""

    target_thresholds: Thresholds
    """A node whose use of any of these resources is above this gives pods away."""

    use_deviation_thresholds: StrictBool = False
    """Whether the percentages are distances from the mean of all nodes."""

    number_of_nodes: NodeCount = 0
    metrics_utilization: MetricsUtilization | None = None
    evictable_namespaces: ExcludedNamespaces = Namespaces()
    eviction_limits: EvictionLimits = EvictionLimits()

    receivers_within_target: StrictBool = True
    """Whether a pod stays where each receiver would be above its own target with the pod; false: as upstream."""

    @model_validator(mode="after")
    def _pairs(self) -> Self:
        if not self.thresholds:
            raise ValueError("thresholds: no resource has a threshold; write, for example, cpu: 20")
        _require(
            pair_problems(
                self.thresholds,
                self.target_thresholds,
                names=("thresholds", "targetThresholds"),
                is_deviation=self.use_deviation_thresholds,
            )
        )
        return self


class EvictionMode(StrEnum):
    """A restriction on the pods that leave a node."""

    ONLY_THRESHOLDING_RESOURCES = "OnlyThresholdingResources"
    """Only pods that request a resource with a threshold."""


class HighNodeUtilizationArgs(PluginArgs):
    """The arguments of HighNodeUtilization: from nodes below their threshold to the others."""

    thresholds: Thresholds
    """A node whose requests of all these resources are at most this is emptied."""

    number_of_nodes: NodeCount = 0
    eviction_modes: Annotated[tuple[EvictionMode, ...], Field(max_length=1)] = ()
    evictable_namespaces: ExcludedNamespaces = Namespaces()

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.thresholds:
            raise ValueError("thresholds: no resource has a threshold; write, for example, cpu: 20")
        return self


class PodSelector(ConfigurationSection):
    """A selector of pods that may be evicted."""

    name: str = ""
    selector: Selector | None = None


class AnomalyCondition(ConfigurationSection):
    """The reports that must show a node overutilized before pods leave the node.

    A report of a node counts once, however many rounds see it. One report below the threshold ends the anomaly, and the
    time between reports does not matter: so `timeout` and `consecutiveNormalities` of Koordinator have no effect.
    """

    timeout: Annotated[Duration, Field(ge=0)] = MINUTE
    consecutive_abnormalities: Annotated[int, Field(ge=1, le=1000, strict=True)] = 5
    """Reports above the threshold after which one more makes the node a source of pods; 1: the first one does."""

    consecutive_normalities: Count = 3


class LoadThresholds(ConfigurationSection):
    """The thresholds of LowNodeLoad, which its node pools share."""

    use_deviation_thresholds: StrictBool | None = None
    """Whether the percentages are distances from the mean of all nodes of the pool; 0: the resource does not count."""

    low_thresholds: Thresholds | None = None
    """A node whose use of all these resources is at most this receives pods; memory counts at 100 if it is not
    named."""

    high_thresholds: Thresholds | None = None
    """A node whose use of any of these resources is above this gives pods away."""

    prod_low_thresholds: Thresholds | None = None
    """The same for the use of pods with priority class koord-prod."""

    prod_high_thresholds: Thresholds | None = None
    resource_weights: Annotated[Mapping[str, int], Field(max_length=RESOURCES_MAX)] | None = None
    """Resource → its weight in the order of nodes and pods; 0 and less means 1."""

    anomaly_condition: AnomalyCondition | None = None

    @model_validator(mode="after")
    def _measured_resources(self) -> Self:
        for field in ("low_thresholds", "high_thresholds", "prod_low_thresholds", "prod_high_thresholds"):
            for name in getattr(self, field) or {}:
                if name not in MEASURED:
                    raise ValueError(
                        f"{to_camel(field)}.{name}: is not measured, only {', '.join(MEASURED)} are; "
                        "LowNodeUtilization balances other resources"
                    )
        return self

    def problems(self, path: str) -> Iterator[str]:
        """Yield what is wrong with the thresholds together; each text starts with ``path`` and the field."""
        deviation = bool(self.use_deviation_thresholds)
        low, high = self.low_thresholds or {}, self.high_thresholds or {}
        prod_low, prod_high = self.prod_low_thresholds or {}, self.prod_high_thresholds or {}
        if not low and not prod_low:
            yield f"{path}lowThresholds: no resource has a threshold; write lowThresholds and highThresholds"
        node, prod = ("lowThresholds", "highThresholds"), ("prodLowThresholds", "prodHighThresholds")
        for texts in (
            pair_problems(low, high, names=node, is_deviation=deviation),
            pair_problems(prod_low, prod_high, names=prod, is_deviation=deviation),
        ):
            yield from (path + text for text in texts)
        for resource, percent in prod_high.items():
            if not deviation and percent > high.get(resource, MAX_PERCENT):
                yield (
                    f"{path}prodHighThresholds.{resource}: {percent:g} is above highThresholds.{resource}, "
                    f"{high[resource]:g}; pods of koord-prod are a part of all pods"
                )


class NodePool(LoadThresholds):
    """A group of nodes with thresholds of their own; what a pool does not say, it has from the arguments above it."""

    name: str = ""
    node_selector: Selector
    """The nodes of the pool; a node belongs to the first pool that selects it."""


class LowNodeLoadArgs(PluginArgs, LoadThresholds):
    """The arguments of LowNodeLoad: as LowNodeUtilization, by the measured use in NodeMetrics."""

    paused: StrictBool = False
    dry_run: StrictBool = False
    """Whether the plugin evicts nothing, and only says in a note of the round which nodes are overutilized."""

    number_of_nodes: NodeCount = 0
    node_metric_expiration_seconds: Annotated[int, Field(gt=0, strict=True)] = 180
    """Age in seconds from which on a NodeMetric does not count: its node neither gives nor receives pods."""

    evictable_namespaces: Namespaces = Namespaces()
    node_selector: Selector | None = None
    """The nodes that belong to no pool and count; null: all of these."""

    pod_selectors: Annotated[tuple[PodSelector, ...], Field(max_length=POOLS_MAX)] = ()
    """A pod that none of these selects is not evicted; empty: each pod may be."""

    node_fit: StrictBool = True
    """Whether a pod stays where each receiver would be above its own threshold with the pod."""

    detector_cache_timeout: Annotated[Duration, Field(ge=0)] = 5 * MINUTE
    """Has no effect: what a node was is known as long as rounds see it."""

    node_pools: Annotated[tuple[NodePool, ...], Field(max_length=POOLS_MAX)] = ()

    @model_validator(mode="after")
    def _thresholds_fit_together(self) -> Self:
        pools = self.effective_pools
        paths = [f"nodePools[{index}]." for index in range(len(self.node_pools))] + [""]
        _require(problem for pool, path in zip(pools, paths, strict=False) for problem in pool.problems(path))
        return self

    @property
    def effective_pools(self) -> tuple["EffectivePool", ...]:
        """The node pools in order, each with all that it has from the arguments above; last the nodes of no pool."""
        inherited = {name: getattr(self, name) for name in LoadThresholds.model_fields}
        pools = []
        for pool in self.node_pools:
            own = {name: given for name in inherited if (given := getattr(pool, name)) is not None}
            pools.append(EffectivePool(name=pool.name, node_selector=pool.node_selector, **inherited | own))
        if self.low_thresholds or self.prod_low_thresholds or not pools:
            pools.append(EffectivePool(node_selector=self.node_selector, **inherited))
        return tuple(pools)


class EffectivePool(LoadThresholds):
    """A node pool after it has inherited, or the nodes that belong to none."""

    name: str = ""
    node_selector: Selector | None = None

    def weight(self, resource: str) -> int:
        """Return the weight of a resource: 1 for cpu, memory and resources with a threshold, else 0."""
        given = (self.resource_weights or {}).get(resource, 0)
        named = {"cpu", "memory", *(self.low_thresholds or {}), *(self.high_thresholds or {})}
        return given if given > 0 else int(resource in named)


class PressureTarget(StrEnum):
    """The pods that leave a node under pressure."""

    DISTURBED = "Disturbed"
    """The pod that waits for CPUs."""

    DISTURBING = "Disturbing"
    """The batch pods, the largest first."""


class RemovePodsUnderPressureArgs(PluginArgs):
    """The arguments of RemovePodsUnderPressure.

    A pod of QoS class LS, LSR or LSE leaves its node if it waits for CPUs although the batch pods of the node are held
    back as far as they can be.
    """

    cpu_pressure_percent: Annotated[float, Field(gt=0, le=MAX_PERCENT, strict=True, allow_inf_nan=False)] = 20.0
    """Percent of the last minute in which a process of the pod waited for a CPU, from which on the pod is disturbed."""

    low_pressure_percent: Percentage = 5.0
    """Percent up to which a node receives pods: no pod of QoS class LS, LSR or LSE there waits longer."""

    consecutive_reports: Annotated[int, Field(ge=1, le=1000, strict=True)] = 3
    """Reports in a row that must show the same pod disturbed."""

    target: PressureTarget = PressureTarget.DISTURBED
    node_metric_expiration_seconds: Annotated[int, Field(gt=0, strict=True)] = 180
    """Age in seconds from which on a NodeMetric does not count."""

    evictable_namespaces: Namespaces = Namespaces()

    @model_validator(mode="after")
    def _below(self) -> Self:
        if self.low_pressure_percent >= self.cpu_pressure_percent:
            raise ValueError(
                f"lowPressurePercent: {self.low_pressure_percent:g} is not below cpuPressurePercent, "
                f"{self.cpu_pressure_percent:g}; a pod would move from one such node to the next"
            )
        return self
