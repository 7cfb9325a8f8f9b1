"""Rules of the engine, broken one at a time: each of these must be found, or the machine proves nothing."""

from collections.abc import Callable
from typing import Final, TypeAlias

import pytest

from dra.engine.claims import bind_latency, claim_state, consumer_entries, deallocation, rules, view, workload_entry
from dra.engine.claims.view import WorkloadPhase
from dra.engine.instants import BIND_HORIZON
from dra.model import workload_reservations

Mutation: TypeAlias = Callable[[pytest.MonkeyPatch], None]


def skip_the_bind_horizon(patch: pytest.MonkeyPatch) -> None:
    """Deallocate without waiting for the scheduling cycles that may still bind a pod."""
    patch.setattr(view.ClaimView, "bind_horizon", lambda *_: 0.0)
    patch.setattr(deallocation, "SLOW_BIND_HORIZON", 0.0)


def take_every_scheduler_for_prompt(patch: pytest.MonkeyPatch) -> None:
    """Wait for a minute and no more, however late bindings come."""
    patch.setattr(bind_latency.BindLatency, "bind_horizon", lambda *_, **__: BIND_HORIZON)


def drop_the_guard(patch: pytest.MonkeyPatch) -> None:
    """Prune running pods without a guard entry."""
    patch.setattr(rules, "RULES", tuple(rule for rule in rules.RULES if rule is not consumer_entries.guard_entry_rule))


def forget_the_entered_marker(patch: pytest.MonkeyPatch) -> None:
    """Put back the workload entry that its owner has removed."""
    patch.setattr(view.ClaimView, "entered_before", property(lambda _: False))
    patch.setattr(view.ClaimView, "was_entered", lambda _, reference: reference is None)


def compare_names_instead_of_uids(patch: pytest.MonkeyPatch) -> None:
    """Take the workload of that name for the one that was meant."""
    known = workload_entry.workload_fate

    def fate(claim, reference):
        phase = claim.workload.phase
        if reference.uid and phase in {WorkloadPhase.PRESENT, WorkloadPhase.FINISHED}:
            return (
                workload_entry.WorkloadFate.ALIVE
                if phase is WorkloadPhase.PRESENT
                else workload_entry.WorkloadFate.FINISHED
            )
        return known(claim, reference)

    patch.setattr(workload_entry, "workload_fate", fate)


def leave_the_finalizer(patch: pytest.MonkeyPatch) -> None:
    """Forget the finalizer where the second write of a deallocation has failed."""
    patch.setattr(claim_state, "_leftover_at", lambda *_, **__: None)


def take_suspended_workloads_for_finished(patch: pytest.MonkeyPatch) -> None:
    """Take the entry of a suspended workload off for good, though the workload may be resumed."""
    decided = workload_entry._release_or_keep_suspended

    def finished(*given):
        return decided(*given).replace(suspended=False)

    patch.setattr(workload_entry, "_release_or_keep_suspended", finished)


def reserve_the_claims_of_single_pods(patch: pytest.MonkeyPatch) -> None:
    """Reserve a claim that was made for one pod for a whole workload, which then waits for itself."""
    patch.setattr(workload_reservations, "_single_user", lambda *_: "")


MUTATIONS: Final[tuple[Mutation, ...]] = (
    skip_the_bind_horizon,
    drop_the_guard,
    compare_names_instead_of_uids,
    leave_the_finalizer,
    take_suspended_workloads_for_finished,
    reserve_the_claims_of_single_pods,
)
