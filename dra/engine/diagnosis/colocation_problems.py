"""The problems of colocation: of nodes, of pods with batch resources, and of the ConfigMap with the strategies."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from dra.api.colocation.well_known import BATCH_CPU, BATCH_MEMORY, CONFIG_MAP, KEY_COLOCATION, KEY_QOS, KEY_THRESHOLD
from dra.engine.claims.reasons import list_names
from dra.engine.diagnosis import colocation
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.colocation import Sampled, Sampling
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.diagnosis.problems import Problem, config_map_problem, node_problem, pod_problem
from dra.model import quantities
from dra.model.meta import ObjectMeta
from dra.model.node_pods import AgentNode
from dra.model.scheduling import Container, SchedulerPod

REFUSED_PREFIX: Final = "OutOfkubernetes.io/batch-"
"""Beginning of the reason of a pod that the kubelet has refused for want of a batch resource."""

_MINUTE: Final = 60.0


def sampling_text(sample: Sampled) -> str:
    """Return why batch resources cannot be computed from a node's report; empty if they can, or that is not known."""
    match sample.sampling:
        case Sampling.STALE:
            return f"its NodeMetric was last reported at {sample.at}"
        case Sampling.INCOMPLETE:
            return "its NodeMetric lacks what runs outside of pods uses"
        case Sampling.NEVER:
            return "its NodeMetric was never reported"
        case Sampling.ABSENT:
            return "it has no NodeMetric, which the controller creates"
        case _:
            return ""


def node_problems(cluster: ClusterState, node: AgentNode, *, now: datetime) -> Iterator[Problem]:
    """Yield the problems of a node: no usable report, less offered than held, annotations that have no effect."""
    name, uid = node.metadata.name, node.metadata.uid
    use, strategy = colocation.node_use_of(cluster, node), colocation.strategy_of(cluster, node)
    if strategy.strategy.enable and not _is_new(cluster, node, minutes=strategy.strategy.degrade_time_minutes, now=now):
        state = sampling_text(colocation.sampled(cluster, node, now=now))
        if state:
            held = UNKNOWN_COUNT if use.batch_pods is None else use.batch_pods
            yield node_problem(ProblemCode.NOT_SAMPLED, name=name, uid=uid, state=state, held=held)
    below = [
        f"{resource.partition('/')[2]} {part.offered or 0} of {part.held}"
        for resource, part in ((BATCH_CPU, use.cpu), (BATCH_MEMORY, use.memory))
        if part.held is not None and part.held > (part.offered or 0)
    ]
    if below:
        yield node_problem(ProblemCode.BATCH_BELOW_HELD, name=name, uid=uid, amounts=", ".join(below))
    for error in strategy.problems:
        yield node_problem(ProblemCode.COLOCATION_CONFIG_INVALID, name=name, uid=uid, error=error)


UNKNOWN_COUNT: Final = "the"
"""Replaces the number of batch pods on a node where not all pods were read."""


def _is_new(cluster: ClusterState, node: AgentNode, *, minutes: int, now: datetime) -> bool:
    """Report whether a node, or its NodeMetric, is too young to have been reported on."""
    metric = colocation.node_metric_of(cluster, node.metadata.name)
    if metric is not None and metric.status.update_time:
        return False
    return any(_age(meta, now) < minutes * _MINUTE for meta in (node.metadata, metric and metric.metadata) if meta)


def _age(meta: ObjectMeta, now: datetime) -> float:
    """Return the age of an object in seconds; of one that tells no time, that of an old one."""
    if not meta.creation_timestamp:
        return float("inf")
    return (now - datetime.fromisoformat(meta.creation_timestamp)).total_seconds()


def config_problems(cluster: ClusterState) -> Iterator[Problem]:
    """Yield the problems of the ConfigMap: errors, and selectors of several nodeConfigs that match one node."""
    config_map = cluster.snapshot.colocation_config
    if config_map is None:
        return
    configuration, uid = colocation.configuration(cluster), config_map.metadata.uid
    for problem in configuration.problems:
        code = ProblemCode.COLOCATION_CONFIG_INVALID
        yield config_map_problem(code, key=CONFIG_MAP, uid=uid, error=str(problem), part=problem.key)
    for key, content in (
        (KEY_COLOCATION, configuration.colocation),
        (KEY_THRESHOLD, configuration.threshold),
        (KEY_QOS, configuration.qos),
    ):
        by_configs: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
        for name, node in sorted(cluster.nodes.items()) if len(content.nodes) > 1 else ():
            by_configs[tuple(config.name for config in content.matching(node.metadata.labels or {}))].append(name)
        for configs, nodes in by_configs.items():
            if len(configs) > 1:
                yield config_map_problem(
                    ProblemCode.NODE_CONFIGS_OVERLAP,
                    key=CONFIG_MAP,
                    uid=uid,
                    part=key,
                    count=len(nodes),
                    configs=list_names(configs),
                    nodes=list_names(nodes),
                )


def requests_batch(pod: SchedulerPod) -> bool:
    """Report whether a container of a pod requests a batch resource."""
    return any(
        BATCH_CPU in requests or BATCH_MEMORY in requests
        for container in _containers(pod)
        if (requests := container.resources.requests)
    )


def pod_problems(pod: SchedulerPod) -> Iterator[Problem]:
    """Yield the problems of a pod with batch resources that has not ended: requests of less than a milli-CPU."""
    if pod.terminal:
        return
    for container in _containers(pod):
        amount = (container.resources.requests or {}).get(BATCH_CPU)
        if amount is not None and quantities.parse(amount).denominator > 1:
            meant = str(amount).removesuffix("m")
            facts = {"container": container.name, "amount": str(amount), "meant": meant}
            yield pod_problem(ProblemCode.BATCH_FRACTION, key=pod.metadata.key, uid=pod.metadata.uid, **facts)


def refusal_problems(pod: SchedulerPod) -> Iterator[Problem]:
    """Yield why a kubelet has refused a pod with batch resources."""
    if not pod.status.reason.startswith(REFUSED_PREFIX):
        return
    owner = pod.metadata.controller
    facts = {
        "node": pod.spec.node_name,
        "message": pod.status.message,
        "owner": f"{owner.kind.lower()} {owner.name}" if owner is not None else "",
    }
    yield pod_problem(ProblemCode.BATCH_REFUSED, key=pod.metadata.key, uid=pod.metadata.uid, **facts)


def _containers(pod: SchedulerPod) -> Iterable[Container]:
    return (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))
