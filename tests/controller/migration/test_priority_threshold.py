"""The value of the PriorityClass that priorityThreshold names."""

import asyncio

import pytest

from controller.migration.priority_threshold import KEEP_SECONDS, PriorityThresholdReader
from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.kube.errors import ApiError
from tests.controller.migration.site import Site, refusal

PATH = "/apis/scheduling.k8s.io/v1/priorityclasses"
NAMED = MigrationControllerArgs.model_validate({"priorityThreshold": {"name": "high"}})


@pytest.fixture
async def site():
    async with Site() as made:
        yield made


def gets(site):
    return site.lines("priorityclasses/high")


async def test_the_class_is_read_once_for_a_while(site):
    await site.ask("POST", PATH, {"metadata": {"name": "high"}, "value": 1000})
    reader = PriorityThresholdReader(site.client, clock=site.clock)
    assert [(await reader.resolve(NAMED)).priority_threshold.value for _ in range(2)] == [1000, 1000]
    assert len(gets(site)) == 1
    await asyncio.sleep(KEEP_SECONDS)
    await reader.resolve(NAMED)
    assert len(gets(site)) == 2


async def test_a_class_that_does_not_exist_has_no_value(site):
    reader = PriorityThresholdReader(site.client, clock=site.clock)
    assert (await reader.resolve(NAMED)).priority_threshold.value is None


async def test_without_a_name_nothing_is_read(site):
    args = MigrationControllerArgs.model_validate({"priorityThreshold": 5})
    assert await PriorityThresholdReader(site.client, clock=site.clock).resolve(args) is args
    assert not gets(site)


async def test_a_missing_permission_is_an_error(site):
    site.answers["GET /apis/scheduling.k8s.io/v1/priorityclasses/high"] = refusal(403, "Forbidden", "no")
    with pytest.raises(ApiError):
        await PriorityThresholdReader(site.client, clock=site.clock).resolve(NAMED)
