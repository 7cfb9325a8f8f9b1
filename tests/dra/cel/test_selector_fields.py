"""What selectors read of a device, judged by the selectors themselves."""

from hypothesis import given
from hypothesis import strategies as st

from dra.cel import device_selectors
from dra.cel.device_selectors import CompiledSelector, SelectorError, device_input
from dra.cel.selector_fields import SelectorField, fields_read
from dra.model.slices import Device
from tests.violations import for_each_case

DRIVER = "gpu.example.com"


@for_each_case(
    [
        ("true", set()),
        ('device.driver == "gpu.example.com"', {SelectorField("driver")}),
        ("device.allowMultipleAllocations", {SelectorField("allowMultipleAllocations")}),
        ('device.attributes["a.b"].model == "x"', {SelectorField("attributes", "a.b", "model")}),
        ("device . attributes [ 'a.b' ] . model == 'x'", {SelectorField("attributes", "a.b", "model")}),
        ('has(device.capacity["a.b"].memory)', {SelectorField("capacity", "a.b", "memory")}),
        ('device.capacity["a.b"].memory.isLessThan(quantity("1Gi"))', {SelectorField("capacity", "a.b", "memory")}),
        ('device.attributes["a.b"]["model"] == "x"', {SelectorField("attributes", "a.b")}),
        ('"model" in device.attributes["a.b"]', {SelectorField("attributes", "a.b")}),
        ('device.attributes["a.b"].?model.orValue(1) == 1', {SelectorField("attributes", "a.b")}),
        ('device.attributes["a.b"].exists(k, k == "x")', {SelectorField("attributes", "a.b")}),
        ('"device" == device.driver', {SelectorField("driver")}),
        ("""'"' == device.driver || "'device'" == "x" """, {SelectorField("driver")}),
    ]
)
def test_what_is_spelled_out_is_read(expression, read):
    CompiledSelector(expression)
    assert fields_read(expression) == read


@for_each_case(
    [
        'device["driver"] == "x"',
        'device.attributes["a" + ".b"].model == "x"',
        "size(device.attributes) > 1",
        '"a.b" in device.attributes',
        'device.attributes.exists(d, d == "a.b")',
        '[device].all(d, d.driver == "x")',
        "[1].all(device, device == 1)",
        'device.attributes["a\\u002eb"].model == "x"',
        'device.driver == "https://example.com"',
        'device.driver == """a"""',
    ]
)
def test_of_all_else_it_is_not_told(expression):
    CompiledSelector(expression)
    assert fields_read(expression) is None


EXPRESSIONS = (
    'device.driver == "gpu.example.com"',
    "device.allowMultipleAllocations",
    'device.attributes["gpu.example.com"].model == "H200"',
    'device.attributes["other.org"].model == "H200"',
    'has(device.attributes["other.org"].model)',
    'has(device.attributes["gpu.example.com"].model) && device.attributes["gpu.example.com"].index in [1, 2]',
    'device.attributes["gpu.example.com"].?index.orValue(1) == 1',
    'device.attributes["gpu.example.com"].exists(k, k == "index")',
    'device.attributes["Upper.org"].model == "H200"',
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0',
    'device.attributes["gpu.example.com"].version.isGreaterThan(semver("1.2.3"))',
    'device.attributes.exists(d, d == "other.org")',
)
VALUES = st.sampled_from(
    [{"string": "H200"}, {"string": "H100"}, {"int": 1}, {"int": 3}, {"version": "1.3.0"}, {"version": "new"}, {}]
)
NAMES = ["model", "gpu.example.com/model", "other.org/model", "Upper.org/model", "index", "version", "uuid"]
DEVICES = st.builds(
    Device,
    name=st.sampled_from(["gpu-0", "gpu-1"]),
    attributes=st.none() | st.dictionaries(st.sampled_from(NAMES), VALUES),
    capacity=st.none() | st.dictionaries(st.just("memory"), st.sampled_from([{"value": "80Gi"}, {"value": "much"}])),
    allow_multiple_allocations=st.booleans(),
)


@for_each_case(EXPRESSIONS)
def test_devices_that_cannot_be_told_apart_have_one_answer(expression):
    remembering, asked = CompiledSelector(expression), CompiledSelector(expression)

    @given(st.sampled_from([DRIVER, "other.org"]), DEVICES)
    def alike(driver, device):
        def seen():
            return device_input(driver, device)

        assert answer(lambda: remembering.device_matches(driver, device, seen)) == answer(
            lambda: asked.evaluate(seen())
        )

    alike()


def answer(ask):
    try:
        return ask()
    except SelectorError as error:
        return str(error)


def test_a_thousand_devices_of_a_kind_are_asked_about_once():
    found = CompiledSelector('device.attributes["gpu.example.com"].model == "H200"')
    looked = []
    for number in range(1000):
        device = Device(
            name=f"gpu-{number}", attributes={"model": {"string": "H200"}, "uuid": {"string": f"GPU-{number}"}}
        )
        assert found.device_matches(
            DRIVER, device, lambda device=device: looked.append(device) or device_input(DRIVER, device)
        )
    assert len(looked) == 1


def test_a_selector_remembers_a_bounded_number_of_answers():
    found = CompiledSelector('device.attributes["gpu.example.com"].uuid != ""')
    for number in range(2 * device_selectors.RESULT_CACHE_SIZE + 1):
        device = Device(attributes={"uuid": {"string": f"GPU-{number}"}})
        found.device_matches(DRIVER, device, lambda device=device: device_input(DRIVER, device))
        assert len(found._results) <= device_selectors.RESULT_CACHE_SIZE
