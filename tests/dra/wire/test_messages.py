"""The bytes of the messages, and the names under which they are asked for: those of the kubelet."""

import pytest
from google.protobuf.descriptor import FieldDescriptor

from dra.wire import devicehealth, grpc_health, plugin, registration
from dra.wire.messages import (
    POOL,
    devicehealth_v1_pb2,
    devicehealth_v1alpha1_pb2,
    plugin_v1_pb2,
    plugin_v1beta1_pb2,
    registration_v1_pb2,
    serving_v1_pb2,
)
from tests.violations import for_each_case

FILES = [
    devicehealth_v1_pb2,
    devicehealth_v1alpha1_pb2,
    plugin_v1_pb2,
    plugin_v1beta1_pb2,
    registration_v1_pb2,
    serving_v1_pb2,
]

# Written by hand: a key (field number * 8 + 2: length follows; + 0: a varint), a length, the value.
CLAIM = b"\x0a\x02ml" + b"\x12\x02u1" + b"\x1a\x05train"
DEVICE = b"\x0a\x03gpu" + b"\x12\x02n1" + b"\x1a\x05gpu-0" + b"\x22\x05g/c=u" + b"\x2a\x02s1"
HEALTH = (
    b"\x0a\x0b" + (b"\x0a\x02n1" + b"\x12\x05gpu-0") + b"\x10\x02" + b"\x18\x80\xb2\xe4\xc9\x06" + b"\x20\x3c"
    b"\x2a\x03hot"
)

CLAIM_MESSAGE = plugin.Claim(namespace="ml", uid="u1", name="train")
DEVICE_MESSAGE = plugin.Device(
    request_names=["gpu"], pool_name="n1", device_name="gpu-0", cdi_device_ids=["g/c=u"], share_id="s1"
)


@for_each_case(
    [
        pytest.param(
            registration.PluginInfo(type="DRAPlugin", name="d", endpoint="/p", supported_versions=["v1", "v2"]),
            b"\x0a\x09DRAPlugin" + b"\x12\x01d" + b"\x1a\x02/p" + b"\x22\x02v1" + b"\x22\x02v2",
            id="PluginInfo",
        ),
        pytest.param(
            registration.RegistrationStatus(plugin_registered=True, error="no"),
            b"\x08\x01" + b"\x12\x02no",
            id="RegistrationStatus",
        ),
        pytest.param(registration.RegistrationStatusResponse(), b"", id="RegistrationStatusResponse"),
        pytest.param(registration.InfoRequest(), b"", id="InfoRequest"),
        pytest.param(CLAIM_MESSAGE, CLAIM, id="Claim"),
        pytest.param(DEVICE_MESSAGE, DEVICE, id="Device"),
        pytest.param(plugin.Device(share_id=""), b"\x2a\x00", id="Device-with-an-empty-share-that-is-there"),
        pytest.param(
            plugin.NodePrepareResourcesRequest(claims=[CLAIM_MESSAGE, plugin.Claim(uid="u2")]),
            b"\x0a\x0f" + CLAIM + b"\x0a\x04" + b"\x12\x02u2",
            id="NodePrepareResourcesRequest",
        ),
        pytest.param(
            plugin.NodePrepareResourcesResponse(
                claims={"u1": plugin.NodePrepareResourceResponse(devices=[DEVICE_MESSAGE], error="no")}
            ),
            b"\x0a\x27" + (b"\x0a\x02u1" + b"\x12\x21" + (b"\x0a\x1b" + DEVICE + b"\x12\x02no")),
            id="NodePrepareResourcesResponse",
        ),
        pytest.param(
            plugin.NodeUnprepareResourcesRequest(claims=[CLAIM_MESSAGE]),
            b"\x0a\x0f" + CLAIM,
            id="NodeUnprepareResourcesRequest",
        ),
        pytest.param(
            plugin.NodeUnprepareResourcesResponse(claims={"u1": plugin.NodeUnprepareResourceResponse(error="no")}),
            b"\x0a\x0a" + (b"\x0a\x02u1" + b"\x12\x04" + b"\x0a\x02no"),
            id="NodeUnprepareResourcesResponse",
        ),
        pytest.param(
            plugin.NodeUnprepareResourcesResponse(claims={"u1": plugin.NodeUnprepareResourceResponse()}),
            b"\x0a\x06" + (b"\x0a\x02u1" + b"\x12\x00"),
            id="NodeUnprepareResourcesResponse-of-success",
        ),
        pytest.param(devicehealth.NodeWatchResourcesRequest(), b"", id="NodeWatchResourcesRequest"),
        pytest.param(
            devicehealth.NodeWatchResourcesResponse(
                devices=[
                    devicehealth.DeviceHealth(
                        device=devicehealth.DeviceIdentifier(pool_name="n1", device_name="gpu-0"),
                        health=devicehealth.HealthStatus.UNHEALTHY,
                        last_updated_time=1_765_349_632,
                        health_check_timeout_seconds=60,
                        message="hot",
                    )
                ]
            ),
            b"\x0a\x1c" + HEALTH,
            id="NodeWatchResourcesResponse",
        ),
        pytest.param(grpc_health.HealthCheckRequest(service="s"), b"\x0a\x01s", id="HealthCheckRequest"),
        pytest.param(grpc_health.HealthCheckResponse(status="SERVICE_UNKNOWN"), b"\x08\x03", id="HealthCheckResponse"),
    ],
)
def test_a_message_is_these_bytes_and_these_bytes_are_the_message(message, written):
    assert message.SerializeToString(deterministic=True) == written
    assert type(message).FromString(written) == message


def test_a_share_that_is_not_there_is_told_from_an_empty_one():
    assert not plugin.Device.FromString(b"").HasField("share_id")
    assert plugin.Device.FromString(b"\x2a\x00").HasField("share_id")


def test_a_kubelet_that_knows_no_share_reads_the_rest():
    device = plugin_v1beta1_pb2.Device.FromString(DEVICE)
    assert (device.pool_name, device.device_name, list(device.cdi_device_ids)) == ("n1", "gpu-0", ["g/c=u"])


def test_a_field_of_a_newer_kubelet_is_skipped():
    assert plugin.Claim.FromString(CLAIM + b"\x4a\x03new").name == "train"


@pytest.mark.parametrize(
    ("file", "methods"),
    [
        pytest.param(
            registration_v1_pb2,
            {
                "pluginregistration.Registration/GetInfo": ("InfoRequest", "PluginInfo", False),
                "pluginregistration.Registration/NotifyRegistrationStatus": (
                    "RegistrationStatus",
                    "RegistrationStatusResponse",
                    False,
                ),
            },
            id="registration",
        ),
        *(
            pytest.param(
                file,
                {
                    f"k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin/{verb}": (
                        f"{verb}Request",
                        f"{verb}Response",
                        False,
                    )
                    for verb in ("NodePrepareResources", "NodeUnprepareResources")
                },
                id=f"plugin-{version}",
            )
            for file, version in ((plugin_v1_pb2, "v1"), (plugin_v1beta1_pb2, "v1beta1"))
        ),
        *(
            pytest.param(
                file,
                {
                    f"{version}.DRAResourceHealth/NodeWatchResources": (
                        "NodeWatchResourcesRequest",
                        "NodeWatchResourcesResponse",
                        True,
                    )
                },
                id=f"health-{version}",
            )
            for file, version in ((devicehealth_v1_pb2, "v1"), (devicehealth_v1alpha1_pb2, "v1alpha1"))
        ),
        pytest.param(
            serving_v1_pb2,
            {
                "grpc.health.v1.Health/Check": ("HealthCheckRequest", "HealthCheckResponse", False),
                "grpc.health.v1.Health/Watch": ("HealthCheckRequest", "HealthCheckResponse", True),
            },
            id="serving",
        ),
    ],
)
def test_the_methods_and_their_full_names(file, methods):
    assert methods == {
        f"{service.full_name}/{method.name}": (method.input_type.name, method.output_type.name, method.server_streaming)
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }


def fields(file):
    """Every field of every message: what decides about the bytes."""
    return {
        (message.name, field.name): (field.number, field.type, field.is_repeated, kind(field))
        for message in file.DESCRIPTOR.message_types_by_name.values()
        for field in message.fields
    }


def kind(field):
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return field.message_type.name
    if field.type == FieldDescriptor.TYPE_ENUM:
        return {value.name: value.number for value in field.enum_type.values}
    return None


def test_v1beta1_lacks_the_share_and_nothing_else():
    newer, older = fields(plugin_v1_pb2), fields(plugin_v1beta1_pb2)
    assert set(newer) - set(older) == {("Device", "share_id")}
    assert {name: newer[name] for name in older} == older


def test_the_versions_of_the_health_service_differ_in_nothing():
    assert fields(devicehealth_v1_pb2) == fields(devicehealth_v1alpha1_pb2)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.__name__.rpartition(".")[2])
def test_messages_live_in_a_pool_of_their_own(file):
    assert file.DESCRIPTOR.pool is POOL
