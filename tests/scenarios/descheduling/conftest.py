"""The cluster of the scenarios of Reservations, with a descheduler for each test that has a profile."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

import pytest

from tests.cluster.processes import Process
from tests.scenarios.api import Api, ApiError, Json
from tests.scenarios.reservations.conftest import (
    NODES,
    certificates,
    cluster,
    descheduler,
    emptied,
    extender,
    plane,
    port,
    pytest_runtest_makereport,
    real,
    reserving,
    target,
)
from tests.scenarios.resources import DISRUPTION_BUDGETS, NODE_METRICS, POD_MIGRATION_JOBS
from tests.scenarios.resources import NODES as NODE_RESOURCE
from tests.scenarios.target import Target

__all__ = [
    "certificates",
    "cluster",
    "emptied",
    "extender",
    "plane",
    "port",
    "pytest_runtest_makereport",
    "real",
    "reserving",
    "target",
]

MIGRATION: Final[Json] = {
    "objectLimiters": {"workload": {"duration": "0s"}},
    "evictQPS": 100,
    "evictBurst": 100,
    "maxMigratingPerNode": None,
    "maxMigratingPerWorkload": "50%",
    "maxUnavailablePerWorkload": "50%",
    "skipCheckExpectedReplicas": True,
}


class RunProfile(Protocol):
    """Runs a descheduler with one profile."""

    def __call__(
        self, point: str, plugin: str, args: Json | None = None, **more: Any
    ) -> AbstractContextManager[Process]: ...


@pytest.fixture
def profile(request: pytest.FixtureRequest, target: Target, reserving: Process) -> RunProfile:
    """Run a descheduler with one plugin; ``more``: further fields of its configuration."""
    assert reserving.alive

    @contextlib.contextmanager
    def run(point: str, plugin: str, args: Json | None = None, **more: Any) -> Iterator[Process]:
        migration = MIGRATION | more.pop("migration", {})
        configs = [] if args is None else [{"name": plugin, "args": args}]
        given = {"name": "p", "plugins": {point: {"enabled": [{"name": plugin}]}}, "pluginConfig": configs}
        configuration = {"deschedulingInterval": "5s", "profiles": [given], **more}
        with descheduler(request, target, migration, **configuration) as process:
            yield process

    return run


@pytest.fixture
async def moving(emptied: Api) -> AsyncIterator[Api]:
    """The API, without jobs, budgets, reports and traces on nodes at the end."""
    yield emptied
    with contextlib.suppress(ApiError):  # no descheduler was installed
        for job in await emptied.all(POD_MIGRATION_JOBS):
            await emptied.delete(POD_MIGRATION_JOBS, job["metadata"]["name"])
    await emptied.delete_collection(DISRUPTION_BUDGETS, namespace="default")
    for node in NODES:
        clean = {"metadata": {"annotations": {"node.koordinator.sh/reservation": None}, "labels": {"pool": None}}}
        await emptied.patch(
            NODE_RESOURCE, node, {**clean, "spec": {"taints": None, "unschedulable": None}}, kind="merge-patch"
        )
        with contextlib.suppress(ApiError):
            await emptied.delete(NODE_METRICS, node)
