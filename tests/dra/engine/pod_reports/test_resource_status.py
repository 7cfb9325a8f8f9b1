"""The CPUs that a pod is reported to be bound to."""

import msgspec
import pytest

from dra.engine.pod_reports.resource_status import resource_status
from dra.model.claims import AllocatedDeviceStatus
from tests.violations import for_each_case


def status(data, *, driver="cpu.reserve.dra"):
    content = {"driver": driver, "pool": "n1", "device": "cpus", "data": data}
    return msgspec.json.decode(msgspec.json.encode(content), type=AllocatedDeviceStatus)


@for_each_case(
    [
        pytest.param([status({"cpuset": "0-3"})], '{"cpuset":"0-3"}', id="one"),
        pytest.param([status({"cpuset": "8,0-1"}), status({"cpuset": "2-3"})], '{"cpuset":"0-3,8"}', id="joined"),
        pytest.param([status({"cpuset": "0", "more": 1})], '{"cpuset":"0"}', id="more-data"),
        pytest.param([], None, id="nothing"),
        pytest.param([status(None)], None, id="not-yet"),
        pytest.param([status({"cpuset": ""})], None, id="empty"),
        pytest.param([status({"cpuset": "0-3"}, driver="net")], None, id="another-driver"),
        pytest.param([status({"cpuset": "x"}), status({"cpuset": "1"})], '{"cpuset":"1"}', id="malformed"),
        pytest.param([status({"cpuset": 7})], None, id="of-another-type"),
        pytest.param([status(["cpuset"])], None, id="a-list"),
        pytest.param([status({"cpuset": "0," * 600})], None, id="too-long"),
    ]
)
def test_the_cpus_of_all_claims_are_reported(statuses, value):
    assert resource_status(statuses) == value
