"""What the kubelet says of a driver; the conversation itself is in conformance/test_registration.py."""

from pathlib import Path

import pytest

from dra.wire.registration import InfoRequest, RegistrationStatus
from kubeletplugin.registration import SUPPORTED_VERSIONS, Registrar, remedy_for

DRIVER = "gpu.reserve.dra"


@pytest.fixture
def registrar():
    return Registrar(DRIVER, endpoint=Path("/p/gpu.reserve.dra/dra.sock"))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param("none of services supported by the plugin", "supports no DRA version", id="versions"),
        pytest.param("endpoint /x already registered for DRA driver plugin", "--pod-uid", id="twice"),
        pytest.param("create gRPC connection to DRA driver", "same path as on the node", id="another-path"),
        pytest.param("no handler registered for plugin type", "DynamicResourceAllocation is disabled", id="no-dra"),
        pytest.param("of the future", "see the kubelet's log", id="anything-else"),
    ],
)
def test_each_refusal_has_a_way_out(error, text):
    assert text in remedy_for(error)


async def test_the_newest_version_of_each_service_comes_first(registrar):
    info = await registrar.get_info(InfoRequest(), None)
    assert (info.type, info.name, info.endpoint) == ("DRAPlugin", DRIVER, "/p/gpu.reserve.dra/dra.sock")
    assert list(info.supported_versions) == [version.value for version in SUPPORTED_VERSIONS]
    assert info.supported_versions[0] == "v1.DRAPlugin"


async def test_what_the_kubelet_last_said_counts(registrar):
    assert not registrar.registered
    assert "has not registered" in registrar.problem
    await registrar.notify_registration_status(RegistrationStatus(error="already registered"), None)
    assert not registrar.registered
    assert registrar.problem.startswith(f"driver {DRIVER}: rejected by the kubelet: already registered; another plugin")
    await registrar.notify_registration_status(RegistrationStatus(plugin_registered=True), None)
    assert registrar.registered
    assert not registrar.problem
