"""Rules of descheduling, broken one at a time: each must be found, or the simulation proves nothing."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from dra.engine.descheduling import cool_down, eviction_counts, migration_filter, round_budgets, snapshot

SetAttribute: TypeAlias = Callable[[Any, str, Any], None]
"""``setattr``, or a monkeypatch's that is undone after the test."""

Mutation: TypeAlias = Callable[[SetAttribute], None]


def forget_jobs_in_flight(put: SetAttribute) -> None:
    """Count against the limits only what the round itself has decided."""
    known = eviction_counts.EvictionCounts.__init__

    def begin(self: Any, limits: Any, seen: Any) -> None:
        known(self, limits, seen)
        self._nodes.clear()
        self._namespaces.clear()
        self._total = 0

    put(eviction_counts.EvictionCounts, "__init__", begin)


def ask_no_budget(put: SetAttribute) -> None:
    """Leave budgets to the API server."""
    put(round_budgets.RoundBudgets, "refusal", lambda *_: "")


def never_cool_down(put: SetAttribute) -> None:
    """Let replacements move at once."""
    put(cool_down.CoolDown, "refusal", lambda *_, **__: "")


def leave_moved_pods_where_they_are(put: SetAttribute) -> None:
    """Count an accepted pod on no other node."""
    known = snapshot.Snapshot.move

    def move(self: Any, pod: Any, node: str) -> None:
        del node
        known(self, pod, "")

    put(snapshot.Snapshot, "move", move)


def move_pods_of_jobs_again(put: SetAttribute) -> None:
    """Take the pods of unfinished jobs for candidates."""
    put(snapshot, "migrations_in_flight", lambda *_, **__: ())


def ignore_limits_of_workloads(put: SetAttribute) -> None:
    """Ask no limit of arbitration."""
    put(migration_filter.MigrationControllerFilter, "filter", lambda *_: "")


MUTATIONS: Final[tuple[Mutation, ...]] = (
    forget_jobs_in_flight,
    ask_no_budget,
    never_cool_down,
    leave_moved_pods_where_they_are,
    move_pods_of_jobs_again,
    ignore_limits_of_workloads,
)

BY_NAME: Final[Mapping[str, Mutation]] = MappingProxyType({mutation.__name__: mutation for mutation in MUTATIONS})
"""Name → broken rule."""
