import msgspec
import pytest

from dra.model.claims import (
    AllocatedDeviceStatus,
    Condition,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    has_binding_failure,
)
from tests.dra.engine.examples import allocation, claim
from tests.violations import for_each_case


def failing(*results, reported):
    found = allocation()
    devices = DeviceAllocationResult(
        results=[
            DeviceRequestAllocationResult(
                driver="d",
                pool="p",
                device=device,
                binding_conditions=["Attached"],
                binding_failure_conditions=list(bad),
            )
            for device, bad in results
        ]
    )
    of = claim(allocation=msgspec.structs.replace(found, devices=devices))
    statuses = [
        AllocatedDeviceStatus(driver="d", pool="p", device=device, conditions=[Condition(type=kind, status=status)])
        for device, kind, status in reported
    ]
    return msgspec.structs.replace(of, status=msgspec.structs.replace(of.status, devices=statuses))


@for_each_case(
    [
        pytest.param([("gpu-0", ["Broken"])], [("gpu-0", "Broken", "True")], True, id="reported"),
        pytest.param([("gpu-0", ["Broken"])], [("gpu-0", "Broken", "False")], False, id="reported-as-false"),
        pytest.param([("gpu-0", ["Broken"])], [("gpu-0", "Warm", "True")], False, id="another-condition"),
        pytest.param([("gpu-0", [])], [("gpu-0", "Broken", "True")], False, id="a-condition-nobody-named"),
        pytest.param([("gpu-0", ["Broken"])], [("gpu-1", "Broken", "True")], False, id="another-device"),
        pytest.param([("gpu-0", []), ("gpu-1", ["Off"])], [("gpu-1", "Off", "True")], True, id="one-of-several"),
        pytest.param([("gpu-0", ["Broken"])], [], False, id="nothing-reported"),
    ]
)
def test_a_binding_fails_by_the_conditions_its_allocation_names(results, reported, failed):
    assert has_binding_failure(failing(*results, reported=reported)) is failed


def test_an_unallocated_claim_has_no_binding_to_fail():
    assert not has_binding_failure(claim(allocation=None))


def test_a_fresh_claim_decodes_though_it_has_neither_status_nor_finalizers():
    found = msgspec.json.decode(b'{"metadata": {"name": "a", "namespace": "ml"}}', type=ResourceClaim)
    assert (found.entries, found.protected, found.generated_for, found.status.allocation) == ((), False, None, None)


def test_a_claim_is_generated_for_the_pod_that_controls_it():
    assert claim(owner="a").generated_for == "uid-a"
    assert claim().generated_for is None
