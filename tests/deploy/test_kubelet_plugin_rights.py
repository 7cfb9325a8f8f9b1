"""Least rights of the plugin, both ways: with those it is installed with all works, without any one something fails.

What fails is told, with the right that is missing. The server here enforces the rights as RBAC does; with a
real one and a real kubelet the plugin runs with just these rights, too (tests/scenarios/real_node).
"""

import asyncio
import contextlib
import json
import re
from pathlib import Path

import pytest
import yaml

from dra.api.reservations.well_known import MalformedAnnotationError
from dra.kube.errors import raise_for_status
from dra.kube.transport import Response
from localplane.transport import LocalTransport
from tests.kubeletplugin.driver import NAME, SmallDriver, device
from tests.kubeletplugin.kubelet import until
from tests.kubeletplugin.node import temporary, until_async

RIGHTS = Path(__file__).parents[2] / "deploy" / "kubelet-plugin" / "rights.yaml"
PATH = re.compile(r"/(?:api|apis/(?P<group>[^/]+))/v[^/]+(?:/namespaces/[^/]+)?/(?P<kind>[^/]+)(?:/(?P<name>[^/]+))?")
SOON = 60.0
"""Seconds; with all rights each of these takes less than a tenth of one, on a machine that is free."""


def granted():
    """Verb and kind of all rights."""
    (role,) = (obj for obj in yaml.safe_load_all(RIGHTS.read_text()) if obj["kind"] == "ClusterRole")
    return frozenset(
        (verb, f"{kind}.{group}".rstrip("."))
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for kind in rule["resources"]
        for verb in rule["verbs"]
    )


def right_of(request):
    found = PATH.fullmatch(request.path)
    named = {"GET": "get", "PATCH": "patch", "DELETE": "delete", "PUT": "update"}
    collection = {"GET": "watch" if request.query.get("watch") else "list", "POST": "create"}
    verb = (named if found["name"] else collection)[request.method]
    return verb, f"{found['kind']}.{found['group'] or ''}".rstrip(".")


class Enforcing(LocalTransport):
    """As an API server answers an account with these rights and no others."""

    def __init__(self, server, rights):
        super().__init__(server)
        self.rights = rights

    def _refusal(self, request):
        verb, kind = right_of(request)
        if (verb, kind) in self.rights:
            return None
        resource, _, group = kind.partition(".")
        text = f'User "u" cannot {verb} resource "{resource}" in API group "{group}"'
        body = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": f"{kind} is forbidden: {text}"}
        return Response(403, {"content-type": "application/json"}, json.dumps(body).encode())

    async def send(self, request, /):
        return self._refusal(request) or await super().send(request)

    @contextlib.asynccontextmanager
    async def stream(self, request, /):
        if (refusal := self._refusal(request)) is not None:
            raise_for_status(refusal, request.path)
        async with super().stream(request) as blocks:
            yield blocks


class Place:
    """A plugin with some rights, its kubelet, and somebody who sees and may do everything."""

    def __init__(self, node, driver, connection):
        self.node = node
        self.driver = driver
        self.connection = connection
        self.refused = ""

    @property
    def told(self):
        """All that it says of what it cannot do."""
        return "; ".join([*self.connection.application.not_ready_reasons(), self.refused])

    async def annotate(self, text):
        """Write the Node's annotation."""
        annotations = {"node.koordinator.sh/reservation": text}
        await self.node.user.patch("nodes", "n1", {"metadata": {"annotations": annotations}})

    async def slices(self, wanted):
        """Wait until these are published, by their devices, and the plugin has nothing to complain of."""

        async def there():
            found = await self.node.user.list("resourceslices")
            return wanted([each["spec"]["devices"] for each in found]) and not self.told.strip("; ")

        await until_async(there, within=SOON)


async def it_publishes(place):
    await place.slices(lambda found: len(found) == 1)


async def it_tells_of_an_illness(place):
    """Patches."""
    await place.slices(lambda found: len(found) == 1)
    place.driver.devices = (device("gpu-0", attributes={"sick": {"bool": True}}), *place.driver.devices[1:])
    place.driver.tell()
    await place.slices(lambda found: "attributes" in found[0][0])


async def it_comes_back_after_a_wipe(place):
    """Hears of what the kubelet does to slices when it starts."""
    await until_async(lambda: place.node.user.list("resourceslices"), within=SOON)
    for each in await place.node.user.list("resourceslices"):
        await place.node.user.request("DELETE", f"/apis/resource.k8s.io/v1/resourceslices/{each['metadata']['name']}")
    await place.slices(lambda found: len(found) == 1)


async def it_takes_back_what_is_gone(place):
    """Deletes."""
    place.driver.devices = tuple(device(f"gpu-{n}") for n in range(130))
    place.driver.tell()
    await place.slices(lambda found: len(found) == 2)
    place.driver.devices = place.driver.devices[:1]
    place.driver.tell()
    await place.slices(lambda found: len(found) == 1)


async def it_prepares(place):
    claim = await place.node.claim("train", "gpu-0")
    (answer,) = (await place.connection.prepare(claim)).values()
    if isinstance(answer, str):
        place.refused = answer
        raise TimeoutError


async def it_heeds_the_node(place):
    """Lists and watches it."""
    await until(lambda: place.driver.kept == [None])
    await place.annotate("0-1")
    await until(lambda: place.driver.kept[-1] == "0-1", within=SOON)


async def it_complains_of_the_node(place):
    await place.annotate(MALFORMED)
    await until_async(lambda: place.node.user.list("events"), within=SOON)
    (event,) = await place.node.user.list("events")
    assert event["note"] == f"node n1: {MALFORMED} is malformed; the last valid value stays in effect"
    assert (event["reason"], event["type"], event["regarding"]["kind"]) == ("InvalidNodeReservation", "Warning", "Node")


MALFORMED = "9-8"
SLICES = "resourceslices.resource.k8s.io"
USES = {
    ("get", "resourceclaims.resource.k8s.io"): it_prepares,
    ("get", "nodes"): it_publishes,
    ("list", "nodes"): it_heeds_the_node,
    ("watch", "nodes"): it_heeds_the_node,
    ("list", SLICES): it_publishes,
    ("create", SLICES): it_publishes,
    ("watch", SLICES): it_comes_back_after_a_wipe,
    ("patch", SLICES): it_tells_of_an_illness,
    ("delete", SLICES): it_takes_back_what_is_gone,
}

BEST_EFFORT = {("create", "events.events.k8s.io"): it_complains_of_the_node}
"""Nothing depends on these, and nobody is told."""


class AttentiveDriver(SmallDriver):
    """One that has something which a Node may keep."""

    def __init__(self):
        super().__init__()
        self.kept = []

    def apply_node_reservation(self, annotation, *, allocatable):
        assert allocatable == {}
        if annotation == MALFORMED:
            raise MalformedAnnotationError(f"{annotation} is malformed")
        self.kept.append(annotation)


@pytest.fixture
async def place():
    async with temporary() as node:

        @contextlib.asynccontextmanager
        async def made(rights):
            driver = AttentiveDriver()
            transport = Enforcing(node.server, rights)
            async with node.registered(driver, transport=transport) as connection:
                yield Place(node, driver, connection)

        yield made


def test_every_right_that_is_granted_is_known_to_be_needed():
    assert USES.keys() | BEST_EFFORT.keys() == granted()


@pytest.mark.parametrize(
    "scenario", dict.fromkeys([*USES.values(), *BEST_EFFORT.values()]), ids=lambda each: each.__name__
)
async def test_with_all_rights_each_scenario_succeeds(place, scenario):
    async with place(granted()) as whole:
        await scenario(whole)
        await until(lambda: not whole.told.strip("; "))


@pytest.mark.parametrize("right", USES, ids=":".join)
async def test_without_a_right_its_scenario_fails_and_the_right_is_named(place, right):
    verb, kind = right
    resource, _, group = kind.partition(".")
    async with place(granted() - {right}) as lacking:
        trying = asyncio.create_task(USES[right](lacking))
        text = f'cannot {verb} resource "{resource}" in API group "{group}"'
        await until(lambda: text in lacking.told, saying="it is told")
        assert any(subject in lacking.told for subject in (NAME, "claim default/train", "node n1"))
        await asyncio.wait([trying], timeout=0.05)
        assert not trying.done() or isinstance(trying.exception(), TimeoutError)
        trying.cancel()
        await asyncio.wait([trying])


async def test_without_events_an_annotation_that_cannot_be_read_still_changes_nothing(place):
    async with place(granted() - BEST_EFFORT.keys()) as lacking:
        await it_heeds_the_node(lacking)
        await lacking.annotate(MALFORMED)
        await lacking.annotate("2-3")
        await until(lambda: lacking.driver.kept[-1] == "2-3", within=SOON)
        assert lacking.told.strip("; ") == ""
