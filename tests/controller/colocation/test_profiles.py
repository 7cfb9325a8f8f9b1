"""The loop of profiles on an API server: parameters, conditions, and what a restart or a stranger changes."""

import asyncio
import contextlib

import pytest
import yaml

from controller.colocation.profiles import ProfileInformers, Profiles
from dra.cli.crd_manifests import CRDS_FOLDER
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.engine.profiles.examples import PRIORITIES, profile
from tests.dra.kube.virtual import seeded
from tests.localplane.components import User

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PROFILES = "/apis/config.koordinator.sh/v1alpha1/clustercolocationprofiles"
PARAMETERS = "/apis/reserve.dra/v1alpha1/colocationprofileparameters"
SOON = 2.0


class Place:
    """An API server with both kinds and Koordinator's PriorityClasses, and the loop."""

    def __init__(self, runtime_of, clock):
        self.user = User(ApiServer(clock=clock, random=seeded(1)))
        self.sent = []
        self.transport = LocalTransport(self.user.server)
        runtime = runtime_of(self)
        self.informers = ProfileInformers(runtime.client, clock=clock)
        self.loop = Profiles(runtime, self.informers)

    async def send(self, request):
        if request.method == "PATCH":
            self.sent.append(request.path)
        return await self.transport.send(request)

    def stream(self, request):
        return self.transport.stream(request)

    async def define(self):
        for name in ("clustercolocationprofiles.config.koordinator.sh", "colocationprofileparameters.reserve.dra"):
            body = yaml.safe_load((CRDS_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
            await self.user.request("POST", DEFINITIONS, body=body, content_type="application/json")
        for name, value in PRIORITIES.items():
            await self.user.request(
                "POST",
                "/apis/scheduling.k8s.io/v1/priorityclasses",
                body={"metadata": {"name": name}, "value": value},
                content_type="application/json",
            )

    async def create(self, content):
        body = {**content, "metadata": {"name": content["metadata"]["name"]}}
        await self.user.request("POST", PROFILES, body=body, content_type="application/json")

    async def conditions(self, name):
        await asyncio.sleep(SOON)
        found = await self.user.request("GET", f"{PROFILES}/{name}")
        return {each["type"]: each["reason"] for each in found["status"]["conditions"]}

    async def parameters(self):
        await asyncio.sleep(SOON)
        found = await self.user.request("GET", f"{PARAMETERS}/profiles")
        return [each["name"] for each in found["spec"].get("profiles", ())]


@pytest.fixture
async def place(runtime_of, clock):
    found = Place(runtime_of, clock)
    await found.define()
    return found


@contextlib.asynccontextmanager
async def running(place):
    tasks = [asyncio.create_task(part()) for part in (place.informers.run, place.loop.run)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_profiles_reach_the_parameters_and_their_status(place):
    await place.create(profile("be", qosClass="BE", priorityClassName="koord-batch"))
    async with running(place):
        assert await place.conditions("be") == {"Ready": "Applied", "Conflict": "None", "Unsupported": "None"}
        assert await place.parameters() == ["be"]
        await place.create(profile("ls", qosClass="LS"))
        assert await place.conditions("be") == {"Ready": "Applied", "Conflict": "FieldsSetTwice", "Unsupported": "None"}
        assert await place.parameters() == ["be", "ls"]
        await place.user.request("DELETE", f"{PROFILES}/be")
        assert await place.conditions("ls") == {"Ready": "Applied", "Conflict": "None", "Unsupported": "None"}
        assert await place.parameters() == ["ls"]
        await place.user.request("DELETE", f"{PROFILES}/ls")
        assert await place.parameters() == []


async def test_nothing_is_written_twice(place):
    await place.create(profile("be", qosClass="BE"))
    async with running(place):
        await place.parameters()
        written = len(place.sent)
        await place.parameters()
        assert len(place.sent) == written == 2


async def test_parameters_that_were_deleted_come_back(place):
    await place.create(profile("be", qosClass="BE"))
    async with running(place):
        assert await place.parameters() == ["be"]
        await place.user.request("DELETE", f"{PARAMETERS}/profiles")
        assert await place.parameters() == ["be"]


async def test_without_profiles_the_parameters_are_empty(place):
    async with running(place):
        assert await place.parameters() == []
