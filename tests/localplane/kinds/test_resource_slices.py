"""ResourceSlices and DeviceClasses, refused as the real server refuses them."""

import pytest

from tests.localplane.kinds.registry_client import RegistryClient, refused
from tests.violations import for_each_case

DRIVER = "gpu.example.com"
PLACES = "`nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection`"
TAINT = {"key": "example.com/broken", "effect": "NoSchedule"}
POLICY = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "8Gi", "step": "1Gi"}}


def a_slice(*devices, **spec):
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": "n1", "devices": list(devices)} | spec
    meta = {"name": "s"}
    found = {key: value for key, value in spec.items() if value is not None}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": meta, "spec": found}


def device(name="gpu-0", **fields):
    return {"name": name} | fields


def offering_values(*values):
    policy = {"default": values[0], "validValues": list(values)}
    return a_slice(device(allowMultipleAllocations=True, capacity={"cores": {"value": "4", "requestPolicy": policy}}))


def attribute(**value):
    return device(attributes={"model": value})


@for_each_case(
    [
        pytest.param(a_slice(device()), [], id="devices-of-a-node"),
        pytest.param(a_slice(nodeName=None, allNodes=True), [], id="devices-of-all-nodes"),
        pytest.param(
            a_slice(nodeName=None),
            [f"spec: Required value: exactly one of {PLACES} is required"],
            id="golden-nowhere",
        ),
        pytest.param(
            a_slice(allNodes=True),
            [
                (
                    'spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of '
                    f"{PLACES} is required, but multiple fields are set"
                ),
            ],
            id="in-two-places",
        ),
        pytest.param(
            a_slice(pool={"name": "n1", "generation": -1, "resourceSliceCount": 0}),
            [
                "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
                "spec.pool.generation: Invalid value: -1: must be greater than or equal to zero",
            ],
            id="pool",
        ),
        pytest.param(a_slice(driver=""), ["spec.driver: Required value"], id="no-driver"),
        pytest.param(
            a_slice(*(device(f"gpu-{i}") for i in range(129))),
            ["spec.devices: Too many: 129: must have at most 128 items"],
            id="129-devices",
        ),
        pytest.param(
            a_slice(device("gpu-64", taints=[TAINT]), *(device(f"gpu-{i}") for i in range(64))),
            ["spec.devices: Too many: 65: must have at most 64 items"],
            id="65-devices-with-a-taint",
        ),
        pytest.param(
            a_slice(device(), device()), ['spec.devices[1]: Duplicate value: "gpu-0"'], id="devices-of-a-name"
        ),
        pytest.param(
            a_slice(attribute()),
            ['spec.devices[0].attributes[model]: Invalid value: "": exactly one value must be specified'],
            id="attribute-without-value",
        ),
        pytest.param(
            a_slice(attribute(version="1.0")),
            [
                (
                    'spec.devices[0].attributes[model].version: Invalid value: "1.0": must be a string compatible with '
                    "semver.org spec 2.0.0"
                ),
            ],
            id="version",
        ),
        pytest.param(
            a_slice(attribute(string="x" * 65)),
            ["spec.devices[0].attributes[model].string: Too long: may not be more than 64 bytes"],
            id="long-attribute",
        ),
        pytest.param(
            a_slice(device(attributes={f"a{i}": {"int": i} for i in range(33)})),
            [
                "spec.devices[0]: Invalid value: 33: the total number of attributes and capacities must not exceed 32",
            ],
            id="33-attributes",
        ),
        pytest.param(
            a_slice(device(taints=[{"key": "a", "effect": "NoWay"}])),
            [
                (
                    'spec.devices[0].taints[0].effect: Unsupported value: "NoWay": supported values: "NoExecute", '
                    '"NoSchedule", "None"'
                ),
            ],
            id="taint",
        ),
        pytest.param(
            a_slice(device(nodeName="n1")),
            [
                (
                    "spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set "
                    "if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
                ),
            ],
            id="place-of-a-device",
        ),
        pytest.param(
            a_slice(device(bindingConditions=["a"])),
            [
                (
                    "spec.devices[0].bindingFailureConditions: Invalid value: null: bindingFailureConditions are "
                    "required to use bindingConditions"
                ),
            ],
            id="binding-conditions",
        ),
        pytest.param(
            a_slice(devices=None, sharedCounters=[{"name": "c"}]),
            ["spec.sharedCounters[0].counters: Required value"],
            id="set-without-counters",
        ),
        pytest.param(
            a_slice(device(capacity={"memory": {"value": "8Gi", "requestPolicy": POLICY}})),
            ["spec.devices[0].capacity[memory].requestPolicy: Forbidden: allowMultipleAllocations must be true"],
            id="policy-of-an-exclusive-device",
        ),
        pytest.param(
            a_slice(
                device(allowMultipleAllocations=True, capacity={"memory": {"value": "8Gi", "requestPolicy": POLICY}})
            ),
            [],
            id="policy-of-a-shared-device",
        ),
        pytest.param(
            a_slice(
                device(
                    allowMultipleAllocations=True,
                    capacity={"memory": {"value": "4Gi", "requestPolicy": POLICY}},
                )
            ),
            [
                (
                    'spec.devices[0].capacity[memory].requestPolicy.validRange.max: Invalid value: "8Gi": max is '
                    "larger than capacity value: 4Gi"
                ),
            ],
            id="policy-above-the-capacity",
        ),
        pytest.param(offering_values("1", "1500m"), [], id="valid-values-that-differ-when-rounded-up"),
        pytest.param(
            offering_values("500m", "1"),
            ['spec.devices[0].capacity[cores].requestPolicy.validValues[1]: Duplicate value: "1"'],
            id="valid-values-that-are-equal-when-rounded-up",
        ),
    ],
)
def test_what_a_slice_may_be(obj, causes):
    assert refused(RegistryClient().create, obj) == causes


def test_driver_pool_and_node_of_a_slice_are_immutable():
    writing = RegistryClient()
    writing.create(a_slice())

    def move(obj):
        obj["spec"]["nodeName"] = "n2"
        obj["spec"]["pool"]["name"] = "n2"

    assert refused(writing.update, a_slice(), move) == [
        'spec.pool.name: Invalid value: "n2": field is immutable',
        'spec.nodeName: Invalid value: "n2": field is immutable',
    ]


def test_a_taint_knows_since_when_it_is():
    made = RegistryClient().create(a_slice(device(taints=[dict(TAINT)])))
    assert made["spec"]["devices"][0]["taints"][0]["timeAdded"] == "2026-11-21T12:00:00Z"


def test_the_line_of_a_slice():
    writing = RegistryClient()
    writing.create(a_slice())
    assert writing.table_cells(a_slice()) == {"Node": "n1", "Driver": DRIVER, "Pool": "n1", "Age": "0s"}


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        pytest.param({"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]}, [], id="selector"),
        pytest.param({"selectors": [{}]}, ["spec.selectors[0].cel: Required value"], id="selector-of-nothing"),
        pytest.param({"extendedResourceName": "example.com/gpu"}, [], id="extended-resource"),
        pytest.param(
            {"extendedResourceName": "cpu"},
            ['spec.extendedResourceName: Invalid value: "cpu": must be a valid extended resource name'],
            id="native-resource",
        ),
    ],
)
def test_what_a_class_may_be(spec, causes):
    obj = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": spec}
    assert refused(RegistryClient().create, obj) == causes
