"""ConfigMap koordinator-system/slo-controller-config: parsed, checked, and merged for each node.

The strategy of a node is Koordinator's defaults, over them the cluster's strategy, over it the *first* strategy of
``nodeConfigs`` (``nodeStrategies`` in the other keys) whose selector matches the labels of the node.

Each key stands for itself. A key with an error (no JSON, a field of a wrong type or out of range, in the cluster's
strategy or in any nodeConfig, or a merged strategy that contradicts itself) keeps its last good content; a key that is
absent, or a ConfigMap that does not exist, means the defaults: everything is off. An empty selector selects no node
here: it would take every node from all that follow.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from dra.api.colocation import well_known
from dra.api.colocation.config_fields import TEXT_MAX, Field, FieldProblem, Layer, merge, pick, read_fields, show
from dra.api.colocation.config_json import MalformedJsonError, decode_object
from dra.api.colocation.config_tables import (
    COLOCATION_FIELDS,
    QOS_CLASSES,
    QOS_FIELDS,
    THRESHOLD_FIELDS,
    THRESHOLD_PAIRS,
)
from dra.api.colocation.strategies import (
    CalculatePolicy,
    ColocationStrategy,
    QosStrategy,
    ResctrlStrategy,
    SuppressPolicy,
    ThresholdStrategy,
)
from dra.model.meta import Struct
from dra.model.preemption import LabelSelector

Labels: TypeAlias = Mapping[str, str]

NODE_STRATEGIES_MAX: Final = 1024
"""nodeConfigs of a key at most."""

NO_LAYER: Final[Layer] = {}


class ConfigProblem(Struct, frozen=True):
    """A mistake in the ConfigMap, with its key."""

    key: str
    text: str
    """Where in the value, and what: begins with the nodeConfig if it is one's."""

    is_warning: bool = False
    """Whether the rest of the key counts nevertheless."""

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


class NodeLayer(Struct, frozen=True):
    """One of ``nodeConfigs`` or ``nodeStrategies``: the fields for the nodes that its selector matches."""

    name: str
    """For people: ``nodeConfig gpu``, or ``nodeConfigs[2]`` if it has no name."""

    selector: LabelSelector
    layer: Layer


class KeyConfiguration(Struct, frozen=True):
    """The content of a key: the strategy of the cluster, and those of some nodes in their order."""

    cluster: Layer = NO_LAYER
    nodes: tuple[NodeLayer, ...] = ()

    def matching(self, labels: Labels) -> tuple[NodeLayer, ...]:
        """Return all strategies that match a node; only the first one counts."""
        return tuple(node for node in self.nodes if node.selector.matches(labels))

    def merged(self, labels: Labels) -> Layer:
        """Return the cluster's fields and over them those of the first strategy that matches a node."""
        first = next((node for node in self.nodes if node.selector.matches(labels)), None)
        return self.cluster if first is None else merge(self.cluster, first.layer)


class SloConfiguration(Struct, frozen=True):
    """The ConfigMap as far as it is in force, and what is wrong with its present content."""

    colocation: KeyConfiguration = KeyConfiguration()
    threshold: KeyConfiguration = KeyConfiguration()
    qos: KeyConfiguration = KeyConfiguration()
    problems: tuple[ConfigProblem, ...] = ()

    def threshold_strategy(self, labels: Labels) -> ThresholdStrategy:
        """Return how a node with these labels holds batch pods back."""
        return threshold_strategy(self.threshold.merged(labels))

    def qos_strategy(self, labels: Labels) -> QosStrategy:
        """Return how a node with these labels divides caches and memory bandwidth."""
        return qos_strategy(self.qos.merged(labels))


OFF: Final = SloConfiguration()


def read_slo_configuration(data: Mapping[str, str] | None, *, last: SloConfiguration = OFF) -> SloConfiguration:
    """Return the configuration of a ConfigMap's data; None if it does not exist.

    A key with an error keeps its content of `last`; ``problems`` are those of this content alone.
    """
    data, problems = data or {}, list[ConfigProblem]()
    colocation = _read_key(data, _COLOCATION, last.colocation, problems)
    threshold = _read_key(data, _THRESHOLD, last.threshold, problems)
    qos = _read_key(data, _QOS, last.qos, problems)
    return SloConfiguration(colocation=colocation, threshold=threshold, qos=qos, problems=tuple(problems))


def colocation_strategy(layer: Layer) -> ColocationStrategy:
    """Return the strategy with these fields, and the defaults of the others."""
    fields = {attribute: layer[name] for name, attribute in COLOCATION_ATTRIBUTES.items() if name in layer}
    for policy in ("cpu_calculate_policy", "memory_calculate_policy"):
        if policy in fields:
            fields[policy] = CalculatePolicy(fields[policy])
    if durations := layer.get("metricAggregatePolicy", NO_LAYER).get("durations"):
        fields["metric_aggregate_durations"] = durations
    return ColocationStrategy(**fields)


def threshold_strategy(layer: Layer) -> ThresholdStrategy:
    """Return the strategy with these fields, and the defaults of the others."""
    fields = {attribute: layer[name] for name, attribute in _THRESHOLD_ATTRIBUTES.items() if name in layer}
    if "cpu_suppress_policy" in fields:
        fields["cpu_suppress_policy"] = SuppressPolicy(fields["cpu_suppress_policy"])
    return ThresholdStrategy(**fields)


def qos_strategy(layer: Layer) -> QosStrategy:
    """Return the strategies of the classes with these fields, and the defaults of the others."""
    default = QosStrategy()
    classes = {
        attribute: _resctrl_strategy(layer.get(name, NO_LAYER), getattr(default, attribute))
        for name, attribute in QOS_CLASSES.items()
    }
    return QosStrategy(**classes)


def _resctrl_strategy(layer: Layer, default: ResctrlStrategy) -> ResctrlStrategy:
    given = layer.get("resctrlQOS", NO_LAYER)
    return msgspec.structs.replace(
        default, **{attribute: given[name] for name, attribute in _RESCTRL_ATTRIBUTES.items() if name in given}
    )


COLOCATION_ATTRIBUTES: Final = {
    "enable": "enable",
    "metricAggregateDurationSeconds": "metric_aggregate_duration_seconds",
    "metricReportIntervalSeconds": "metric_report_interval_seconds",
    "metricMemoryCollectPolicy": "metric_memory_collect_policy",
    "cpuReclaimThresholdPercent": "cpu_reclaim_threshold_percent",
    "cpuCalculatePolicy": "cpu_calculate_policy",
    "memoryReclaimThresholdPercent": "memory_reclaim_threshold_percent",
    "memoryCalculatePolicy": "memory_calculate_policy",
    "degradeTimeMinutes": "degrade_time_minutes",
    "updateTimeThresholdSeconds": "update_time_threshold_seconds",
    "resourceDiffThreshold": "resource_diff_threshold",
    "batchCPUThresholdPercent": "batch_cpu_threshold_percent",
    "batchMemoryThresholdPercent": "batch_memory_threshold_percent",
}
"""Field of ``colocation-config`` → field of `ColocationStrategy`."""

_THRESHOLD_ATTRIBUTES: Final = {
    "enable": "enable",
    "cpuSuppressThresholdPercent": "cpu_suppress_threshold_percent",
    "cpuSuppressMinPercent": "cpu_suppress_min_percent",
    "cpuSuppressPolicy": "cpu_suppress_policy",
}
_RESCTRL_ATTRIBUTES: Final = {
    "enable": "enable",
    "catRangeStartPercent": "cat_range_start_percent",
    "catRangeEndPercent": "cat_range_end_percent",
    "mbaPercent": "mba_percent",
}


class _KeyShape(Struct, frozen=True):
    """The places of a key's parts: ``colocation-config`` has the cluster's fields beside nodeConfigs."""

    key: str
    fields: Mapping[str, Field]
    cluster: str
    nodes: str
    node: str


_COLOCATION: Final = _KeyShape(
    key=well_known.KEY_COLOCATION, fields=COLOCATION_FIELDS, cluster="", nodes="nodeConfigs", node="nodeConfig"
)
_THRESHOLD: Final = _KeyShape(
    key=well_known.KEY_THRESHOLD,
    fields=THRESHOLD_FIELDS,
    cluster="clusterStrategy",
    nodes="nodeStrategies",
    node="nodeStrategy",
)
_QOS: Final = msgspec.structs.replace(_THRESHOLD, key=well_known.KEY_QOS, fields=QOS_FIELDS)


def _read_key(
    data: Mapping[str, str], shape: _KeyShape, last: KeyConfiguration, problems: list[ConfigProblem]
) -> KeyConfiguration:
    text = data.get(shape.key)
    if text is None or not text.strip():
        return KeyConfiguration()
    mine: list[FieldProblem] = []
    read = _read_content(text, shape, mine)
    problems += [ConfigProblem(key=shape.key, text=str(problem), is_warning=problem.is_warning) for problem in mine]
    return read if all(problem.is_warning for problem in mine) else last


def _read_content(text: str, shape: _KeyShape, problems: list[FieldProblem]) -> KeyConfiguration:
    try:
        content = decode_object(text)
    except MalformedJsonError as error:
        problems.append(FieldProblem(path="", text=str(error)))
        return KeyConfiguration()
    if shape.cluster:
        read_fields(content, {}, problems, others=(shape.cluster, shape.nodes))
        given = pick(content, shape.cluster)
        cluster = {} if given is None else read_fields(given, shape.fields, problems, path=shape.cluster)
    else:
        cluster = read_fields(content, shape.fields, problems, others=(shape.nodes,))
    problems += _contradictions(shape, cluster, path=shape.cluster)
    nodes = pick(content, shape.nodes)
    if nodes is None:
        return KeyConfiguration(cluster=cluster)
    if not isinstance(nodes, list) or len(nodes) > NODE_STRATEGIES_MAX:
        most = f"is not a list of at most {NODE_STRATEGIES_MAX} objects"
        problems.append(FieldProblem(path=shape.nodes, text=f"{show(nodes)} {most}"))
        return KeyConfiguration()
    layers = [_read_node_layer(given, index, shape, cluster, problems) for index, given in enumerate(nodes)]
    problems += _names_used_twice(layers)
    return KeyConfiguration(cluster=cluster, nodes=tuple(layers))


def _names_used_twice(layers: Iterable[NodeLayer]) -> list[FieldProblem]:
    text = "the name is used twice; give each its own, by which messages can tell them apart"
    counts = Counter(layer.name for layer in layers)
    return [FieldProblem(path=name, text=text, is_warning=True) for name, count in counts.items() if count > 1]


def _read_node_layer(
    given: object, index: int, shape: _KeyShape, cluster: Layer, problems: list[FieldProblem]
) -> NodeLayer:
    path = f"{shape.nodes}[{index}]"
    if isinstance(given, Mapping) and isinstance(named := pick(given, "name"), str) and named:
        path = f"{shape.node} {named[:TEXT_MAX]}"
    mine: list[FieldProblem] = []
    layer = read_fields(given, shape.fields, mine, others=("name", "nodeSelector"))
    selector = _read_selector(pick(given, "nodeSelector") if isinstance(given, Mapping) else None, mine)
    of_cluster = _contradictions(shape, cluster)
    mine += [problem for problem in _contradictions(shape, merge(cluster, layer)) if problem not in of_cluster]
    problems += [
        msgspec.structs.replace(problem, path=": ".join(filter(None, (path, problem.path)))) for problem in mine
    ]
    return NodeLayer(name=path, selector=selector, layer=layer)


def _read_selector(given: object, problems: list[FieldProblem]) -> LabelSelector:
    try:
        selector = msgspec.convert(given or {}, LabelSelector)
    except msgspec.ValidationError as error:
        problems.append(FieldProblem(path="nodeSelector", text=str(error)))
        return LabelSelector()
    if selector.is_empty:
        text = "selects no node here, since it is empty; name the labels, or move the fields to the cluster's"
        problems.append(FieldProblem(path="nodeSelector", text=text, is_warning=True))
    for requirement in selector.match_expressions or ():
        if problem := _requirement_problem(requirement.operator, requirement.values or []):
            path = f"nodeSelector.matchExpressions: {requirement.key[:TEXT_MAX]}"
            problems.append(FieldProblem(path=path, text=problem))
    return selector


def _requirement_problem(operator: str, values: list[str]) -> str:
    match operator:
        case "In" | "NotIn":
            return "" if values else f"operator {operator} needs values"
        case "Exists" | "DoesNotExist":
            return f"operator {operator} takes no values" if values else ""
        case _:
            return f"operator {show(operator)} is not one of In, NotIn, Exists, DoesNotExist"


def _contradictions(shape: _KeyShape, merged: Layer, *, path: str = "") -> list[FieldProblem]:
    """Return the pairs of a merged strategy whose lower bound is not below the upper one."""
    prefix = f"{path}." if path else ""
    if shape is _COLOCATION:
        return _late_reports(merged)
    if shape is _THRESHOLD:
        return _reversed_pairs(merged, THRESHOLD_PAIRS, prefix)
    if shape is not _QOS:
        return []
    problems = []
    for name in (*QOS_CLASSES, "systemClass", "cgroupRoot"):
        given = merged.get(name, NO_LAYER).get("resctrlQOS", NO_LAYER)
        if any(field in given for field in _CAT_RANGE):
            default = getattr(QosStrategy(), QOS_CLASSES.get(name, ""), ResctrlStrategy())
            range_ = (default.cat_range_start_percent, default.cat_range_end_percent)
            effective = dict(zip(_CAT_RANGE, range_, strict=True)) | dict(given)
            problems += _reversed_pairs(effective, (_CAT_RANGE,), f"{prefix}{name}.resctrlQOS.")
    return problems


def _late_reports(merged: Layer) -> list[FieldProblem]:
    """Return that each report is stale before the next one comes, so that batch resources come and go."""
    strategy = colocation_strategy(merged)
    interval, limit = strategy.metric_report_interval_seconds, 60 * strategy.degrade_time_minutes
    if interval < limit:
        return []
    text = f"{interval} is not less than degradeTimeMinutes, {limit} seconds: each report is stale before the next"
    return [FieldProblem(path="metricReportIntervalSeconds", text=text, is_warning=True)]


_CAT_RANGE: Final = ("catRangeStartPercent", "catRangeEndPercent")


def _reversed_pairs(fields: Mapping[str, Any], pairs: Iterable[tuple[str, str]], prefix: str) -> list[FieldProblem]:
    return [
        FieldProblem(path=f"{prefix}{low}", text=f"{fields[low]} is not less than {high} {fields[high]}")
        for low, high in pairs
        if low in fields and high in fields and fields[low] >= fields[high]
    ]
