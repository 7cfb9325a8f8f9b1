"""Least privilege of the descheduler: without any one right something fails, and there is no right that nothing needs.

What each right is for: `uses_of_descheduler_rights`. The descheduler runs as a service account of its own here, with a
copy of the installed roles from which one right is missing. It says so, ends no pod without a place, and goes on when
the right is granted.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Final

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.kubectl import kubectl
from tests.cluster.ports import LOOPBACK, free
from tests.cluster.processes import Process
from tests.scenarios.api import Api, Json
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.faults import Fault, Kind
from tests.scenarios.namespaces import Namespace
from tests.scenarios.reservations.conftest import DESCHEDULER
from tests.scenarios.reservations.proxied import behind_a_proxy
from tests.scenarios.reservations.uses_of_descheduler_rights import (
    EVICTING,
    FINAL,
    OF_KRUISE,
    PODS_END,
    SILENT,
    USES,
    Goal,
    Scenario,
    Workplace,
    definition,
    it_migrates,
)
from tests.scenarios.resources import DISRUPTION_BUDGETS, POD_MIGRATION_JOBS
from tests.scenarios.rights import Probe, Right, granted
from tests.scenarios.target import Capability, Target

pytestmark = [pytest.mark.needs(Capability.RIGHTS)]

SOON: Final = 30.0
"""Seconds: what these scenarios take with all rights, on a machine with other things to do."""

AFTER_A_PAUSE: Final = 90.0
"""Seconds until what was refused is tried again: the pauses grow."""

UNLIMITED: Final[Json] = {
    "maxMigratingPerNode": None,
    "objectLimiters": {"workload": {"duration": "0s"}},
    "evictQPS": 100,
    "evictBurst": 100,
}


def test_every_right_that_is_granted_is_known_to_be_needed() -> None:
    rights = [right for each in USES.values() for right in each]
    assert sorted(rights) == sorted(granted(DESCHEDULER))


@pytest.fixture(scope="module")
def kruise(cluster: Cluster) -> Iterator[None]:
    """Definitions of OpenKruise's kinds."""
    admin = cluster.admin_kubeconfig
    made = [definition(kind) for kind in OF_KRUISE]
    names = [f"crd/{each['metadata']['name']}" for each in made]
    kubectl(
        "apply", "--filename=-", kubeconfig=admin, stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": made})
    )
    kubectl("wait", "--for=condition=Established", *names, kubeconfig=admin)
    yield
    kubectl("delete", *names, kubeconfig=admin)


@pytest.fixture
async def probe(emptied: Api) -> AsyncIterator[Probe]:
    """An account for the descheduler."""
    found = Probe(emptied, DESCHEDULER)
    await found.create()
    yield found
    await found.delete()


@pytest.fixture
async def work(
    emptied: Api, namespace: Namespace, descheduling: Process, target: Target, kruise: None, probe: Probe
) -> AsyncIterator[Workplace]:
    """The place for a descheduler with the rights of the probe."""
    del kruise
    credentials = probe.kubeconfig(target.admin, target.folder.path)
    (port,) = free(1)
    listens = {"address": LOOPBACK, "port": port}
    async with (
        AsyncExitStack() as stack,
        behind_a_proxy(
            descheduling, target, credentials=credentials, migration=UNLIMITED, metrics=listens
        ) as descheduler,
    ):
        descheduler.configure(descheduler.process.command[:3], leaderElection={"enabled": False})
        yield Workplace(api=emptied, namespace=namespace, descheduler=descheduler, metrics_port=port, stack=stack)
    for each in await emptied.all(POD_MIGRATION_JOBS):
        await emptied.delete(POD_MIGRATION_JOBS, each["metadata"]["name"])
    for kind in (DISRUPTION_BUDGETS, *OF_KRUISE):
        await emptied.delete_collection(kind, namespace="default")


@pytest.mark.parametrize(
    "scenario",
    [pytest.param(each, id=each.__name__, marks=[] if each is it_migrates else pytest.mark.long) for each in USES],
)
async def test_a_right_is_needed_and_its_lack_is_told_and_harms_nothing(
    work: Workplace, probe: Probe, scenario: Scenario
) -> None:
    await probe.may_all_but()
    goal = await scenario(work)
    await eventually(goal, within=SOON, saying="with all rights the scenario succeeds")
    refused = [each.call for each in work.descheduler.proxy.exchanges if each.answer == 403]
    assert not refused
    for right in USES[scenario]:
        await fails_without(right, work, probe, scenario)


async def fails_without(right: Right, work: Workplace, probe: Probe, scenario: Scenario) -> None:
    """Play a scenario without a right: it does not succeed before the right is granted, if at all."""
    proxy = work.descheduler.proxy
    proxy.exchanges.clear()
    if right in EVICTING:
        goal = await taken_away_under_way(right, work, probe, scenario)
    else:
        await probe.may_all_but(right)
        # What is open goes on without the right, so it is broken off; the fault itself affects nothing.
        proxy.inject(Fault(kind=Kind.ENDED, verbs=frozenset({"watch"}), times=0))
        goal = await scenario(work)
    await eventually(lambda: work.refused(right), within=SOON, saying=f"{right} is used")

    async def fails() -> bool:
        return not await reached(goal)

    await steadily(fails, lasting=1.5, saying=f"without {right} the scenario fails")
    await eventually(lambda: told(right, work), within=SOON, saying=f"the descheduler says that it lacks {right}")
    assert right in PODS_END or not work.has_ended_pods()
    await probe.may_all_but()
    proxy.inject()
    if right not in FINAL:
        await eventually(goal, within=AFTER_A_PAUSE, saying=f"with {right} the scenario goes on")


async def taken_away_under_way(right: Right, work: Workplace, probe: Probe, scenario: Scenario) -> Goal:
    """Take a right away while the request that takes it is under way: without it, no job would be let begin."""
    proxy = work.descheduler.proxy
    path = r"/pods/[^/]+" + "/eviction" * (right.resource == "pods/eviction") + "$"
    proxy.inject(Fault(kind=Kind.HELD, verbs=frozenset({right.verb}), path=path))
    goal = await scenario(work)
    assert await proxy.met(Kind.HELD, within=SOON)
    await probe.may_all_but(right)
    proxy.inject()
    proxy.let_go()
    return goal


async def reached(goal: Goal) -> bool:
    return bool(await goal())


async def told(right: Right, work: Workplace) -> bool:
    """Tell whether the log names what was refused; for Events, whether a metric counts it."""
    if right in SILENT:
        return not work.descheduler.process.alive or await work.counted_as_refused()
    if right.verb == "migrate":
        return "the descheduler alone lets jobs begin" in work.descheduler.said
    return f'cannot {right.verb} resource "{right.resource}"' in work.descheduler.said
