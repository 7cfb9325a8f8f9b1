"""The engine and the admission policies are two forms of one function: here both get the same profiles and pods."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests import seeds
from tests.dra.engine.profiles.strategies import pods, profiles
from tests.scenarios.api import AT_ONCE, Json
from tests.scenarios.features import Feature
from tests.scenarios.profiles import agreement
from tests.scenarios.profiles.conftest import Place
from tests.scenarios.resources import NAMESPACES
from tests.scenarios.target import Capability, Mode

pytestmark = [
    pytest.mark.modes(Mode.ALONGSIDE),
    pytest.mark.needs(Capability.RIGHTS, Feature.GATE_POLICY),
]

SETS: Final = 6
PODS: Final = 60
MANY_SETS: Final = 12
MANY_PODS: Final = 200


def drawn(*, first: int, count: int) -> tuple[list[Json], list[Json]]:
    """Return three profiles and many pods."""
    found: list[tuple[list[Json], Json]] = []

    @seed(first)
    @settings(
        max_examples=count,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
        deadline=None,
    )
    @given(three=st.tuples(*(profiles(name=name) for name in "abc")), pod=pods())
    def collect(three: tuple[Json, ...], pod: Json) -> None:
        found.append(([*three], pod))

    collect()
    return found[len(found) // 2][0], [pod for _, pod in found]


async def compare(place: Place, *, first: int, count: int = PODS) -> Counter[str]:
    """Give profiles and pods to the engine and to the policies; return how many pods had each outcome."""
    given_profiles, given_pods = drawn(first=first, count=count)
    resolved = await place.apply(*given_profiles)
    namespace = await place.api.get(NAMESPACES, place.namespace.name)
    turn = asyncio.Semaphore(AT_ONCE)

    async def both(pod: Json) -> str:
        wanted = agreement.by_the_engine(pod, resolved, namespace_labels=namespace["metadata"]["labels"])
        async with turn:
            found = await agreement.by_the_policies(place.api, pod, namespace=place.namespace.name)
        if found.invalid:  # the API server validates a pod between the policies that change and those that refuse
            assert "LimitRange" not in found.invalid
            assert wanted.refusals or "must be less than or equal" in found.invalid, f"{found.invalid}: {pod}"
            return "invalid"
        assert found == wanted, json.dumps([pod, *given_profiles])
        changed = wanted.refusals == "" and wanted.labels != pod["metadata"]["labels"]
        return "refused" if wanted.refusals else "changed" if changed else "left alone"

    return Counter(await asyncio.gather(*map(both, given_pods)))


async def test_the_policies_and_the_engine_agree(place: Place, remark: Callable[[str], None]) -> None:
    first = seeds.first_seed()
    outcomes: Counter[str] = Counter()
    for number in range(SETS):
        outcomes += await compare(place, first=first + number)
    remark(f"profiles: seed {first}: {dict(outcomes)}")
    assert outcomes["changed"] > SETS * PODS / 10


@pytest.mark.long
async def test_the_policies_and_the_engine_agree_on_thousands_of_pods(
    place: Place, remark: Callable[[str], None]
) -> None:
    first = seeds.first_seed()
    outcomes: Counter[str] = Counter()
    for number in range(MANY_SETS):
        outcomes += await compare(place, first=first + 1_000 + number, count=MANY_PODS)
    remark(f"profiles: seed {first}: {dict(outcomes)}")
    assert outcomes["changed"] > MANY_SETS * MANY_PODS / 10
