"""Claims that keep devices though nobody can use them: found, told, and held still."""

import asyncio
import logging

import pytest

from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from dra.kube.transport import Response
from kubeletplugin import orphaned_claims
from kubeletplugin.contract import ClaimIdentity, PreparedClaim, PreparedDevice, PrepareError
from kubeletplugin.orphaned_claims import OrphanedClaimDetector
from localplane.transport import LocalTransport
from tests.kubeletplugin.driver import NAME
from tests.kubeletplugin.fakes import FakeNode
from tests.kubeletplugin.node import NODE, Node
from tests.kubeletplugin.test_claim_preparer import one


@pytest.fixture
async def node(short_path):
    found = Node(short_path)
    await found.create()
    return found


class Away:
    """An API server that fails when told."""

    def __init__(self, server):
        self.inner = LocalTransport(server)
        self.down = False

    async def send(self, request):
        return Response(status=500, body=b"{}", headers={}) if self.down else await self.inner.send(request)

    async def close(self):
        pass


@pytest.fixture
def transport(node):
    return Away(node.server)


def preparation(claim, *devices):
    meta = claim["metadata"]
    return PreparedClaim(
        claim=ClaimIdentity(key=(meta["namespace"], meta["name"]), uid=meta["uid"]),
        driver=NAME,
        devices=tuple(PreparedDevice(requests=("r",), pool=NODE, device=each) for each in devices),
    )


def watching(transport, *held):
    return OrphanedClaimDetector(Client(transport, RateLimiter(1000, 1000)), lambda: held)


async def test_a_claim_that_is_gone_is_told_at_the_second_look_and_once(node, transport, caplog):
    held = preparation(await node.claim("a", "gpu-0"), "gpu-0")
    found = watching(transport, held)
    await found.check()
    assert found.warnings == {}
    await node.user.request("DELETE", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/a")
    with caplog.at_level(logging.WARNING):
        await found.check()
        assert found.warnings == {}, "it may be on its way"
        await found.check()
        await found.check()
    (text,) = found.warnings.values()
    assert [record.getMessage() for record in caplog.records] == [text]
    assert text == (
        f"{held.claim}: was deleted, but the kubelet has not unprepared it: it still holds gpu-0 of driver {NAME}. "
        f"If no pod of the claim is on this node: dra-reserve kubelet-plugin release --claim-uid {held.claim.uid}"
    )


@pytest.mark.parametrize(
    ("made", "had", "why"),
    [
        pytest.param(["gpu-0"], ["gpu-0"], "", id="in-use"),
        pytest.param(["gpu-0", "gpu-1"], ["gpu-1"], "", id="in-part"),
        pytest.param(["gpu-1"], ["gpu-0"], "now has other devices", id="elsewhere"),
        pytest.param(None, ["gpu-0"], "is no longer allocated", id="deallocated"),
    ],
)
async def test_what_counts_as_unused(node, transport, made, had, why):
    claim = await node.claim("a", *(made or ()), allocated=made is not None)
    found = watching(transport, preparation(claim, *had))
    await found.check()
    await found.check()
    assert bool(found.warnings) == bool(why)
    assert all(f": {why}, but" in text for text in found.warnings.values())


async def test_another_claim_of_that_name_is_not_it(node, transport):
    claim = await node.claim("a", "gpu-0")
    claim["metadata"]["uid"] = "an-older-one"
    found = watching(transport, preparation(claim, "gpu-0"))
    await found.check()
    await found.check()
    assert ": was deleted, but" in found.warnings["an-older-one"]


async def test_in_doubt_nothing_changes(node, transport):
    claim = await node.claim("a", "gpu-0")
    await node.claim("b", "gpu-1")
    claim["metadata"]["uid"] = "older"
    found = watching(transport, preparation(claim, "gpu-0"))
    transport.down = True
    await found.check()
    await found.check()
    assert found.warnings == {}
    transport.down = False
    await found.check()
    await found.check()
    transport.down = True
    await found.check()
    assert found.warnings.keys() == {"older"}


async def test_what_is_given_back_is_an_orphan_no_more(node, transport):
    claim = await node.claim("a", allocated=False)
    held = [preparation(claim, "gpu-0")]
    found = OrphanedClaimDetector(Client(transport, RateLimiter(1000, 1000)), lambda: held)
    await found.check()
    await found.check()
    assert found.warnings
    held.clear()
    await found.check()
    assert found.warnings == {}


async def test_who_is_refused_a_device_of_an_orphan_is_told_the_way_out(short_path):
    node = FakeNode(short_path)
    plugin = node.instance(orphan_warning=lambda uid: f"of {uid}: release it")
    a, b = node.claims.allocate("a", "gpu-0"), node.claims.allocate("b", "gpu-0")
    await plugin.prepare([a])
    refused = await one(plugin.prepare, b)
    assert isinstance(refused, PrepareError)
    assert str(refused).endswith(f"refused to {b}; of {a.uid}: release it")


async def test_a_running_plugin_looks_and_has_a_metric(node, monkeypatch):
    monkeypatch.setattr(orphaned_claims, "FIRST_CHECK_DELAY", 0.0)
    monkeypatch.setattr(orphaned_claims, "RECHECK_DELAY", 0.0)
    application = node.application()
    (served,) = application.runners
    claim = await node.claim("a", allocated=False)
    monkeypatch.setattr(type(served.preparer), "prepared_claims", (preparation(claim, "gpu-0"),))
    looking = asyncio.create_task(served._orphans.run())
    async with asyncio.timeout(60):
        while not served._orphans.warnings:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    looking.cancel()
    assert f'dra_reserve_plugin_orphans{{driver="{NAME}"}} 1.0' in application.render().decode()
