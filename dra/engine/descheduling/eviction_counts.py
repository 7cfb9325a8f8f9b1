"""The evictions that count against the limits of a round: those it has decided on, and the jobs in flight.

A limit is per round, and a migration takes longer than a round. If unfinished jobs did not count, a limit of 5 with an
interval of 10 s would allow 30 migrations a minute, and each round would add the same excess again.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from dra.api.migration.model import ENDED_PHASES
from dra.engine.descheduling.plugin import Refusal, Verdict
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Limits:
    """The maximum evictions of a round; None: no limit, 0: none at all."""

    per_node: int | None = None
    per_namespace: int | None = None
    total: int | None = None


class EvictionCounts:
    """The evictions by node and namespace, and all together."""

    def __init__(self, limits: Limits, snapshot: Snapshot) -> None:
        """Count the jobs in flight; a job whose pod is gone counts on no node, which has done its part."""
        self._limits = limits
        self._nodes: Counter[str] = Counter()
        self._namespaces: Counter[str] = Counter()
        moving = snapshot.moves_since(0)
        self._nodes.update(pod.spec.node_name for pod in moving)
        unfinished = (job.spec.pod_ref.key for job in snapshot.objects.jobs if job.status.phase not in ENDED_PHASES)
        in_flight = {*unfinished, *(pod.metadata.key for pod in moving)}
        self._namespaces.update(namespace for namespace, _ in in_flight)
        self._total = len(in_flight)

    def refusals(self, pod: DeschedulingPod) -> Iterator[Verdict]:
        """Yield the limits that do not allow one more eviction; the total comes first, since it concerns all pods."""
        limits, node, namespace = self._limits, pod.spec.node_name, pod.metadata.namespace
        if limits.total is not None and self._total >= limits.total:
            yield _over(Refusal.TOTAL_LIMIT, "cluster", self._total, limits.total, "maxNoOfPodsToEvictTotal")
        if limits.per_node is not None and node and self._nodes[node] >= limits.per_node:
            count = self._nodes[node]
            yield _over(Refusal.NODE_LIMIT, f"node {node}", count, limits.per_node, "maxNoOfPodsToEvictPerNode")
        if limits.per_namespace is not None and self._namespaces[namespace] >= limits.per_namespace:
            subject, count = f"namespace {namespace}", self._namespaces[namespace]
            field = "maxNoOfPodsToEvictPerNamespace"
            yield _over(Refusal.NAMESPACE_LIMIT, subject, count, limits.per_namespace, field)

    def add(self, pod: DeschedulingPod) -> None:
        """Count one more eviction."""
        self._nodes[pod.spec.node_name] += 1
        self._namespaces[pod.metadata.namespace] += 1
        self._total += 1


def _over(refusal: Refusal, subject: str, count: int, limit: int, field: str) -> Verdict:
    message = f"{subject}: {count} evicted in this round or migrating, the limit is {limit} ({field})"
    return Verdict(accepted=False, refusal=refusal, message=message)
