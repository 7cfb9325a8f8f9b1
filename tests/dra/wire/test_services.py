"""A server and a client of each service, over a unix socket that only its owner can open."""

import os
import stat

import grpc
import pytest
from grpc import aio

from dra.wire import devicehealth, grpc_health, plugin, registration


@pytest.fixture
async def served(short_path):
    """Serve all services on one socket; give its path."""
    path = short_path / "all.sock"
    server = aio.server()
    servicer = Servicer()
    registration.add_to_server(servicer, server)
    plugin.add_to_server(servicer, server)
    devicehealth.add_to_server(servicer, server)
    grpc_health.add_to_server(servicer, server)
    mask = os.umask(0o177)
    try:
        server.add_insecure_port(f"unix:{path}")
    finally:
        os.umask(mask)
    await server.start()
    yield path
    await server.stop(None)


@pytest.fixture
async def channel(served):
    async with aio.insecure_channel(f"unix:{served}") as channel:
        yield channel


class Servicer:
    async def get_info(self, _request, _context):
        return registration.PluginInfo(
            type=registration.PLUGIN_TYPE,
            name="gpu.reserve.dra",
            endpoint="/plugins/dra.sock",
            supported_versions=[*plugin.DraPluginVersion, *devicehealth.DraResourceHealthVersion],
        )

    async def notify_registration_status(self, request, context):
        if request.error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"noted: {request.error}")
        return registration.RegistrationStatusResponse()

    async def node_prepare_resources(self, request, _context):
        answer = plugin.NodePrepareResourcesResponse()
        for claim in request.claims:
            if claim.name == "bad":
                answer.claims[claim.uid].error = f"claim {claim.namespace}/{claim.name}: no such device"
            else:
                answer.claims[claim.uid].devices.add(request_names=["gpu"], device_name="gpu-0", share_id="half")
        return answer

    async def node_unprepare_resources(self, request, _context):
        return plugin.NodeUnprepareResourcesResponse(
            claims={claim.uid: plugin.NodeUnprepareResourceResponse() for claim in request.claims}
        )

    async def node_watch_resources(self, _request, _context):
        for health in (devicehealth.HealthStatus.HEALTHY, devicehealth.HealthStatus.UNHEALTHY):
            yield devicehealth.NodeWatchResourcesResponse(
                devices=[{"device": {"pool_name": "n1", "device_name": "gpu-0"}, "health": health}]
            )

    async def check(self, _request, _context):
        return grpc_health.HealthCheckResponse(status=grpc_health.HealthCheckResponse.SERVING)

    async def watch(self, _request, _context):
        yield grpc_health.HealthCheckResponse(status=grpc_health.HealthCheckResponse.SERVICE_UNKNOWN)


def test_the_socket_is_its_owners(served):
    assert stat.S_IMODE(served.stat().st_mode) == 0o600


async def test_the_kubelet_learns_whose_socket_it_is(channel):
    info = await registration.RegistrationClient(channel).get_info(registration.InfoRequest(), timeout=60)
    assert (info.type, info.name) == ("DRAPlugin", "gpu.reserve.dra")
    assert list(info.supported_versions) == [
        "v1.DRAPlugin",
        "v1beta1.DRAPlugin",
        "v1.DRAResourceHealth",
        "v1alpha1.DRAResourceHealth",
    ]


async def test_the_kubelet_says_what_it_made_of_it(channel):
    client = registration.RegistrationClient(channel)
    await client.notify_registration_status(registration.RegistrationStatus(plugin_registered=True), timeout=5)
    with pytest.raises(aio.AioRpcError, match="noted: twice") as caught:
        await client.notify_registration_status(registration.RegistrationStatus(error="twice"), timeout=5)
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION


@pytest.mark.parametrize("version", list(plugin.DraPluginVersion))
async def test_claims_are_prepared_and_given_back_in_every_version(channel, version):
    client = plugin.DraPluginClient(channel, version=version)
    claims = [{"namespace": "ml", "uid": "u1", "name": "good"}, {"namespace": "ml", "uid": "u2", "name": "bad"}]
    prepared = await client.node_prepare_resources(plugin.NodePrepareResourcesRequest(claims=claims), timeout=5)
    assert [device.device_name for device in prepared.claims["u1"].devices] == ["gpu-0"]
    assert prepared.claims["u2"].error == "claim ml/bad: no such device"
    given = await client.node_unprepare_resources(plugin.NodeUnprepareResourcesRequest(claims=claims), timeout=5)
    assert {uid: entry.error for uid, entry in given.claims.items()} == {"u1": "", "u2": ""}


@pytest.mark.parametrize("version", list(devicehealth.DraResourceHealthVersion))
async def test_health_is_a_stream_in_every_version(channel, version):
    client = devicehealth.DraResourceHealthClient(channel, version=version)
    stream = client.node_watch_resources(devicehealth.NodeWatchResourcesRequest(), timeout=5)
    assert [answer.devices[0].health async for answer in stream] == [1, 2]


async def test_probes_are_answered(channel):
    client = grpc_health.HealthClient(channel)
    answer = await client.check(grpc_health.HealthCheckRequest(), timeout=5)
    assert answer.status == grpc_health.HealthCheckResponse.SERVING
    stream = client.watch(grpc_health.HealthCheckRequest(service="other"), timeout=5)
    assert [answer.status async for answer in stream] == [grpc_health.HealthCheckResponse.SERVICE_UNKNOWN]


async def test_a_version_that_is_not_served_is_unimplemented(short_path):
    server = aio.server()
    plugin.add_to_server(Servicer(), server, versions=[plugin.DraPluginVersion.V1])
    server.add_insecure_port(f"unix:{short_path}/v1.sock")
    await server.start()
    async with aio.insecure_channel(f"unix:{short_path}/v1.sock") as channel:
        client = plugin.DraPluginClient(channel, version=plugin.DraPluginVersion.V1BETA1)
        with pytest.raises(aio.AioRpcError) as caught:
            await client.node_prepare_resources(plugin.NodePrepareResourcesRequest(), timeout=5)
    await server.stop(None)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
