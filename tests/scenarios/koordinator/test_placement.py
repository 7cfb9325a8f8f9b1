"""The same pods before koord-scheduler and before kube-scheduler with translated pods, on the same machines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from tests.scenarios.features import Feature
from tests.scenarios.koordinator.placement import engine, koordinator, stock
from tests.scenarios.koordinator.placement.comparison import compare
from tests.scenarios.koordinator.placement.differences import undecided
from tests.scenarios.koordinator.placement.outcomes import Outcome, Record, recorded
from tests.scenarios.koordinator.placement.sets import Kind, all_sets
from tests.scenarios.migrations.koordinator import peer
from tests.scenarios.target import Place

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.long,
    pytest.mark.needs(Feature.CONSUMABLE_CAPACITY, Feature.EXTENDED_RESOURCES),
]

SETS = all_sets()


@pytest.fixture(scope="module")
def found() -> dict[int, Record]:
    """What kube-scheduler makes of all sets."""
    if Place.chosen() is not Place.LOCAL:
        pytest.skip("all sets run at once on a cluster of their own, without kubelets")
    with stock.running() as admin:
        return _by_number(asyncio.run(stock.play_all(admin, SETS)))


def test_kube_scheduler_places_what_koord_scheduler_places(
    found: dict[int, Record], remark: Callable[[str], None]
) -> None:
    programs = peer.binaries()
    if programs is None:
        remark(f"compared with records of Koordinator {peer.VERSION}; {peer.FOLDER}=FOLDER runs its scheduler instead")
        theirs = recorded()
    else:
        with koordinator.running(programs) as admin:
            theirs = _by_number(asyncio.run(koordinator.play_all(admin, SETS)))
    differences = [
        each
        for made in SETS
        for each in undecided(made, compare(made, theirs[made.number], found[made.number]).differences)
    ]
    assert differences == []


def test_the_engine_chooses_what_kube_scheduler_chooses(found: dict[int, Record]) -> None:
    """Only so does the comparison with the engine, which needs no cluster, say anything of kube-scheduler."""
    different = {}
    for made in (each for each in SETS if each.kind is not Kind.NODES):  # kube-scheduler's score chooses the machine
        ours = {step: _without_reason(each) for step, each in engine.play(made).outcomes.items()}
        theirs = {step: _without_reason(each) for step, each in found[made.number].outcomes.items()}
        if ours != theirs:
            different[made.number] = (ours, theirs)
    assert different == {}


def _without_reason(outcome: Outcome) -> Outcome:
    return Outcome(on=outcome.on, cpus=outcome.cpus, cards=outcome.cards)


def _by_number(records: Sequence[Record]) -> dict[int, Record]:
    return {each.set: each for each in records}
