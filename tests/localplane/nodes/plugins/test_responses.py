"""What a plugin may answer: the rules and texts of the kubelet 1.36.3 (cm/dra/manager.go, dra_plugin_manager.go)."""

import grpc
import pytest
from grpc import aio

from dra.wire import plugin
from localplane.nodes.drivers import ClaimIdentity, Device, DriverError
from localplane.nodes.plugins import responses

A, B = ClaimIdentity(("ml", "a"), "uid-a"), ClaimIdentity(("ml", "b"), "uid-b")
GOOD = plugin.NodePrepareResourceResponse(
    devices=[
        {"request_names": ["gpu"], "pool_name": "n1", "device_name": "gpu-0", "cdi_device_ids": ["d/claim=1"]},
        {"pool_name": "n1", "device_name": "gpu-1", "share_id": "half"},
    ]
)


def bad(text):
    return plugin.NodePrepareResourceResponse(error=text)


def test_devices_are_those_of_the_answer():
    found = responses.prepared_devices("d", [A], plugin.NodePrepareResourcesResponse(claims={"uid-a": GOOD}))
    assert found == {"uid-a": (Device("d", "n1", "gpu-0"), Device("d", "n1", "gpu-1", "half"))}
    assert [(device.requests, device.cdi) for device in found["uid-a"]] == [(("gpu",), ("d/claim=1",)), ((), ())]


@pytest.mark.parametrize(
    ("claims", "entries", "told"),
    [
        pytest.param([A, B], {"uid-a": GOOD}, "NodePrepareResources skipped 1 ResourceClaims", id="one-left-out"),
        pytest.param([A, B], {}, "NodePrepareResources skipped 2 ResourceClaims", id="nothing-answered"),
        pytest.param([A, A], {"uid-a": GOOD}, "NodePrepareResources skipped 1 ResourceClaims", id="one-claim-twice"),
        pytest.param(
            [A],
            {"uid-a": GOOD, "uid-x": GOOD},
            "NodePrepareResources returned result for unknown claim UID uid-x",
            id="one-too-many",
        ),
        pytest.param(
            [A, B],
            {"uid-a": GOOD, "uid-b": bad("no such device")},
            "NodePrepareResources failed for ResourceClaim b: no such device",
            id="one-with-an-error",
        ),
    ],
)
def test_an_answer_that_breaks_a_rule_is_refused_in_the_words_of_the_kubelet(claims, entries, told):
    with pytest.raises(DriverError) as refused:
        responses.prepared_devices("d", claims, plugin.NodePrepareResourcesResponse(claims=entries))
    assert str(refused.value) == told


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        pytest.param({}, "NodeUnprepareResources skipped 1 ResourceClaims", id="left-out"),
        pytest.param(
            {"uid-x": plugin.NodeUnprepareResourceResponse()},
            "NodeUnprepareResources returned result for unknown claim UID uid-x",
            id="another-one",
        ),
        pytest.param(
            {"uid-a": plugin.NodeUnprepareResourceResponse(error="busy")},
            "NodeUnprepareResources failed for ResourceClaim a: busy",
            id="error",
        ),
    ],
)
def test_the_same_holds_for_giving_back(entries, told):
    with pytest.raises(DriverError) as refused:
        responses.check_unprepared([A], plugin.NodeUnprepareResourcesResponse(claims=entries))
    assert str(refused.value) == told


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (grpc.StatusCode.UNAVAILABLE, "Unavailable"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "DeadlineExceeded"),
        (grpc.StatusCode.CANCELLED, "Canceled"),
    ],
)
def test_a_call_without_an_answer_is_told_as_go_prints_it(code, name):
    error = aio.AioRpcError(code, aio.Metadata(), aio.Metadata(), details="oh")
    told = str(responses.call_error(responses.PREPARE_METHOD, error))
    assert told == f"NodePrepareResources: rpc error: code = {name} desc = oh"


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["v1.DRAPlugin", "v1beta1.DRAPlugin"], "v1.DRAPlugin"),
        (["v1beta1.DRAPlugin", "v1.DRAPlugin"], "v1beta1.DRAPlugin"),
        (["v2.DRAPlugin", "v1alpha1.DRAResourceHealth", "v1.DRAPlugin"], "v1.DRAPlugin"),
    ],
    ids=str,
)
def test_the_first_version_that_the_kubelet_knows_is_spoken(offered, chosen):
    assert responses.supported_version(offered) == chosen


@pytest.mark.parametrize(
    ("offered", "told"),
    [
        ([], "empty list of supported gRPC services (aka supported versions)"),
        (
            ["1.0.0"],
            (
                'none of services supported by the plugin (["1.0.0"]) are supported by the kubelet'
                ' (["v1.DRAPlugin" "v1beta1.DRAPlugin"])'
            ),
        ),
    ],
    ids=["none", "unknown"],
)
def test_a_plugin_without_such_a_version_is_refused(offered, told):
    with pytest.raises(ValueError, match="services") as refused:
        responses.supported_version(offered)
    assert str(refused.value) == told
