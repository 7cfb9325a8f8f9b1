from datetime import UTC, datetime

import msgspec
import pytest

from dra.model.slices import ResourceSliceTaints
from dra.model.taints import DeviceTaint, DeviceTaintRule, DeviceToleration

SLICE = b"""{
  "metadata": {"name": "n1-gpu", "uid": "u"},
  "spec": {
    "driver": "gpu.example.com", "nodeName": "n1", "pool": {"name": "n1", "generation": 3, "resourceSliceCount": 1},
    "devices": [
      {"name": "gpu-0", "attributes": {"model": {"string": "x"}}},
      {"name": "gpu-1", "taints": [{"key": "sick", "effect": "NoExecute", "timeAdded": "2026-11-20T12:00:00Z"}]}
    ]
  }
}"""


def test_of_a_slice_its_pool_and_the_devices_with_taints_are_kept():
    found = msgspec.json.decode(SLICE, type=ResourceSliceTaints)
    assert (found.spec.driver, found.spec.pool.name, found.spec.pool.generation) == ("gpu.example.com", "n1", 3)
    (device,) = found.spec.devices
    assert (device.name, [str(taint) for taint in device.taints]) == ("gpu-1", ["sick:NoExecute"])
    assert device.taints[0].time_added == datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def test_a_rule_keeps_every_criterion_known_or_not():
    rule = b'{"metadata": {"name": "r"}, "spec": {"deviceSelector": {"pool": "n1", "weekday": "Monday"}, "taint": {}}}'
    found = msgspec.json.decode(rule, type=DeviceTaintRule)
    assert found.spec.device_selector == {"pool": "n1", "weekday": "Monday"}


@pytest.mark.parametrize(
    ("taint", "text"),
    [
        pytest.param(DeviceTaint(key="sick", value="ecc", effect="NoExecute"), "sick=ecc:NoExecute", id="with-value"),
        pytest.param(DeviceTaint(key="sick", effect="NoSchedule"), "sick:NoSchedule", id="without"),
    ],
)
def test_taints_are_written_as_kubectl_does(taint, text):
    assert str(taint) == text


@pytest.mark.parametrize(
    ("effect", "added", "evicts"),
    [
        pytest.param("NoExecute", datetime(2026, 1, 1, tzinfo=UTC), True, id="no-execute"),
        pytest.param("NoExecute", None, False, id="without-a-time"),
        pytest.param("NoSchedule", datetime(2026, 1, 1, tzinfo=UTC), False, id="no-schedule"),
        pytest.param("None", datetime(2026, 1, 1, tzinfo=UTC), False, id="none"),
        pytest.param("NoExecuteOnMondays", datetime(2026, 1, 1, tzinfo=UTC), False, id="of-the-future"),
    ],
)
def test_which_taints_end_pods(effect, added, evicts):
    assert DeviceTaint(key="sick", effect=effect, time_added=added).evicts is evicts


def test_a_toleration_without_an_operator_compares_values():
    assert DeviceToleration().operator == "Equal"
