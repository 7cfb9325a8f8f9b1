"""Reports of allocated devices in the status of claims, against the API server of the local plane."""

import asyncio
import logging
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from dra.engine.devices.ledger import DeviceID
from dra.engine.prepare_refusals.reasons import PrepareRefusalReason
from dra.kube.client import Client
from dra.kube.errors import Forbidden, Status
from dra.kube.rate_limiter import RateLimiter
from kubeletplugin.contract import ClaimIdentity, PreparedClaim, PreparedDevice
from kubeletplugin.device_status import CHECK_INTERVAL, DeviceStatusReporter
from kubeletplugin.refused_claims import RefusedClaim
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import NOON, LoopClock, seeded
from tests.localplane.components import User, running

VIRTUAL_TIME = True
DEPLOY = Path(__file__).parents[2] / "deploy" / "claim-status"
DRIVER = "cpu.reserve.dra"
SHARE = "11111111-2222-3333-4444-555555555555"
RESULT = {"request": "cpus", "driver": DRIVER, "pool": "n1", "device": "cpus", "shareID": SHARE}
OTHER = {"driver": "net", "pool": "n1", "device": "eth0", "data": {"a": "b"}}


class Driver:
    def __init__(self):
        self.cpus = {}

    def device_data(self, preparation):
        cpus = self.cpus.get(preparation.claim.key[1])
        return {0: {"cpuset": cpus}} if cpus else {}


class Place:
    def __init__(self):
        clock = LoopClock()
        self.user = User(ApiServer(clock=clock, random=seeded(1)))
        client = Client(LocalTransport(self.user.server), RateLimiter(1e6, 1e6, clock=clock), clock=clock)
        self.driver = Driver()
        self.preparer = SimpleNamespace(prepared_claims=(), refused_claims=())
        self.reporter = DeviceStatusReporter(client, self.driver, preparer=self.preparer, manager=DRIVER)

    async def prepared(self, name, *, allocated=True):
        """Prepare a claim that is allocated, beside a device of another driver."""
        spec = {"devices": {"requests": [{"name": "cpus", "exactly": {"deviceClassName": "c"}}]}}
        made = await self.user.create("resourceclaims", {"metadata": {"name": name}, "spec": spec})
        if allocated:
            net = {key: OTHER[key] for key in ("driver", "pool", "device")} | {"request": "cpus"}
            status = {"allocation": {"devices": {"results": [RESULT, net]}}, "devices": [OTHER]}
            await self.user.patch("resourceclaims", name, {"status": status}, subresource="status")
        device = PreparedDevice(requests=("cpus",), pool="n1", device="cpus", share=SHARE)
        identity = ClaimIdentity(key=("default", name), uid=made["metadata"]["uid"])
        self.preparer.prepared_claims += (PreparedClaim(claim=identity, driver=DRIVER, devices=(device,)),)

    async def devices(self, name):
        await asyncio.sleep(CHECK_INTERVAL * 2)
        return (await self.user.get("resourceclaims", name))["status"].get("devices")


@pytest.fixture
async def place():
    place = Place()
    async with running(place.reporter):
        yield place


def reported(cpus):
    return {"driver": DRIVER, "pool": "n1", "device": "cpus", "shareID": SHARE, "data": {"cpuset": cpus}}


async def test_the_choice_is_shown_and_the_statuses_of_other_drivers_stay(place):
    await place.prepared("a")
    assert await place.devices("a") == [OTHER]
    for cpus in ("2-3", "4"):
        place.driver.cpus["a"] = cpus
        assert await place.devices("a") == [OTHER, reported(cpus)]


async def test_each_claim_is_written_once(place):
    await place.prepared("a")
    place.driver.cpus["a"] = "2-3"
    await place.devices("a")
    first = (await place.user.get("resourceclaims", "a"))["metadata"]["resourceVersion"]
    await asyncio.sleep(600.0)
    assert (await place.user.get("resourceclaims", "a"))["metadata"]["resourceVersion"] == first


async def test_a_claim_that_is_not_allocated_any_more_keeps_nobody_else_waiting(place):
    place.driver.cpus |= {"a": "2", "b": "3", "c": "4"}
    await place.prepared("a", allocated=False)
    await place.prepared("b")
    await place.user.delete("resourceclaims", "b")
    await place.prepared("c")
    assert await place.devices("c") == [OTHER, reported("4")]


def refused(claim, *, text="no cores"):
    device = DeviceID(driver=DRIVER, pool="n1", device="cpus", share=SHARE)
    return RefusedClaim(
        claim=claim,
        devices=(device,),
        reason=PrepareRefusalReason.CPUS_IN_USE,
        text=text,
        since=NOON,
        first=0.0,
        last=0.0,
    )


NOT_READY = {
    "driver": DRIVER,
    "pool": "n1",
    "device": "cpus",
    "shareID": SHARE,
    "conditions": [
        {
            "type": "Ready",
            "status": "False",
            "reason": "CPUsInUse",
            "message": "no cores",
            "lastTransitionTime": "2026-11-20T12:00:00Z",
        }
    ],
}


async def test_a_refused_claim_is_not_ready_until_it_is_prepared(place):
    await place.prepared("a")
    (prepared,), place.preparer.prepared_claims = place.preparer.prepared_claims, ()
    place.preparer.refused_claims = (refused(prepared.claim),)
    assert await place.devices("a") == [OTHER, NOT_READY]
    first = (await place.user.get("resourceclaims", "a"))["metadata"]["resourceVersion"]
    await asyncio.sleep(600.0)
    assert (await place.user.get("resourceclaims", "a"))["metadata"]["resourceVersion"] == first

    place.driver.cpus["a"] = "2-3"
    place.preparer.prepared_claims, place.preparer.refused_claims = (prepared,), ()
    assert await place.devices("a") == [OTHER, reported("2-3")]


@pytest.mark.parametrize("prepared", [True, False], ids=["prepared-without-data", "no-longer-asked-for"])
async def test_the_condition_goes_with_the_refusals(place, prepared):
    await place.prepared("a")
    found, place.preparer.prepared_claims = place.preparer.prepared_claims, ()
    place.preparer.refused_claims = (refused(found[0].claim),)
    assert await place.devices("a") == [OTHER, NOT_READY]
    place.preparer.refused_claims, place.preparer.prepared_claims = (), found if prepared else ()
    assert await place.devices("a") == [OTHER]


async def test_without_the_right_it_says_so_once_and_goes_on_when_it_has_it(place, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    may = place.reporter._client.apply

    async def refuse(*_args, **_fields):
        raise Forbidden("claims", Status(code=403))

    monkeypatch.setattr(place.reporter._client, "apply", refuse)
    await place.prepared("a")
    place.driver.cpus["a"] = "2"
    await asyncio.sleep(3600.0)
    assert caplog.text.count("devices are not reported (rights: component claim-status)") == 1
    monkeypatch.setattr(place.reporter._client, "apply", may)
    await asyncio.sleep(400.0)
    assert await place.devices("a") == [OTHER, reported("2")]


def test_the_plugin_is_allowed_the_status_of_its_own_devices():
    role, binding = yaml.safe_load_all((DEPLOY / "claim-status.yaml").read_text())
    rights = {(rule["resources"][0], *rule["verbs"], *rule.get("resourceNames", ())) for rule in role["rules"]}
    assert rights == {
        ("resourceclaims/status", "patch"),
        ("resourceclaims/driver", "associated-node:patch", DRIVER),
    }
    assert binding["subjects"][0]["name"] == "dra-reserve-kubelet-plugin"
