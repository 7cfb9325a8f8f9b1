from datetime import UTC, datetime

import msgspec
import pytest

from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.devices.taints import TaintIndex, TaintScope, TaintSource
from dra.model.claims import AllocationResult, DeviceAllocationResult, DeviceRequestAllocationResult
from dra.model.meta import ObjectMeta
from dra.model.slices import ResourcePool, ResourceSliceTaints, ResourceSliceTaintsSpec, TaintedDevice
from dra.model.taints import DeviceTaint, DeviceTaintRule, DeviceTaintRuleSpec
from tests.dra.engine.examples import KEY, NAMESPACE, NOON, allocation, claim
from tests.violations import for_each_case

DRIVER = "gpu.example.com"
SICK = DeviceTaint(key="sick", effect="NoExecute", time_added=datetime(2026, 11, 20, 12, 0, tzinfo=UTC))
WORSE = DeviceTaint(key="worse", effect="NoExecute", time_added=datetime(2026, 11, 20, 12, 0, tzinfo=UTC))
DUSTY = DeviceTaint(key="dusty", effect="NoSchedule", time_added=datetime(2026, 11, 20, 12, 0, tzinfo=UTC))


def slice_of(name="s", *, pool="pool", generation=1, driver=DRIVER, **devices):
    """A slice; devices by name, ``gpu_0`` for ``gpu-0``, each with its taints."""
    found = [TaintedDevice(name=d.replace("_", "-"), taints=list(taints) or None) for d, taints in devices.items()]
    spec = ResourceSliceTaintsSpec(driver=driver, pool=ResourcePool(name=pool, generation=generation), devices=found)
    return ResourceSliceTaints(metadata=ObjectMeta(name=name), spec=spec)


def rule_of(name="r", *, taint=SICK, selector=()):
    criteria = None if selector is None else dict(selector)
    return DeviceTaintRule(
        metadata=ObjectMeta(name=name), spec=DeviceTaintRuleSpec(device_selector=criteria, taint=taint)
    )


def index_of(*slices, rules=()):
    index = TaintIndex()
    for each in slices:
        index.observe_slice(each)
    for each in rules:
        index.observe_rule(each)
    index.slices_known()
    return index


def found(index, *devices):
    return [(t.result.device, t.taint.key, t.source, t.name) for t in index.taints_of(allocation(*devices))]


def test_a_taint_counts_on_the_node_that_its_slice_names():
    named = slice_of(gpu_0=[SICK])
    spec = msgspec.structs.replace(named.spec, node_name="n1")
    index = index_of(msgspec.structs.replace(named, spec=spec), rules=[rule_of(taint=WORSE)])
    assert [(t.taint.key, t.node) for t in index.taints_of(allocation())] == [("worse", None), ("sick", "n1")]


def test_nothing_is_told_before_all_slices_are_known():
    index = TaintIndex()
    index.observe_slice(slice_of(gpu_0=[SICK]))
    assert found(index) == []
    assert index.slices_known() == [TaintScope()]
    assert found(index) == [("gpu-0", "sick", TaintSource.SLICE, "s")]
    assert index.slices_known() == []  # a relist is no news


@for_each_case(
    [
        pytest.param([slice_of(gpu_0=[SICK])], [("gpu-0", "sick")], id="tainted"),
        pytest.param([slice_of(gpu_0=[DUSTY])], [], id="by-a-taint-that-ends-no-pod"),
        pytest.param([slice_of(gpu_0=[DUSTY, SICK, WORSE])], [("gpu-0", "sick"), ("gpu-0", "worse")], id="several"),
        pytest.param([slice_of(gpu_2=[SICK])], [], id="another-device"),
        pytest.param([slice_of(pool="other", gpu_0=[SICK])], [], id="another-pool"),
        pytest.param([slice_of(driver="nic.example.com", gpu_0=[SICK])], [], id="another-driver"),
        pytest.param([slice_of("a", gpu_0=[SICK]), slice_of("b", generation=2, gpu_0=[])], [], id="old-generation"),
        pytest.param(
            [slice_of("a", generation=2, gpu_0=[SICK]), slice_of("b", gpu_0=[])], [("gpu-0", "sick")], id="the-newest"
        ),
        pytest.param([slice_of("a", gpu_0=[SICK]), slice_of("b", generation=2)], [], id="its-device-is-no-more"),
        pytest.param(
            [slice_of("a", gpu_0=[SICK]), slice_of("b", gpu_1=[WORSE])],
            [("gpu-0", "sick"), ("gpu-1", "worse")],
            id="a-pool-of-two-slices",
        ),
        pytest.param(
            [slice_of("b", gpu_0=[SICK]), slice_of("a", gpu_0=[WORSE])], [("gpu-0", "worse")], id="a-device-twice"
        ),
    ]
)
def test_which_taints_an_allocation_of_two_devices_has(slices, taints):
    assert [each[:2] for each in found(index_of(*slices), "gpu-0", "gpu-1")] == taints


@for_each_case(
    [
        pytest.param({}, True, id="everything"),
        pytest.param(None, False, id="nothing"),
        pytest.param({"driver": DRIVER, "pool": "pool", "device": "gpu-0"}, True, id="by-all-names"),
        pytest.param({"device": "gpu-0"}, True, id="by-device-alone"),
        pytest.param({"driver": "nic.example.com", "device": "gpu-0"}, False, id="another-driver"),
        pytest.param({"pool": "other"}, False, id="another-pool"),
        pytest.param({"device": "gpu-1"}, False, id="another-device"),
        pytest.param({"driver": DRIVER, "deviceClassName": "gpu"}, False, id="by-a-class-nobody-can-tell"),
        pytest.param({"selectors": []}, False, id="by-cel-likewise"),
    ]
)
def test_which_devices_a_rule_taints(selector, selects):
    expected = [("gpu-0", "sick", TaintSource.RULE, "r")] if selects else []
    assert found(index_of(rules=[rule_of(selector=selector)])) == expected


def test_a_device_may_have_taints_by_rules_and_by_its_driver():
    index = index_of(slice_of(gpu_0=[SICK]), rules=[rule_of("b", taint=WORSE), rule_of("a", taint=WORSE)])
    assert [each[2:] for each in found(index)] == [
        (TaintSource.RULE, "a"),
        (TaintSource.RULE, "b"),
        (TaintSource.SLICE, "s"),
    ]


@pytest.mark.parametrize(
    ("after", "changed"),
    [
        pytest.param(slice_of(gpu_0=[SICK], gpu_1=[]), [], id="nothing"),
        pytest.param(slice_of(gpu_0=[SICK], gpu_1=[DUSTY]), [], id="a-taint-that-ends-no-pod"),
        pytest.param(slice_of(generation=2, gpu_0=[SICK]), [], id="the-generation"),
        pytest.param(slice_of(gpu_0=[SICK, WORSE], gpu_1=[]), ["gpu-0"], id="a-taint-more"),
        pytest.param(slice_of(gpu_0=[], gpu_1=[WORSE]), ["gpu-0", "gpu-1"], id="another-device"),
        pytest.param(slice_of(), ["gpu-0"], id="the-device-is-gone"),
    ],
)
def test_a_slice_that_changes_concerns_the_devices_whose_taints_do(after, changed):
    index = index_of(slice_of(gpu_0=[SICK], gpu_1=[]))
    assert index.observe_slice(after) == [TaintScope(DRIVER, "pool", device) for device in changed]


def test_a_slice_that_goes_takes_its_taints_along():
    index = index_of(slice_of("a", generation=2, gpu_0=[SICK]), slice_of("b", gpu_0=[WORSE]))
    assert index.forget_slice("a") == [TaintScope(DRIVER, "pool", "gpu-0")]
    assert [each[1] for each in found(index)] == ["worse"]  # the generation before is the highest again
    assert index.forget_slice("b") == [TaintScope(DRIVER, "pool", "gpu-0")]
    assert index.forget_slice("b") == []
    assert found(index) == []


def test_a_slice_may_move_to_another_pool():
    index = index_of(slice_of(pool="before", gpu_0=[SICK]))
    assert index.observe_slice(slice_of(gpu_0=[SICK])) == [
        TaintScope(DRIVER, "before", "gpu-0"),
        TaintScope(DRIVER, "pool", "gpu-0"),
    ]


def test_a_rule_concerns_what_it_selects_and_what_it_selected():
    index, before, after = index_of(), {"device": "gpu-0"}, {"device": "gpu-1"}
    assert index.observe_rule(rule_of(selector=before)) == [TaintScope(device="gpu-0")]
    assert index.observe_rule(rule_of(selector=before)) == []
    assert index.observe_rule(rule_of(selector=after)) == [TaintScope(device="gpu-0"), TaintScope(device="gpu-1")]
    assert index.observe_rule(rule_of(selector=after, taint=DUSTY)) == [TaintScope(device="gpu-1")]
    assert index.forget_rule("r") == []


def test_devices_with_admin_access_have_taints_as_others():
    result = DeviceRequestAllocationResult(driver=DRIVER, pool="pool", device="gpu-0", admin_access=True)
    of = AllocationResult(devices=DeviceAllocationResult(results=[result]))
    assert len(index_of(slice_of(gpu_0=[SICK])).taints_of(of)) == 1


def test_nothing_is_tainted_without_an_allocation():
    assert index_of(slice_of(gpu_0=[SICK])).taints_of(None) == ()


def test_only_claims_on_devices_whose_taints_changed_are_looked_at_again():
    world = ClaimCache()
    without_devices = AllocationResult(devices=DeviceAllocationResult(results=None))
    allocations = {"train": allocation("gpu-0"), "other": allocation("gpu-1"), "idle": None, "bare": without_devices}
    for name, of in allocations.items():
        world.observe_claim(claim(name, allocation=of), now=NOON)
    world.taints_changed(world.taints.slices_known())
    world.dirty.clear()
    world.taints_changed(world.taints.observe_slice(slice_of(gpu_0=[SICK])))
    assert set(world.dirty) == {KEY}
    assert [t.taint for t in world.view(KEY, now=NOON).taints] == [SICK]
    assert world.view((NAMESPACE, "other"), now=NOON).taints == ()
    world.dirty.clear()
    world.taints_changed(world.taints.observe_rule(rule_of()))
    assert set(world.dirty) == {KEY, (NAMESPACE, "other")}
    world.dirty.clear()
    world.taints_changed(world.taints.observe_slice(msgspec.structs.replace(slice_of(gpu_0=[SICK]))))
    assert not world.dirty


def test_rules_that_evict_nobody_are_known_as_well():
    index = index_of(rules=[rule_of("b"), rule_of("a", taint=DUSTY)])
    assert [rule.metadata.name for rule in index.rules] == ["a", "b"]
    index.forget_rule("b")
    assert [rule.metadata.name for rule in index.rules] == ["a"]
