"""Rules of colocation, broken one at a time: each must be found, or the simulation proves nothing."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from controller.colocation import batch_resources as loop
from dra.engine.colocation import batch_resources, cache, decide, node_usage
from dra.engine.colocation.held_batch import NO_BATCH, BatchAmounts
from dra.engine.colocation.staleness import report_time
from dra.engine.suppression import decide as suppression
from tests.simulation.colocation import suppression as agents

SetAttribute: TypeAlias = Callable[[Any, str, Any], None]
"""``setattr``, or a monkeypatch's that is undone after the test."""

Mutation: TypeAlias = Callable[[SetAttribute], None]


def offer_less_than_is_held(put: SetAttribute) -> None:
    """Offer what the formula says, whatever batch pods hold."""
    put(batch_resources, "held_batch", lambda *_, **__: NO_BATCH)


def follow_pods_that_nobody_admitted(put: SetAttribute) -> None:
    """Count what a pod requests that names its node itself, before a kubelet has looked at it."""

    def held_batch(pods: Any, **_: Any) -> BatchAmounts:
        listed = list(pods)
        return BatchAmounts(cpu=sum(pod.batch_cpu for pod in listed), memory=sum(pod.batch_memory for pod in listed))

    put(batch_resources, "held_batch", held_batch)


def take_what_is_absent_for_nothing(put: SetAttribute) -> None:
    """Count an amount that is absent, negative or no quantity as 0."""
    known = node_usage._amount

    def amount(resources: Any, name: str) -> int:
        return known(resources, name) or 0

    put(node_usage, "_amount", amount)


def believe_old_reports(put: SetAttribute) -> None:
    """Compute by a report however old it is."""
    put(cache, "report_age", lambda *_, **__: 0.0)


def believe_clocks_of_nodes(put: SetAttribute) -> None:
    """Take the age of a report from its own time alone."""

    def report_age(update_time: str, *, wall: float, **_: Any) -> float:
        made = report_time(update_time)
        return float("inf") if made is None else wall - made

    put(cache, "report_age", report_age)


def write_without_a_cause(put: SetAttribute) -> None:
    """Write the batch resources of a node whenever somebody looks."""
    put(decide, "_due", lambda *_, **__: 0.0)


def write_allocatable_alone(put: SetAttribute) -> None:
    """Leave the capacity as it is, which a kubelet makes allocatable of."""
    known = decide.status_patch
    put(loop, "status_patch", lambda write: {"allocatable": known(write)["allocatable"]})


def stay_suppressed_without_samples(put: SetAttribute) -> None:
    """Keep the last quota for good once samples have stopped."""
    put(suppression, "FLOOR_SECONDS", float("inf"))


def never_give_back(put: SetAttribute) -> None:
    """Let the quota of the class shrink, and not grow."""
    known = suppression.next_quota

    def next_quota(budget: int, *, current: int | None, **options: Any) -> int:
        wanted = known(budget, current=current, **options)
        return wanted if current is None else min(wanted, current)

    put(suppression, "next_quota", next_quota)


def leave_limits_when_off(put: SetAttribute) -> None:
    """Leave quota and CPUs of the class as they are once nothing is to be held back."""
    known = suppression.decide_suppression

    def decide_suppression(view: Any) -> Any:
        found = known(view)
        return found if found.policy else suppression.Suppression(quota=view.quota, cpus=view.cpus)

    put(agents, "decide_suppression", decide_suppression)


MUTATIONS: Final[tuple[Mutation, ...]] = (
    offer_less_than_is_held,
    follow_pods_that_nobody_admitted,
    take_what_is_absent_for_nothing,
    believe_old_reports,
    believe_clocks_of_nodes,
    write_without_a_cause,
    write_allocatable_alone,
    stay_suppressed_without_samples,
    never_give_back,
    leave_limits_when_off,
)

BY_NAME: Final[Mapping[str, Mutation]] = MappingProxyType({mutation.__name__: mutation for mutation in MUTATIONS})
"""Name → broken rule."""
