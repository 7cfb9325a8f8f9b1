"""Least privilege, both ways: without any one right something fails, and there is no right that nothing needs.

What each right is for: `uses_of_rights`. The controller runs as a service account of its own here, with copies of the
installed roles from which one right is missing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from tests.cluster.kubectl import kubectl
from tests.scenarios.api import Api
from tests.scenarios.features import Feature
from tests.scenarios.namespaces import Namespace
from tests.scenarios.rights import Right, granted
from tests.scenarios.target import Capability, Mode, Target
from tests.scenarios.uses_of_rights import (
    AT_ONCE,
    BEHIND_GATES,
    NEEDED_FOR,
    USES,
    Scenario,
    at_once,
    batches,
    fails_without,
    it_evicts,
)
from tests.scenarios.workload_kinds import crds_of_workloads
from tests.scenarios.workplaces import MakePlace, workplaces

pytestmark = [pytest.mark.modes(Mode.REPLACE), pytest.mark.needs(Capability.RIGHTS)]


def test_every_right_that_is_granted_is_known_to_be_needed() -> None:
    assert USES.keys() | BEHIND_GATES.keys() == granted()


@pytest.fixture(scope="module")
def custom_kinds(target: Target) -> Iterator[None]:
    """A cluster that has all kinds of workloads, its own definitions or ours."""
    ours = []
    for crd in crds_of_workloads():
        name = f"crd/{crd['metadata']['name']}"
        if not kubectl("get", name, "--ignore-not-found", "--output=name", kubeconfig=target.admin):
            kubectl("apply", "--filename=-", kubeconfig=target.admin, stdin=json.dumps(crd))
            ours.append(name)
        kubectl("wait", "--for=condition=Established", name, kubeconfig=target.admin)
    yield
    if ours:
        kubectl("delete", *ours, kubeconfig=target.admin)


@pytest.fixture
async def workplace_without(
    target: Target, api: Api, namespace: Namespace, custom_kinds: None
) -> AsyncIterator[MakePlace]:
    """Makes the place for a controller that lacks some rights."""
    del custom_kinds
    async with workplaces(target, api, namespace) as make:
        yield make


def _alone(scenario: Any) -> Any:
    needed = Feature.DEVICE_TAINTS if scenario is it_evicts else None
    return pytest.param([scenario], id=scenario.__name__, marks=pytest.mark.needs(needed))


def _together(rights: tuple[Right, ...]) -> str:
    scenario = USES[rights[0]]
    return f"{scenario.func.__name__}:{rights[0].verb}" if isinstance(scenario, partial) else str(rights[0])


OF_MANY_KINDS = [each for each in dict.fromkeys(USES.values()) if isinstance(each, partial)]
OTHERS = [each for each in dict.fromkeys(USES.values()) if each not in OF_MANY_KINDS]


@pytest.mark.parametrize(
    "scenarios",
    [
        *map(_alone, OTHERS),
        *(
            pytest.param(batch, id=f"of-many-kinds-{number}")
            for number, batch in enumerate(batches(OF_MANY_KINDS, 2 * AT_ONCE), start=1)
        ),
    ],
)
async def test_with_all_rights_each_scenario_succeeds(
    workplace_without: MakePlace, scenarios: Sequence[Scenario]
) -> None:
    work = await workplace_without()
    await asyncio.gather(*(scenario(work) for scenario in scenarios))


@pytest.mark.parametrize(
    "rights",
    [
        pytest.param(rights, id=_together(rights), marks=pytest.mark.needs(*map(NEEDED_FOR.get, rights)))
        for rights in at_once()
    ],
)
async def test_without_a_right_its_scenario_fails(workplace_without: MakePlace, rights: tuple[Right, ...]) -> None:
    work = await workplace_without(*rights)
    await fails_without(rights, USES, work)
