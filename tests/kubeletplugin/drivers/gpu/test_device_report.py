"""GPUs and claims as Koordinator's Device describes them."""

import msgspec
import pytest

from dra.api.object_fields import to_document
from kubeletplugin.contract import ClaimIdentity, PreparedClaim, PreparedDevice
from kubeletplugin.drivers.gpu.device_report import device_report, with_transition_times
from kubeletplugin.inventory.gpus import Gpu, GpuFault
from tests.kubeletplugin.drivers.gpu.test_devices import H100
from tests.kubeletplugin.drivers.gpu.test_driver import driver, gpu

WHOLE = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"}
HEALTHY = {"type": "Healthy", "status": "True", "reason": "DeviceHealthy", "message": "device is healthy"}


def claim(name, *devices, of="gpu.reserve.dra", **fields):
    held = tuple(PreparedDevice(requests=("gpu",), pool="n1", device=each, **fields) for each in devices)
    return PreparedClaim(claim=ClaimIdentity(key=("ml", name), uid=f"uid-{name}"), driver=of, devices=held)


def reported(*gpus):
    return [to_document(each) for each in device_report(gpus, ()).devices]


def test_a_gpu_is_reported_with_capacity_and_location():
    assert reported(H100) == [
        {
            "type": "gpu",
            "id": "GPU-4a1d",
            "minor": 3,
            "health": True,
            "resources": {**WHOLE, "koordinator.sh/gpu-memory": "81559Mi"},
            "topology": {"socketID": -1, "nodeID": 0, "pcieID": "pci0000:17", "busID": "0000:18:00.0"},
            "conditions": [HEALTHY],
        }
    ]


def test_what_is_not_known_is_left_out_of_the_report():
    assert reported(Gpu(minor=0, index=0)) == [
        {"type": "gpu", "minor": 0, "health": True, "resources": WHOLE, "conditions": [HEALTHY]}
    ]


@pytest.mark.parametrize(
    ("changed", "health"),
    [
        pytest.param({}, [True], id="works"),
        pytest.param({"faults": (GpuFault(reason="xid", value="79"),)}, [False], id="faulty"),
        pytest.param({"monitored": False}, [True], id="not-monitored"),
        pytest.param({"partitioning": "MIG mode"}, [], id="partitioned"),
    ],
)
def test_the_health_of_a_gpu_is_reported(changed, health):
    assert [each["health"] for each in reported(msgspec.structs.replace(H100, **changed))] == health


@pytest.mark.parametrize(
    ("faults", "reason", "message"),
    [
        pytest.param((GpuFault(reason="xid", value="79"),), "XidCriticalError", "xid 79", id="xid"),
        pytest.param((GpuFault(reason="gpu-lost", message="lost"),), "GpuLost", "lost", id="lost"),
        pytest.param(
            (GpuFault(reason="xid", value="79"), GpuFault(reason="ecc")), "XidCriticalError", "xid 79; ecc", id="both"
        ),
    ],
)
def test_a_condition_says_why_a_gpu_is_not_healthy(faults, reason, message):
    (device,) = reported(msgspec.structs.replace(H100, faults=faults))
    assert device["conditions"] == [{"type": "Healthy", "status": "False", "reason": reason, "message": message}]


def test_a_condition_keeps_the_time_of_its_last_transition():
    ill = msgspec.structs.replace(H100, faults=(GpuFault(reason="xid", value="79"),))
    worse = msgspec.structs.replace(H100, faults=(*ill.faults, GpuFault(reason="ecc")))
    report, times = None, []
    for moment, gpu_then in enumerate((H100, H100, ill, worse, H100)):
        report = with_transition_times(device_report([gpu_then], ()), report, now=str(moment))
        times.append(report.devices[0].conditions[0]["lastTransitionTime"])
    assert times == ["0", "0", "2", "2", "4"]


def test_labels_describe_the_first_gpu():
    other = msgspec.structs.replace(H100, minor=4, product="Other")
    assert device_report([H100, other], ()).labels == {
        "node.koordinator.sh/gpu-model": "NVIDIA-H100-80GB-HBM3",
        "node.koordinator.sh/gpu-driver-version": "535.129.03",
        "node.koordinator.sh/gpu-vendor": "nvidia",
    }


@pytest.mark.parametrize(
    ("product", "value"),
    [("Tesla T4", "Tesla-T4"), ("(ä)", None), ("", None), ("x" * 70, "x" * 63), ("A100 (80GB)", "A100--80GB")],
)
def test_a_model_becomes_the_value_of_a_label(product, value):
    named = msgspec.structs.replace(H100, product=product)
    assert device_report([named], ()).labels.get("node.koordinator.sh/gpu-model") == value


def test_a_node_without_gpus_has_no_labels():
    assert device_report([], ()).labels == {}


def test_prepared_claims_are_the_allocations_in_order():
    found = device_report([], [claim("b", "gpu-1", "gpu-0"), claim("a", "gpu-0")])
    assert [to_document(each) for each in found.allocations] == [
        {
            "type": "gpu",
            "entries": [
                {"namespace": "ml", "name": "a", "uuid": "uid-a", "minors": [0]},
                {"namespace": "ml", "name": "b", "uuid": "uid-b", "minors": [0, 1]},
            ],
        }
    ]


def test_minors_are_those_that_gpus_have_now_whatever_their_names_are():
    lost = (GpuFault(reason="gpu-lost"),)
    gpus = [
        gpu(1, device_name="gpu-1", faults=lost),
        msgspec.structs.replace(gpu(1, device_name="gpu-2"), uuid="GPU-2"),
        gpu(5, device_name="gpu-5", faults=lost),
    ]
    found = device_report(gpus, [claim("a", "gpu-1"), claim("b", "gpu-2"), claim("c", "gpu-5"), claim("d", "gpu-9")])
    assert [(each.minor, each.id) for each in found.devices] == [(1, "GPU-2"), (5, "GPU-5")]
    (allocation,) = found.allocations
    assert {each.name: each.minors for each in allocation.entries} == {"b": (1,), "c": (5,), "d": (9,)}


@pytest.mark.parametrize(
    "held",
    [
        pytest.param((), id="no-claims"),
        pytest.param((claim("a", "gpu-0", admin=True),), id="admin-access"),
        pytest.param((claim("a", "cpu-0"),), id="no-gpu"),
    ],
)
def test_a_claim_that_holds_no_gpu_is_no_allocation(held):
    assert device_report([], held).allocations == ()


def test_a_driver_that_does_not_know_its_gpus_reports_nothing():
    subject = driver(gpu(0))
    assert [each.minor for each in subject.device_report(()).devices] == [0]
    subject.degraded_reason = "no NVML"
    assert subject.device_report(()) is None
