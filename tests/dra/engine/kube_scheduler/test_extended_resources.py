"""The claim for extended resources: which class serves a resource, and which container uses which request."""

import msgspec
import pytest

from dra.engine.kube_scheduler.extended_resources import (
    extended_resource_claim,
    resources_by_devices,
    served_resources,
)
from dra.model.device_classes import DeviceClass
from dra.model.scheduling import SchedulerPod

GPU = "example.com/gpu"
SERVED = {GPU: "gpu"}


def device_class(name, resource=None, *, created="2026-01-01T00:00:00Z"):
    spec = {"extendedResourceName": resource} if resource else {}
    return msgspec.convert({"metadata": {"name": name, "creationTimestamp": created}, "spec": spec}, DeviceClass)


def container(name, count, **more):
    return {"name": name, "resources": {"requests": {"cpu": "1", GPU: count}}} | more


def sidecar(name, count):
    return container(name, count, restartPolicy="Always")


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        pytest.param([device_class("a", GPU)], "a", id="one"),
        pytest.param([device_class("a", GPU), device_class("b", GPU, created="2026-01-02T00:00:00Z")], "b", id="newer"),
        pytest.param([device_class("b", GPU), device_class("a", GPU)], "a", id="of-one-age-the-first-name"),
        pytest.param([device_class("a")], None, id="none"),
    ],
)
def test_which_class_serves_a_resource(classes, expected):
    served = served_resources(classes)
    assert served.get(GPU) == expected
    assert served["deviceclass.resource.kubernetes.io/a"] == "a"


@pytest.mark.parametrize(
    ("allocatable", "by_devices"),
    [
        pytest.param({}, {GPU}, id="nothing"),
        pytest.param({GPU: 0}, {GPU}, id="a-device-plugin-without-devices"),
        pytest.param({GPU: 1}, set(), id="a-device-plugin"),
    ],
)
def test_on_which_nodes_devices_serve_it(allocatable, by_devices):
    assert resources_by_devices({GPU: 1, "cpu": 1, "example.com/b": 0}, allocatable, SERVED) == by_devices


@pytest.mark.parametrize(
    ("initial", "containers", "requests", "mappings"),
    [
        pytest.param([], [("a", 2)], {"container-0-request-1": 2}, {"a": ["container-0-request-1"]}, id="one"),
        pytest.param([], [("a", 0)], {}, {}, id="none-requested"),
        pytest.param(
            [("i", 1)],
            [("a", 2)],
            {"container-1-request-1": 2},
            {"a": ["container-1-request-1"], "i": ["container-1-request-1"]},
            id="an-init-container-uses-the-devices-of-a-later-one",
        ),
        pytest.param(
            [("i", 3)],
            [("a", 1)],
            {"container-0-request-1": 2, "container-1-request-1": 1},
            {"a": ["container-1-request-1"], "i": ["container-1-request-1", "container-0-request-1"]},
            id="and-asks-for-the-rest",
        ),
        pytest.param(
            [("i", 2), ("j", 4)],
            [("a", 1)],
            {"container-1-request-1": 3, "container-2-request-1": 1},
            {
                "a": ["container-2-request-1"],
                "i": ["container-2-request-1", "container-1-request-1"],
                "j": ["container-2-request-1", "container-1-request-1"],
            },
            id="init-containers-share-the-largest-rest",
        ),
        pytest.param(
            [("s", 1, "sidecar"), ("i", 1)],
            [("a", 1)],
            {"container-0-request-1": 1, "container-2-request-1": 1},
            {"s": ["container-0-request-1"], "a": ["container-2-request-1"], "i": ["container-2-request-1"]},
            id="a-sidecar-that-started-before-keeps-its-devices",
        ),
    ],
)
def test_which_container_uses_which_request(initial, containers, requests, mappings):
    makers = {2: container, 3: lambda name, count, _: sidecar(name, count)}
    spec = {
        "initContainers": [makers[len(row)](*row) for row in initial],
        "containers": [container(*row) for row in containers],
    }
    pod = msgspec.convert({"metadata": {"name": "p", "namespace": "ml", "uid": "u"}, "spec": spec}, SchedulerPod)
    made = extended_resource_claim(pod, [GPU], SERVED)
    written = made.claim.spec.devices["requests"]
    assert {each["name"]: each["exactly"]["count"] for each in written} == requests
    used = {}
    for mapping in made.mappings:
        used.setdefault(mapping.container_name, []).append(mapping.request_name)
    assert used == mappings
