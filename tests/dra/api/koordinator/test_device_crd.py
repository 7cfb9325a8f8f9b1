"""Our own control plane takes the definition of Devices, with all that Koordinator's agent writes."""

import pytest

from dra.api.koordinator.device import Device
from dra.api.koordinator.device_crd import custom_resource_definition
from dra.api.object_fields import to_document
from tests.localplane.crds.example import CustomResourceApi

OBJECTS = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
GPU = {
    "type": "gpu",
    "id": "GPU-4a1d",
    "minor": 0,
    "moduleID": 1,
    "health": True,
    "labels": {"a": "b"},
    "resources": {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "16Gi"},
    "topology": {"socketID": -1, "nodeID": 0, "pcieID": "pci0000:17", "busID": "0000:18:00.0"},
    "vfGroups": [{"labels": {"a": "b"}, "vfs": [{"minor": 0, "busID": "0000:18:00.1"}]}],
    "conditions": [{"type": "Healthy", "status": "True"}],
}
ENTRY = {"namespace": "ml", "name": "train", "uuid": "u1", "minors": [0]}
STATUS = {"allocations": [{"type": "gpu", "entries": [ENTRY]}]}


@pytest.fixture
async def api():
    api = CustomResourceApi()
    await api.define(custom_resource_definition())
    return api


async def create(api, *devices, **more):
    body = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device", "metadata": {"name": "n1"}}
    status, made = await api.ask("POST", OBJECTS, {**body, "spec": {"devices": list(devices)}, **more})
    assert status == 201, made
    return made


async def test_every_field_of_koordinators_is_kept(api):
    made = await create(api, GPU, status=STATUS)
    assert made["spec"]["devices"] == [GPU]
    assert made["status"] == STATUS


async def test_a_device_without_health_does_not_work(api):
    made = await create(api, {"type": "gpu"})
    assert made["spec"]["devices"] == [{"type": "gpu", "health": False}]


def test_the_model_reads_and_writes_the_same():
    read = Device.model_validate({"metadata": {"name": "n1"}, "spec": {"devices": [GPU]}, "status": STATUS})
    assert to_document(read) == {"metadata": {"name": "n1"}, "spec": {"devices": [GPU]}, "status": STATUS}
