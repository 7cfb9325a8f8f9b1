"""The same manifests before Koordinator's descheduler and ours: the same objects, but for the decided differences."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.scenarios.migrations.koordinator import ours, peer, recording
from tests.scenarios.migrations.koordinator.cases import CASES, name_of
from tests.scenarios.migrations.koordinator.comparison import differences as compare
from tests.scenarios.migrations.koordinator.comparison import outcome
from tests.scenarios.migrations.koordinator.differences import OTHER_DETAILS, OTHER_OUTCOMES
from tests.scenarios.target import Place

Json = dict[str, Any]
Records = Mapping[str, "Json | BaseException"]

NAMES = [name_of(case) for case in CASES]

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def koordinator() -> Records:
    """What Koordinator leaves: played now if its programs are here, else as recorded."""
    programs = peer.binaries()
    if programs is None:
        return {name: recording.recorded(name) for name in NAMES}
    with peer.running(programs) as admin:
        return asyncio.run(recording.play_all(admin))


@pytest.fixture(scope="module")
def dra_reserve() -> Records:
    """What our descheduler leaves."""
    if Place.chosen() is not Place.LOCAL:
        pytest.skip("both deschedulers get a cluster of their own, in which all cases run at once")
    with ours.running() as admin:
        return asyncio.run(recording.play_all(admin))


@pytest.mark.parametrize("case", NAMES)
def test_the_objects_are_those_that_koordinator_leaves(
    case: str, koordinator: Records, dra_reserve: Records, remark: Callable[[str], None]
) -> None:
    if peer.binaries() is None:
        remark(f"compared with records of Koordinator {peer.VERSION}; {peer.FOLDER}=FOLDER runs its programs instead")
    theirs, found = _record(koordinator, case), _record(dra_reserve, case)
    before, after = outcome(theirs), outcome(found)
    decided = OTHER_OUTCOMES.get(case)
    expected = before | (decided.ours if decided else {})
    unexpected = {
        stage: text for stage, text in after.items() if not re.fullmatch(expected.get(stage, "nothing"), text)
    }
    assert unexpected == {}, expected
    if decided is not None:
        assert {stage for stage in before if before[stage] != after[stage]} == set(decided.ours)
        return
    undecided = [line for line in compare(theirs, found) if not any(each.covers(case, line) for each in OTHER_DETAILS)]
    assert undecided == []


def test_each_decided_detail_is_seen(koordinator: Records, dra_reserve: Records) -> None:
    lines = [
        (case, line)
        for case in NAMES
        if case not in OTHER_OUTCOMES
        for line in compare(_record(koordinator, case), _record(dra_reserve, case))
    ]
    unseen = [each.lines for each in OTHER_DETAILS if not any(each.covers(case, line) for case, line in lines)]
    assert unseen == []


def _record(records: Records, case: str) -> Json:
    found = records[case]
    if isinstance(found, BaseException):
        raise found
    return found
