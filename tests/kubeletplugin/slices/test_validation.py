import pytest

from dra.model.slices import Device
from dra.model.taints import DeviceTaint
from kubeletplugin.contract import Pool
from kubeletplugin.slices.validation import MAX_PROBLEMS_SHOWN, MalformedPoolError, validate_pool
from tests.violations import for_each_case

DRIVER = "gpu.example.com"
TAINT = DeviceTaint(key="example.com/sick", effect="NoSchedule")
POLICY = {"default": "1Gi", "validRange": {"min": "1Gi"}}


def pool(*devices, name="n1"):
    return Pool(name=name, devices=devices)


def gpu(**fields):
    return Device(**{"name": "gpu-0", **fields})


@for_each_case(
    [
        pytest.param(gpu(), id="bare"),
        pytest.param(gpu(attributes={"example.com/model": {"string": "x" * 64}}), id="longest-text"),
        pytest.param(gpu(attributes={"driverVersion": {"version": "570.86.15-beta.1+build"}}), id="version"),
        pytest.param(gpu(attributes={f"a{i}": {"int": i} for i in range(32)}), id="most-attributes"),
        pytest.param(gpu(attributes={"numa": {"ints": list(range(48))}}), id="most-values"),
        pytest.param(gpu(capacity={"memory": {"value": "80Gi", "requestPolicy": POLICY}}), id="capacity"),
        pytest.param(gpu(taints=[TAINT] * 16), id="most-taints"),
    ]
)
def test_what_an_api_server_takes_is_let_through(device):
    validate_pool(pool(device), driver=DRIVER)


@for_each_case(
    [
        pytest.param(pool(gpu(), name="N1"), "pool N1 of gpu.example.com: name: must be DNS", id="pool-name"),
        pytest.param(pool(gpu(), gpu()), "device gpu-0: name: is not unique", id="twice"),
        pytest.param(pool(gpu(name="GPU_0")), "device GPU_0: name: must be a DNS label", id="device-name"),
        pytest.param(
            pool(gpu(attributes={f"a{i}": {"int": i} for i in range(33)})),
            "device gpu-0: attributes: 33 attributes and capacities, at most 32",
            id="33-attributes",
        ),
        pytest.param(
            pool(gpu(attributes={"numa": {"ints": list(range(49))}})), "attributes: 49 values, at most 48", id="values"
        ),
        pytest.param(
            pool(gpu(attributes={"model": {"string": "x" * 65}})), "attributes[model].string: 'xxx", id="long-text"
        ),
        pytest.param(
            pool(gpu(attributes={"v": {"version": "12.4"}})),
            "device gpu-0: attributes[v].version: '12.4' is not a semantic version",
            id="version",
        ),
        pytest.param(pool(gpu(attributes={"a": {}})), "attributes[a]: must have exactly one of bool", id="no-value"),
        pytest.param(pool(gpu(attributes={"a": {"int": 1, "bool": True}})), "it has int, bool", id="two-values"),
        pytest.param(
            pool(gpu(attributes={"a": {"int": True}})), "attributes[a].int: True has the wrong type", id="type"
        ),
        pytest.param(pool(gpu(attributes={"my-name": {"int": 1}})), "'my-name' is not an identifier", id="identifier"),
        pytest.param(pool(gpu(attributes={"X/a": {"int": 1}})), "'X' is not a DNS subdomain", id="domain"),
        pytest.param(pool(gpu(capacity={"memory": {"value": "many"}})), "capacity[memory].value: 'many'", id="amount"),
        pytest.param(pool(gpu(capacity={"memory": {}})), "capacity[memory]: has no value", id="no-amount"),
        pytest.param(pool(gpu(taints=[TAINT] * 17)), "taints: 17 taints, at most 16", id="taints"),
        pytest.param(
            pool(gpu(taints=[DeviceTaint(key="a", effect="Never")])), "taints[0].effect: 'Never' is none", id="effect"
        ),
        pytest.param(pool(gpu(consumes_counters=[{}] * 3)), "consumesCounters: 3 counter sets", id="counter-sets"),
        pytest.param(
            pool(gpu(binding_conditions=["a"] * 5)), "binding_conditions: 5 conditions, at most 4", id="conditions"
        ),
    ],
)
def test_what_is_wrong_is_said_with_pool_device_and_field(broken, text):
    with pytest.raises(MalformedPoolError) as refused:
        validate_pool(broken, driver=DRIVER)
    assert str(refused.value).startswith(f"pool {broken.name} of {DRIVER}: ")
    assert text in str(refused.value)


def test_a_driver_needs_the_name_of_one():
    with pytest.raises(MalformedPoolError, match="driver: 'gpu_1' is not a DNS subdomain"):
        validate_pool(pool(gpu()), driver="gpu_1")


def test_of_many_problems_the_first_are_named():
    broken = pool(*(gpu(name=f"GPU-{i}") for i in range(20)))
    with pytest.raises(MalformedPoolError, match=f"and {20 - MAX_PROBLEMS_SHOWN} more"):
        validate_pool(broken, driver=DRIVER)
