"""The Prometheus metrics of rounds: how many, how long, which candidates, and what failed."""

from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from dra.engine.descheduling.round import RoundResult

_BUCKETS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)

ACCEPTED: Final = "Accepted"
"""Outcome of a candidate that goes; the other outcomes are the refusals."""

COMPLETED: Final = "completed"
FAILED: Final = "failed"


class RoundMetrics:
    """The metrics of rounds. The names of plugins come from the configuration, so labels are bounded."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.rounds = Counter(
            "dra_reserve_descheduler_rounds",
            "Rounds of descheduling, by outcome; failed: the round did not run to its end",
            ["outcome"],
            registry=registry,
        )
        self.seconds = Histogram(
            "dra_reserve_descheduler_round_seconds",
            "Seconds of computation for one round of descheduling",
            buckets=_BUCKETS,
            registry=registry,
        )
        self.candidates = Counter(
            "dra_reserve_descheduler_candidates",
            "Pods that a plugin wants to move, by plugin and outcome: Accepted, or why the pod stays",
            ["plugin", "outcome"],
            registry=registry,
        )
        self.executions = Counter(
            "dra_reserve_descheduler_executions",
            "Accepted candidates by what became of them: a PodMigrationJob, an eviction, or why there is neither",
            ["outcome"],
            registry=registry,
        )
        self.faults = Counter(
            "dra_reserve_descheduler_plugin_faults",
            "Rounds in which a plugin raised, hung or yielded nonsense, and was skipped",
            ["plugin"],
            registry=registry,
        )
        self.notes = Gauge(
            "dra_reserve_descheduler_round_notes",
            "Plugins of the last round that did nothing, and said why in the log",
            registry=registry,
        )
        self.node_metrics_expired = Gauge(
            "dra_reserve_descheduler_node_metrics_expired",
            "Nodes without a NodeMetric in time in the last round; 0 where no profile reads NodeMetrics",
            registry=registry,
        )
        for outcome in (COMPLETED, FAILED):
            self.rounds.labels(outcome)

    def expect(self, plugins: Iterable[str]) -> None:
        """Begin to count the faults of plugins with 0: an alert sees the first one as growth."""
        for plugin in plugins:
            self.faults.labels(plugin)

    def count(self, result: RoundResult, *, seconds: float) -> None:
        """Count what a round has decided, and how long it took."""
        self.seconds.observe(seconds)
        for decision in result.decisions:
            outcome = ACCEPTED if decision.verdict.accepted else str(decision.verdict.refusal)
            self.candidates.labels(decision.plugin, outcome).inc()
        for fault in result.faults:
            self.faults.labels(fault.plugin).inc()
        self.notes.set(len(result.notes))

    def count_executions(self, outcomes: Iterable[str]) -> None:
        """Count what became of accepted candidates."""
        for outcome in outcomes:
            self.executions.labels(outcome).inc()
