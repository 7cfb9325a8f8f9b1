"""kube-scheduler chooses the same victims with our extender and without, and `kubectl dra simulate` says the same.

What kube-scheduler alone chose is recorded, so that CI compares without a cluster; the cases that are marked long play
both schedulers. Record again: python -m tests.scenarios.reservations.victims
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.scenarios.reservations.victims import playing
from tests.scenarios.reservations.victims.cases import COUNT, Side, VictimCase, all_cases
from tests.scenarios.reservations.victims.outcomes import digest, recorded
from tests.scenarios.reservations.victims.simulating import simulate
from tests.scenarios.target import Place

if TYPE_CHECKING:
    from collections.abc import Callable

LEAST_PREEMPTIONS = 300


def test_each_case_has_a_record() -> None:
    assert {number: each.digest for number, each in recorded().items()} == {
        each.number: digest(each) for each in all_cases()
    }
    preempting = [each for each in all_cases() if recorded()[each.number].outcome.victims]
    assert len(preempting) >= LEAST_PREEMPTIONS
    assert sum(each.has_reservations for each in preempting) >= LEAST_PREEMPTIONS / 2


@pytest.mark.parametrize("side", Side)
def test_simulate_says_what_kube_scheduler_chose(side: Side) -> None:
    records = recorded()
    said = {each.number: simulate(each, side) for each in all_cases()}
    assert [n for n, outcome in said.items() if outcome != records[n].outcome] == []


@pytest.mark.cluster
@pytest.mark.parametrize(
    "count",
    [
        pytest.param(25, id="some", marks=pytest.mark.timeout(300)),
        pytest.param(COUNT, id="all", marks=[pytest.mark.long, pytest.mark.timeout(1800)]),
    ],
)
async def test_the_extender_changes_no_choice(count: int, remark: Callable[[str], None]) -> None:
    if Place.chosen() is not Place.LOCAL:
        pytest.skip("two kube-schedulers: a cluster of its own")
    cases = all_cases()[:count]
    outcomes = await playing.play(cases)
    remark(_summary(cases, {number: each[Side.STOCK].victims for number, each in outcomes.items()}))
    different = {number: each for number, each in outcomes.items() if each[Side.STOCK] != each[Side.OURS]}
    assert different == {}
    records = recorded()
    assert [n for n, each in outcomes.items() if each[Side.STOCK] != records[n].outcome] == []


def _summary(cases: list[VictimCase], victims: dict[int, list[str]]) -> str:
    preempting = [each for each in cases if victims[each.number]]
    held = sum(each.has_reservations for each in preempting)
    return f"victims: {len(cases)} cases, {len(preempting)} preempt pods, {held} of these beside Reservations"
