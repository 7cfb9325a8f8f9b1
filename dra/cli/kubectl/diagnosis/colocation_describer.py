"""Describes what a node uses, and why it offers to batch pods what it offers, for ``kubectl dra explain``."""

from collections.abc import Iterator
from datetime import datetime
from fractions import Fraction
from typing import Any, Final

import msgspec

from dra.api.colocation.strategies import CalculatePolicy
from dra.api.colocation.well_known import BATCH_CPU, BATCH_MEMORY
from dra.api.reservations.well_known import ANNOTATION_NODE_RESERVATION
from dra.cli.kubectl.diagnosis import describer
from dra.cli.kubectl.diagnosis.colocation_texts import CONFIG_MAP_TEXT, age_text, amount_text, use_data
from dra.cli.kubectl.printers import LABEL_WIDTH
from dra.engine.claims.reasons import list_names
from dra.engine.colocation.batch_resources import CPU_UNIT, MEMORY_UNIT, BatchSum, ResourceSum, ZeroReason
from dra.engine.diagnosis import colocation, colocation_problems
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.colocation import NodeColocation, Sampled, Sampling
from dra.engine.diagnosis.node_use import ResourceUse
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.diagnosis.problems import Problem
from dra.engine.messages.texts import singularize
from dra.model.node_pods import AgentNode

_ZERO_TEXTS: Final = {
    ZeroReason.DISABLED: "colocation is off for this node",
    ZeroReason.NO_REPORT: "there is no report of what the node uses",
    ZeroReason.STALE: "the report of what the node uses is too old",
    ZeroReason.INCOMPLETE: "the report lacks what runs outside of pods uses",
}
_SHOWN_FIELDS: Final = {
    "enable": "enable",
    "cpuReclaimThresholdPercent": "cpu_reclaim_threshold_percent",
    "memoryReclaimThresholdPercent": "memory_reclaim_threshold_percent",
    "cpuCalculatePolicy": "cpu_calculate_policy",
    "memoryCalculatePolicy": "memory_calculate_policy",
    "batchCPUThresholdPercent": "batch_cpu_threshold_percent",
    "batchMemoryThresholdPercent": "batch_memory_threshold_percent",
    "degradeTimeMinutes": "degrade_time_minutes",
    "resourceDiffThreshold": "resource_diff_threshold",
    "updateTimeThresholdSeconds": "update_time_threshold_seconds",
}
"""Field of the ConfigMap → field of the strategy, in the order in which they are shown."""

_RECLAIM_FIELDS: Final = {
    BATCH_CPU: ("cpuReclaimThresholdPercent", "cpu_reclaim_threshold_percent"),
    BATCH_MEMORY: ("memoryReclaimThresholdPercent", "memory_reclaim_threshold_percent"),
}


def describe_colocation(cluster: ClusterState, node: AgentNode, *, now: datetime) -> Iterator[str]:
    """Yield what a node uses and offers, with the sum line by line; nothing where colocation was never installed."""
    explained = colocation.explain_node(cluster, node, now=now)
    if explained.sampled.sampling is Sampling.UNREAD and not explained.use.offers_batch:
        return
    yield f"  uses      {_use_text(explained)}"
    yield from _strategy_lines(explained)
    for resource, use in ((BATCH_CPU, explained.use.cpu), (BATCH_MEMORY, explained.use.memory)):
        yield f"  batch     {_offer_text(resource, use, explained)}"
        if explained.total is not None:
            part = explained.total.cpu if resource == BATCH_CPU else explained.total.memory
            yield from _sum_lines(resource, part, use, explained)
    yield from describer.problem_lines(_problems(cluster, node, now=now), within="")


def _problems(cluster: ClusterState, node: AgentNode, *, now: datetime) -> Iterator[Problem]:
    """Yield the problems of a node, and the errors of the ConfigMap, which may be why its strategy is another one."""
    yield from colocation_problems.node_problems(cluster, node, now=now)
    for problem in colocation_problems.config_problems(cluster):
        if problem.code is ProblemCode.COLOCATION_CONFIG_INVALID:
            yield problem


def _use_text(node: NodeColocation) -> str:
    cpu, memory = node.use.cpu, node.use.memory
    if cpu.used is None and memory.used is None:
        why = colocation_problems.sampling_text(node.sampled) or "NodeMetrics cannot be read"
        return f"unknown: {why}; pods request {_requested_text(node)}"
    used = f"{_part(BATCH_CPU, cpu.used, cpu.capacity)} CPU, {_part(BATCH_MEMORY, memory.used, memory.capacity)} memory"
    return f"{used}, {_sampled_text(node.sampled)}; pods request {_requested_text(node)}"


def _requested_text(node: NodeColocation) -> str:
    return f"{_amount(BATCH_CPU, node.use.cpu.requested)} and {_amount(BATCH_MEMORY, node.use.memory.requested)}"


def _part(resource: str, amount: int | None, whole: int | None) -> str:
    return f"{_amount(resource, amount)} of {_amount(resource, whole)}"


def _amount(resource: str, amount: int | None) -> str:
    return "an unknown amount" if amount is None else amount_text(resource, amount)


def _sampled_text(sampled: Sampled) -> str:
    if sampled.is_ahead:
        return f"reported at {sampled.at}, which is to come: the clock of the node is ahead"
    stale = " (too old)" if sampled.sampling is Sampling.STALE else ""
    return f"reported {age_text(sampled.seconds)} ago{stale}"


def _strategy_lines(node: NodeColocation) -> Iterator[str]:
    """Yield the fields of the strategy that are not Koordinator's defaults, each with where it is from."""
    if not node.is_configured:
        state = "does not exist: colocation is off" if node.total is not None else "cannot be read"
        yield f"  strategy  {CONFIG_MAP_TEXT} {state}"
        return
    if node.is_broken:
        yield f"  strategy  unknown: {CONFIG_MAP_TEXT} has an error, and processes keep the last valid content"
        return
    sources = node.strategy.sources()
    given = [name for name in _SHOWN_FIELDS if sources.get(name, "default") != "default"]
    texts = [f"{name} {_value(node, name)} ({sources[name]})" for name in given]
    rest = "Koordinator's defaults" if not texts else f"{'; '.join(texts)}; else defaults"
    yield f"  strategy  {rest}"
    if len(node.strategy.matching) > 1:
        first, *others = node.strategy.matching
        yield f"  strategy  {list_names(others)} match this node, too, and have no effect: {first} comes first"


def _value(node: NodeColocation, name: str) -> str:
    value: Any = getattr(node.strategy.strategy, _SHOWN_FIELDS[name])
    if isinstance(value, bool):
        return str(value).lower()
    return f"{float(value):g}" if isinstance(value, Fraction) else str(value)


def _offer_text(resource: str, use: ResourceUse, node: NodeColocation) -> str:
    name = resource.partition("/")[2]
    if use.offered is None:
        return f"{name}: not offered{_not_offered_reason(node)}"
    if use.held is None:
        return f"{name}: {amount_text(resource, use.offered)} offered; what is held is unknown"
    held = f"{amount_text(resource, use.held)} held by {node.use.batch_pods or 0} batch pods"
    held += _batch_used_text(resource, node)
    return singularize(
        f"{name}: {amount_text(resource, use.offered)} offered, {held}, {amount_text(resource, use.left or 0)} left"
    )


def _batch_used_text(resource: str, node: NodeColocation) -> str:
    """Return what batch pods use: much less than they hold is a sign that the node holds them back."""
    nanos, unit = (node.batch_used.cpu, CPU_UNIT) if resource == BATCH_CPU else (node.batch_used.memory, MEMORY_UNIT)
    is_shown = nanos is not None and node.use.batch_pods
    return f" that use {amount_text(resource, (nanos or 0) // unit)}" if is_shown else ""


def _not_offered_reason(node: NodeColocation) -> str:
    if not node.is_configured or node.is_broken:
        return ""
    return "" if node.strategy.strategy.enable else f": colocation is off for this node ({_enable_source(node)})"


def _enable_source(node: NodeColocation) -> str:
    return f"enable: {node.strategy.sources()['enable']}"


def _line(label: str, resource: str, amount: int, text: str) -> str:
    return f"  {label}".ljust(LABEL_WIDTH) + f"{amount_text(resource, amount):>9}  {text}".rstrip()


def _sum_lines(resource: str, part: ResourceSum, use: ResourceUse, node: NodeColocation) -> Iterator[str]:
    """Yield the sum of one resource, one term a line, and why another amount is offered at present."""
    if part.zero_reason is not None:
        why = _ZERO_TEXTS[part.zero_reason]
        source = f" ({_enable_source(node)})" if part.zero_reason is ZeroReason.DISABLED else ""
        yield _line("= sum", resource, part.offered, f"{why}{source}, so no more is offered than batch pods hold")
    else:
        yield _line("capacity", resource, part.capacity, "")
        name, field = _RECLAIM_FIELDS[resource]
        percent = getattr(node.strategy.strategy, field)
        yield _line("- margin", resource, part.margin, f"{percent} % may be used ({name}: {_source(node, name)})")
        yield _line("- system", resource, part.system_or_reserved, _system_text(resource, part))
        yield from _pod_lines(resource, part, node.total)
        yield _line("= sum", resource, part.computed, _result_text(resource, part))
    if use.offered is not None and use.offered != part.offered:
        yield f"  differs   {_difference_text(resource, part, use.offered, node)}"


def _source(node: NodeColocation, name: str) -> str:
    return node.strategy.sources().get(name, "default")


def _system_text(resource: str, part: ResourceSum) -> str:
    owners = {f"annotation {ANNOTATION_NODE_RESERVATION}": part.annotated, "the kubelet": part.kubelet}
    reserved = " and ".join(f"{amount_text(resource, amount)} by {who}" for who, amount in owners.items() if amount)
    if part.policy is CalculatePolicy.REQUEST:
        return f"reserved: {reserved}" if reserved else "nothing is reserved"
    if part.reserved > (part.system or 0):
        return f"reserved: {reserved}; what runs outside of pods uses {amount_text(resource, part.system or 0)}"
    return f"used outside of pods{f'; reserved is less: {reserved}' if reserved else ''}"


def _pod_lines(resource: str, part: ResourceSum, total: BatchSum | None) -> Iterator[str]:
    if part.policy is not CalculatePolicy.REQUEST:
        greater = part.policy is CalculatePolicy.MAX_USAGE_REQUEST
        what = "used or requested, whichever is more," if greater else "used"
        yield _line("- used", resource, part.used, f"{what} by pods of higher classes than batch")
    if part.requested:
        text = "requested by pods of higher classes than batch"
        if part.policy is not CalculatePolicy.REQUEST and total is not None:
            more = [""] * (total.without_report - len(total.without_report_names))
            names = list_names([*total.without_report_names, *more])
            text = f"requested by {total.without_report} pods that no report has yet: {names}"
        yield _line("- request", resource, part.requested, singularize(text))
    if part.gone:
        yield _line("- gone", resource, part.gone, "used by pods that were there at the time of the report")


def _result_text(resource: str, part: ResourceSum) -> str:
    if part.held > part.computed:
        return f"less than batch pods hold, so {amount_text(resource, part.held)} is offered"
    if part.most is not None and part.computed == part.most:
        return "the most that the strategy allows to batch pods"
    return "nothing is left" if not part.computed else ""


def _difference_text(resource: str, part: ResourceSum, offered: int, node: NodeColocation) -> str:
    strategy = node.strategy.strategy
    change = abs(part.offered - offered)
    if offered < part.held:
        return f"{amount_text(resource, offered)} is offered, less than batch pods hold: see the warning below"
    small = offered and Fraction(change, offered) <= strategy.resource_diff_threshold
    if small:
        percent = f"{float(100 * strategy.resource_diff_threshold):g} %"
        return (
            f"{amount_text(resource, offered)} is offered: a change of at most {percent} (resourceDiffThreshold: "
            f"{_source(node, 'resourceDiffThreshold')}) waits for {strategy.update_time_threshold_seconds} s"
        )
    wanted = amount_text(resource, part.offered)
    return (
        f"{amount_text(resource, offered)} is offered until the controller writes {wanted}, within a minute; it must "
        "run with colocation: true"
    )


def colocation_data(cluster: ClusterState, node: AgentNode, *, now: datetime) -> dict[str, Any]:
    """Return the same as data: milli-CPUs and bytes."""
    explained = colocation.explain_node(cluster, node, now=now)
    if explained.sampled.sampling is Sampling.UNREAD and not explained.use.offers_batch:
        return {}
    sources = explained.strategy.sources()
    sampled = {"state": explained.sampled.sampling.value, "at": explained.sampled.at}
    content: dict[str, Any] = {
        "use": {name: use_data(use) for name, use in (("cpu", explained.use.cpu), ("memory", explained.use.memory))},
        "sampled": sampled,
        "strategy": {
            name: {"value": _value(explained, name), "from": sources.get(name, "default")} for name in _SHOWN_FIELDS
        },
        "nodeConfigs": list(explained.strategy.matching),
        "problems": [describer.problem_data(problem, within="") for problem in _problems(cluster, node, now=now)],
    }
    if explained.total is not None:
        content["sum"] = {
            "cpu": _sum_data(explained.total.cpu),
            "memory": _sum_data(explained.total.memory),
            "withoutReport": explained.total.without_report,
        }
    return {"colocation": content}


def _sum_data(part: ResourceSum) -> dict[str, Any]:
    content: dict[str, Any] = msgspec.to_builtins(part)
    return {key: value for key, value in content.items() if value is not None}
