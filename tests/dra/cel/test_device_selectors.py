"""Device selectors, as manifests have them."""

import pytest

from dra.cel.device_selectors import (
    CompiledSelector,
    MalformedSelectorError,
    SelectorError,
    compile_selector,
    device_input,
)
from dra.model.slices import Device
from tests.violations import for_each_case

GPU = device_input(
    "gpu.example.com",
    Device(
        name="gpu-0",
        attributes={
            "driverVersion": {"version": "1.3.0"},
            "model": {"string": "H200"},
            "index": {"int": 3},
            "healthy": {"bool": True},
            "other.org/rack": {"string": "r7"},
            "broken": {"version": "new"},
            "links": {"strings": ["a", "b"]},
        },
        capacity={"memory": {"value": "80Gi"}, "odd": {"value": "much"}},
    ),
)


@for_each_case(
    [
        ('device.driver == "gpu.example.com"', True),
        ('device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0', True),
        ('device.capacity["gpu.example.com"].memory.isLessThan(quantity("81919Mi"))', False),
        ('device.attributes["gpu.example.com"].driverVersion.isGreaterThan(semver("1.2.3"))', True),
        ('device.attributes["gpu.example.com"].model.matches("^H[0-9]+$")', True),
        ('device.attributes["gpu.example.com"].index in [1, 2]', False),
        ('device.attributes["gpu.example.com"].healthy', True),
        ('device.attributes["other.org"].rack == "r7"', True),
        ('has(device.attributes["nobody.org"].rack)', False),
        ('"b" in device.attributes["gpu.example.com"].links', True),
        ('has(device.attributes["gpu.example.com"].broken)', False),
        ('has(device.capacity["gpu.example.com"].odd)', False),
        ('device.attributes["gpu.example.com"].?missing.orValue(1) == 1', True),
        ("device.allowMultipleAllocations", False),
    ]
)
def test_a_selector_matches(expression, answer):
    assert CompiledSelector(expression).evaluate(GPU) is answer


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ('device.attributes["gpu.example.com"].missing == 1', "no such key: missing"),
        ('device.capacity["gpu.example.com"].memory.compareTo(semver("1.0.0")) > 0', "no such overload"),
        ('device.attributes["gpu.example.com"].index', "3 is not a bool"),
    ],
)
def test_what_cannot_be_told_is_an_error(expression, text):
    with pytest.raises(SelectorError, match=text):
        CompiledSelector(expression).evaluate(GPU)


@pytest.mark.parametrize("expression", ["device.", "'yes'", "nothing == 1"])
def test_what_is_no_question_is_refused(expression):
    with pytest.raises(MalformedSelectorError):
        CompiledSelector(expression)


def test_an_expression_is_compiled_once():
    assert compile_selector("true") is compile_selector("true")
    assert repr(compile_selector("true")) == "CompiledSelector('true')"


def test_a_selector_over_the_budget_is_an_error_of_the_device_and_no_trace_back():
    many = "[" + ",".join(["1"] * 40) + "]"
    greedy = CompiledSelector(f"{many}.all(a, {many}.all(b, {many}.all(c, true)))")
    with pytest.raises(SelectorError, match="more than 10,000 iterations"):
        greedy.evaluate(device_input("gpu.example.com", Device(name="gpu-0")))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"string": ["a"]}, id="a-list-for-a-text"),
        pytest.param({"strings": "a"}, id="a-text-for-a-list"),
        pytest.param({"version": ["1.0.0"]}, id="a-list-for-a-version"),
        pytest.param({"versions": 1}, id="a-number-for-versions"),
        pytest.param({"string": {"a": {}}}, id="a-map"),
        pytest.param({"capacity": 3}, id="no-type"),
    ],
)
def test_an_attribute_that_no_api_server_holds_is_none(value):
    """Files are not validated, and what is nested deep enough would end the process."""
    found = device_input("gpu.example.com", Device(name="gpu-0", attributes={"a": value}))
    assert found["attributes"].get("gpu.example.com", {}).get("a") is None


def test_a_selector_is_no_longer_than_an_api_server_takes():
    with pytest.raises(MalformedSelectorError, match="characters; 10240 are allowed"):
        CompiledSelector(" " * 11_000 + "true")
