"""The Events about a node: its strategy, its clock, reports that stop, pods that no report has, and other writers."""

from collections.abc import Iterator
from typing import Final

from dra.api.colocation.node_strategy import NodeStrategy
from dra.engine.colocation.batch_resources import ZeroReason
from dra.engine.colocation.reasons import ColocationEvent, ColocationReason, SubjectKind
from dra.engine.instants import NEVER, Instant
from dra.model.meta import Struct, Uid

INTERVALS: Final = 3
"""Reports of a node that may lack a pod before an Event says so."""


class NodeFacts(Struct, frozen=True):
    """The facts on which the Events of a node depend."""

    name: str
    uid: Uid
    strategy: NodeStrategy
    zero_reason: ZeroReason | None
    from_future: bool = False
    """Whether the report is from more than a minute ahead."""

    is_undone: bool = False
    """Whether somebody else has set other batch resources after each of the last writes."""

    unreported_since: tuple[Instant, ...] = ()
    """Since when the report lacks each pod with a high priority, in order."""


_DEGRADED: Final = {
    ZeroReason.STALE: "its NodeMetric is older than degradeTimeMinutes; see the log of the node's agent",
    ZeroReason.INCOMPLETE: "its NodeMetric does not say what the system uses; see the log of the node's agent",
}


def node_events(facts: NodeFacts, *, now: Instant) -> tuple[tuple[ColocationEvent, ...], Instant]:
    """Return the states of a node to tell, and when another one may begin."""
    limit = INTERVALS * facts.strategy.strategy.metric_report_interval_seconds
    overdue_at = min((since + limit for since in facts.unreported_since), default=NEVER)
    return tuple(_events(facts, overdue=overdue_at <= now)), overdue_at


def _events(facts: NodeFacts, *, overdue: bool) -> Iterator[ColocationEvent]:
    node = f"node {facts.name}"
    for problem in facts.strategy.problems:
        yield _event(facts, ColocationReason.NODE_STRATEGY_INVALID, f"{node}: {problem}")
    if (cause := _DEGRADED.get(facts.zero_reason) if facts.zero_reason is not None else None) is not None:
        text = f"{node}: offers batch pods no more than what they hold: {cause}"
        yield _event(facts, ColocationReason.BATCH_DEGRADED, text)
    if facts.is_undone:
        text = (
            f"{node}: another client sets kubernetes.io/batch-cpu and batch-memory after each write of the controller; "
            "let one of both compute them: stop the other, for example koord-manager, or set colocation: false"
        )
        yield _event(facts, ColocationReason.BATCH_UNDONE, text)
    if facts.from_future and facts.strategy.strategy.enable:
        text = (
            f"{node}: its NodeMetric is from the future, and its age counts from when it was last seen to change; "
            "correct the clock of the node"
        )
        yield _event(facts, ColocationReason.REPORT_FROM_FUTURE, text)
    if overdue:
        text = (
            f"{node}: the last {INTERVALS} reports lack pods that run there; these count with their requests. "
            "See the log of the node's agent"
        )
        yield _event(facts, ColocationReason.PODS_WITHOUT_REPORT, text)


def _event(facts: NodeFacts, reason: ColocationReason, text: str) -> ColocationEvent:
    return ColocationEvent(reason=reason, kind=SubjectKind.NODE, key=("", facts.name), uid=facts.uid, text=text)
