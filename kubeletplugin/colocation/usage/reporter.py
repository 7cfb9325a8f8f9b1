"""Writes what the node uses into the status of its NodeMetric.

The controller creates the NodeMetric, and its spec says over which times to average and how often to report. Only the
object with the name of the own node is written, and only its status. A node that has sampled too little reports
nothing: the status keeps its time, by which readers see that it is stale.
"""

import asyncio
import logging
from collections.abc import Sequence
from random import Random
from typing import Any, Final, NoReturn

import msgspec

from dra.engine.suppression.decide import Suppression
from dra.engine.usage.collect_policy import collect_policy
from dra.engine.usage.history import UsageHistory
from dra.engine.usage.report import CollectPolicy, ReportedPod, make_report
from dra.kube.backoff import JITTER
from dra.kube.client import Client
from dra.kube.clock import SYSTEM, Clock, rfc3339
from dra.kube.errors import ApiError
from dra.kube.resources import NODE_METRICS
from dra.model.koordinator_classes import PRIORITY_CLASS_NAMES, PriorityClass, QosClass
from dra.model.meta import ObjectMeta, PartialObjectMetadata, Struct
from kubeletplugin.colocation.metrics import ColocationMetrics
from kubeletplugin.colocation.node_state import PodOnNode
from kubeletplugin.colocation.usage.sampler import POD_INTERVAL

JITTER_SECONDS: Final = 5.0
"""Seconds by which a report comes earlier or later at most, so that the nodes of a cluster do not report at once."""

RETRY_SECONDS: Final = 10.0
"""Seconds between attempts while there is too little to report, or no NodeMetric."""

AGGREGATE_SECONDS_MIN: Final = 2 * POD_INTERVAL
"""Shortest window of averages: a shorter one may have a single sample of pods, of which no average is made."""

_PRIORITY_NAMES: Final = {priority: name for name, priority in PRIORITY_CLASS_NAMES.items()}

_log: Final = logging.getLogger(__name__)


class NodeMetricSpec(Struct, frozen=True):
    """``spec`` of a NodeMetric."""

    metric_collect_policy: dict[str, Any] | None = None


class OwnNodeMetric(Struct, frozen=True):
    """The NodeMetric of the own node, as far as its node reads it."""

    metadata: ObjectMeta
    spec: NodeMetricSpec = NodeMetricSpec()


class NodeMetricReporter:
    """Reports what one node uses; `run` never returns and ends only by cancellation."""

    def __init__(
        self,
        client: Client,
        history: UsageHistory,
        *,
        node: str,
        metrics: ColocationMetrics,
        clock: Clock = SYSTEM,
        random: Random = JITTER,
    ) -> None:
        self._client = client
        self._history = history
        self._node = node
        self._metrics = metrics
        self._clock = clock
        self._random = random
        self._object: OwnNodeMetric | None = None
        self._pods: Sequence[PodOnNode] = ()
        self._features: Sequence[dict[str, Any]] = ()
        self._suppression = Suppression()
        self._policy = CollectPolicy()
        self._logged_problems: tuple[str, ...] = ()

    def observe(self, obj: OwnNodeMetric) -> None:
        """Follow the spec of the NodeMetric."""
        self._object = obj
        self._policy, problems = collect_policy(obj.spec.metric_collect_policy)
        if (seconds := self._policy.aggregate_seconds) < AGGREGATE_SECONDS_MIN:
            text = f"{seconds:g} is too short for two samples of pods; {AGGREGATE_SECONDS_MIN:g} is used"
            problems = (*problems, f"spec.metricCollectPolicy.aggregateDurationSeconds: {text}")
            self._policy = msgspec.structs.replace(self._policy, aggregate_seconds=AGGREGATE_SECONDS_MIN)
        self._history.keep(node_seconds=self._policy.longest_seconds, pod_seconds=self._policy.aggregate_seconds)
        self._tell(*problems)

    def forget(self, obj: OwnNodeMetric) -> None:  # noqa: ARG002 - there is one
        """Wait for another NodeMetric."""
        self._object = None

    def observe_pods(self, pods: Sequence[PodOnNode]) -> None:
        """Report these pods from now on."""
        self._pods = pods

    def observe_features(self, features: Sequence[dict[str, Any]]) -> None:
        """Report these features of the kernel from now on."""
        self._features = features

    def observe_suppression(self, suppression: Suppression) -> None:
        """Report this state of the class BestEffort from now on."""
        self._suppression = suppression

    async def run(self) -> NoReturn:
        """Report again and again until cancelled."""
        while True:
            delay = await self.report()
            await asyncio.sleep(delay)

    async def report(self) -> float:
        """Report once, if that is possible; return the seconds until the next attempt."""
        if self._object is None:
            self._tell(
                f"does not exist yet, so that use of node {self._node} is not reported; the controller creates it"
            )
            return RETRY_SECONDS
        body = make_report(
            self._history,
            [_reported(pod) for pod in self._pods],
            self._policy,
            now=self._clock.now(),
            update_time=rfc3339(self._clock.wall()),
            suppression=self._suppression,
        )
        if body is None:
            return RETRY_SECONDS
        try:
            await self._client.merge_patch(
                NODE_METRICS,
                ("", self._node),
                {"status": body | ({"features": self._features} if self._features else {})},
                model=PartialObjectMetadata,
                subresource="status",
                uid=self._object.metadata.uid,
            )
        except ApiError as error:
            self._tell(f"is not written: {error}")
            return RETRY_SECONDS + self._random.uniform(0.0, JITTER_SECONDS)
        self._logged_problems = ()
        self._metrics.reported.set(self._clock.wall().timestamp())
        return max(1.0, self._policy.report_seconds + self._random.uniform(-JITTER_SECONDS, JITTER_SECONDS))

    def _tell(self, *problems: str) -> None:
        """Log problems that were not the last ones to be logged."""
        for text in problems:
            if text not in self._logged_problems:
                _log.warning("nodemetric %s: %s", self._node, text)
        if problems:
            self._logged_problems = problems


def _reported(pod: PodOnNode) -> ReportedPod:
    metadata = pod.pod.metadata
    return ReportedPod(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        priority=_PRIORITY_NAMES.get(pod.priority, "") if pod.priority is not PriorityClass.NONE else "",
        qos=pod.qos.name if pod.qos is not QosClass.NONE else "",
    )
