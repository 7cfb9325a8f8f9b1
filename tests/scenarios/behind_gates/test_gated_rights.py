"""Least privilege, as in `tests.scenarios.test_rights`, of kinds that an API server has only with feature gates."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.scenarios.api import Api
from tests.scenarios.features import Feature
from tests.scenarios.namespaces import Namespace
from tests.scenarios.rights import Right
from tests.scenarios.target import Capability, Target
from tests.scenarios.uses_of_rights import BEHIND_GATES, Scenario, fails_without
from tests.scenarios.workplaces import MakePlace, workplaces

pytestmark = pytest.mark.needs(Capability.COMPONENTS, Feature.TAINT_RULES, Feature.POD_GROUPS)


@pytest.fixture
async def workplace_without(target: Target, api: Api, namespace: Namespace) -> AsyncIterator[MakePlace]:
    """Makes the place for a controller that lacks some rights."""
    async with workplaces(target, api, namespace) as make:
        yield make


@pytest.mark.parametrize("scenario", dict.fromkeys(BEHIND_GATES.values()), ids=lambda each: each.__name__)
async def test_with_all_rights_each_scenario_succeeds(workplace_without: MakePlace, scenario: Scenario) -> None:
    await scenario(await workplace_without())


@pytest.mark.parametrize("right", BEHIND_GATES, ids=str)
async def test_without_a_right_its_scenario_fails(workplace_without: MakePlace, right: Right) -> None:
    await fails_without([right], BEHIND_GATES, await workplace_without(right))
