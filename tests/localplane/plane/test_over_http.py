"""What clients over HTTP see of the faults on their way."""

import aiohttp
import pytest

from dra.kube import credentials
from dra.kube.errors import Unreachable
from dra.kube.http import HttpTransport
from dra.kube.transport import JSON, Request
from localplane.fault_injection import Fault, FaultRule
from localplane.https_server import serve_https
from localplane.objects import encode
from localplane.plane import components, local_plane
from localplane.plane.options import PlaneOptions
from tests.dra.kube.virtual import seeded

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def made(monkeypatch):
    monkeypatch.setattr(components, "component_starters", lambda *_, **__: {})
    return local_plane.LocalPlane(PlaneOptions(), random=seeded(1))


@pytest.fixture
async def transport(made, tmp_path):
    async with serve_https(made.handle, folder=tmp_path) as endpoint:
        transport = HttpTransport(credentials.find(str(endpoint.kubeconfig)))
        yield transport
        await transport.close()


def asked(method, path=MAPS, body=None, **query):
    return Request(method=method, path=path, body=body and encode(body), content_type=JSON, query=query, timeout=5.0)


async def create(transport, name):
    return (await transport.send(asked("POST", body={"metadata": {"name": name}}))).status


async def test_a_lost_connection_is_one_and_the_server_lives_on(made, transport):
    made.faults.set([FaultRule(fault=Fault.LOST, component="dra-reserve", after=True, times=1)])
    with pytest.raises(Unreachable) as lost:
        await create(transport, "a")
    assert lost.value.is_outcome_unknown
    assert await create(transport, "a") == 409
    assert await create(transport, "b") == 201


async def test_a_broken_watch_is_one(made, transport):
    made.faults.set([FaultRule(fault=Fault.BREAK, times=1)])
    async with transport.stream(asked("GET", watch="1", resourceVersion=str(made.server.store.revision))) as blocks:
        await create(transport, "a")
        with pytest.raises(Unreachable):
            await anext(aiter(blocks))


async def test_only_the_client_that_is_meant_is_hit(made, transport):
    made.faults.set([FaultRule(fault=Fault.ERROR, component="kubectl")])
    assert await create(transport, "a") == 201


async def test_without_the_token_nobody_breaks_anything(made, transport, tmp_path):  # noqa: ARG001 - it serves
    url = (await credentials.find(str(tmp_path / "kubeconfig")).access()).host
    async with aiohttp.ClientSession(trust_env=False) as session, session.delete(f"{url}/dra/faults", ssl=False) as no:
        assert no.status == 401
