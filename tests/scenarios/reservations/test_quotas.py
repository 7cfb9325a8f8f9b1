"""What Reservations hold counts against the ResourceQuota of their namespace, once no placeholder is charged."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import pytest

from tests.scenarios.api import Api
from tests.scenarios.eventually import eventually
from tests.scenarios.reservations.test_manual import reaches, reservation
from tests.scenarios.resources import PODS, RESERVATIONS, Resource
from tests.scenarios.target import Capability

pytestmark = [pytest.mark.long, pytest.mark.needs(Capability.RIGHTS)]

QUOTAS: Final = Resource("v1", "ResourceQuota", "resourcequotas")


@pytest.fixture
async def limited(emptied: Api) -> AsyncIterator[Api]:
    quota = {"metadata": {"name": "team"}, "spec": {"hard": {"requests.cpu": "20"}}}
    await emptied.request("POST", QUOTAS.path(namespace="default"), quota)
    await used(emptied, "0")
    yield emptied
    await emptied.request("DELETE", QUOTAS.path(namespace="default", name="team"))


async def used(api: Api, cpu: str) -> None:
    async def charged() -> bool:
        found = await api.get(QUOTAS, "team", namespace="default")
        return bool(found.get("status", {}).get("used", {}).get("requests.cpu") == cpu)

    await eventually(charged, within=60.0, saying=f"{cpu} CPUs are charged")


async def test_reservations_hold_no_more_than_the_quota_of_their_namespace(limited: Api) -> None:
    await limited.create(reservation("first", cpu="12"))
    await reaches(limited, "first", "Available")
    await eventually(
        lambda: limited.all(PODS, namespace="default"), until=lambda pods: not pods, saying="its placeholder is gone"
    )
    await used(limited, "0")
    await limited.create(reservation("second", cpu="12"))

    async def message() -> str:
        conditions = (await limited.get(RESERVATIONS, "second")).get("status", {}).get("conditions", ())
        return " ".join(each.get("message", "") for each in conditions)

    text = "exceeded quota team: Reservations of the namespace hold requests.cpu 12 for pods to come"
    await eventually(message, until=lambda found: text in found, saying="the second one waits for the quota")
    await limited.delete(RESERVATIONS, "first")
    await reaches(limited, "second", "Available", within=60.0)
