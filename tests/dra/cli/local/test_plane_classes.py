"""A new plane has a DeviceClass for the devices of each driver."""

import json

import pytest

from dra.cli.local.plane_classes import class_manifests, class_names, create_classes
from dra.kube.resources import DEVICE_CLASSES
from dra.model.device_classes import DeviceClass
from localplane.plane.local_plane import LocalPlane
from localplane.plane.options import PlaneOptions


@pytest.mark.parametrize(
    ("devices", "plugins", "names"),
    [
        pytest.param(8, None, ("gpu.example.com",), id="emulated-devices"),
        pytest.param(0, None, (), id="no-devices"),
        pytest.param(8, ("gpu", "cpu"), ("gpu.reserve.dra", "cpu.reserve.dra"), id="devices-of-plugins"),
        pytest.param(8, (), ("gpu.example.com",), id="beside-plugins-of-ones-own"),
    ],
)
def test_there_is_a_class_for_each_driver_that_publishes_devices(devices, plugins, names):
    assert class_names(devices=devices, plugins=plugins) == names


def test_kubectl_apply_finds_what_it_would_have_left():
    (body,) = class_manifests(["d.example"])
    applied = json.loads(body["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"])
    assert applied == body | {"metadata": {"annotations": {}, "name": "d.example"}}


async def test_a_class_that_is_there_stays_as_it_is():
    client = LocalPlane(PlaneOptions(nodes=0)).client("test")
    await client.create(DEVICE_CLASSES, {"metadata": {"name": "a.example"}, "spec": {}}, model=DeviceClass)
    await create_classes(client, ["a.example", "b.example"])
    classes = [await client.get(DEVICE_CLASSES, ("", name), DeviceClass) for name in ("a.example", "b.example")]
    assert [len(device_class.spec.selectors or ()) for device_class in classes] == [0, 1]
