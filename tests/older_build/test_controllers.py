"""Controllers of two builds on one API server, each leading in turn: claims, generated claims and Reservations."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from tests.older_build.exposition import lost_series
from tests.older_build.load import Load
from tests.older_build.parts import CONTROLLER, EXTENDER, Pair, Place, Service, pair

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.older_build.builds import Build
    from tests.scenarios.namespaces import Namespace

pytestmark = [pytest.mark.slow, pytest.mark.long]

CONFIGURATION: Final = {"mode": "replace", "reservations": True, "koordinator": True}
QUIET: Final = 3.0
"""Seconds after a change of the leader in which nothing happens in the cluster."""
TIDYING: Final = 2
"""Writes of a new leader without a cause: entries of pods that run may leave the list of a claim, once."""
SLACK: Final = 8
"""Writes of one kind that a build may need more than the other one for the same round: pods come sooner or later."""


async def test_controllers_of_both_builds_lead_in_turn(
    place: Place, namespace: Namespace, older: Build, newer: Build
) -> None:
    rounds: dict[str, Counter[str]] = {}
    async with (
        pair(CONTROLLER, place, older, newer, configuration=CONFIGURATION) as controllers,
        pair(EXTENDER, place, newer) as extender,
        Service(place.extender_port, extender.leader).running(),
    ):
        await extender.leader.start(leading=True)
        await controllers.start()
        load = Load(namespace, translates=place.translates)
        async with load.going_on():
            await load.is_well(f"{controllers.leader} leads")
            for by_crash in (False, False, True, True):
                await load.end_a_workload()
                way = f"{'a crash' if by_crash else 'an upgrade'} to {controllers.standby}"
                rounds[way] = await one_round(controllers, load, way, by_crash=by_crash)
        texts = {each.build: await each.exposition() for each in (controllers.leader, controllers.standby)}
    assert not (lost := lost_series(texts[older], texts[newer])), f"/metrics of {newer} lacks what {older} has: {lost}"
    assert_no_storm(rounds, older=older, newer=newer)


async def one_round(controllers: Pair, load: Load, way: str, *, by_crash: bool) -> Counter[str]:
    """Change the leader, see that this alone writes nothing, and let it serve; return its writes."""
    began = await controllers.hand_over(by_crash=by_crash)
    await asyncio.sleep(QUIET)
    written = [call for call in controllers.leader.writes(since=began) if call.name not in load.ending]
    unasked = Counter(f"{call.verb} {call.resource} {call.name}" for call in written)
    assert unasked.total() <= TIDYING, f"after {way} nothing has happened, and it writes: {dict(unasked)}"
    await load.is_well(f"after {way}")
    return Counter(f"{call.verb} {call.resource}" for call in controllers.leader.writes(since=began))


def assert_no_storm(rounds: Mapping[str, Counter[str]], *, older: Build, newer: Build) -> None:
    """Assert that no round of the newer build has many more writes of a kind than the same round of the older one."""
    for way, writes in rounds.items():
        if way.endswith(str(newer)):
            before = rounds[way.replace(str(newer), str(older))]
            storm = {kind: (count, before[kind]) for kind, count in writes.items() if count > before[kind] * 2 + SLACK}
            assert not storm, f"{way}: writes, and those of {older} in the same round: {storm}"
