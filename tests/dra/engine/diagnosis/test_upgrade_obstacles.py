"""What stands in the way of Kubernetes 1.38."""

import msgspec
import pytest

from dra.engine.diagnosis.upgrade_obstacles import (
    CAPACITY_REQUESTS_MAX,
    claim_problems,
    is_ahead,
    obstacles_of_claim,
    obstacles_of_slice,
    obstacles_of_template,
    problems,
)
from dra.model.claims import ResourceClaim
from dra.model.slices import ManagedResourceSlice, ResourceSlice
from dra.model.templates import ResourceClaimTemplate
from tests.violations import for_each_case

META = {"namespace": "ml", "name": "c"}


def told_of_claim(content):
    return list(obstacles_of_claim(msgspec.convert(content, ResourceClaim)))


def told_of_slice(content):
    return list(obstacles_of_slice(msgspec.convert(content, ManagedResourceSlice)))


def claim(*, consumed=None, **requests):
    results = [{"device": "d", **({"consumedCapacity": consumed} if consumed else {})}]
    exactly = {"deviceClassName": "gpu", **({"capacity": {"requests": requests}} if requests else {})}
    return {
        "metadata": META,
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        "status": {"allocation": {"devices": {"results": results}}},
    }


def sliced(**device):
    return {
        "metadata": {"name": "s", "managedFields": [{"manager": "driver", "apiVersion": "resource.k8s.io/v1"}]},
        "spec": {"driver": "d.example", "devices": [{"name": "gpu", **device}]},
    }


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param({"metadata": META, "spec": {}}, [], id="empty"),
        pytest.param(claim(consumed={"memory": "1Gi"}, memory="1Gi"), [], id="ordinary"),
        pytest.param(claim(memory="-1"), ["request r asks for a negative amount of memory"], id="negative-request"),
        pytest.param(
            claim(**{"a/b/c": "1"}), ["request r names capacity a/b/c, with more than one slash"], id="two-slashes"
        ),
        pytest.param(
            claim(**{f"c{i}": "1" for i in range(CAPACITY_REQUESTS_MAX + 1)}),
            ["request r names 33 capacities, and 1.38 allows 32"],
            id="many-capacities",
        ),
        pytest.param(claim(memory="nonsense"), [], id="no-quantity"),
    ],
)
def test_claims_and_templates(content, told):
    assert [each.what for each in told_of_claim(content)] == told
    template = msgspec.convert({"metadata": META, "spec": {"spec": content["spec"]}}, ResourceClaimTemplate)
    found = [(str(each.subject), each.what) for each in obstacles_of_template(template)]
    assert found == [("resourceclaimtemplate ml/c", what) for what in told]


def test_alternatives_of_a_request_are_looked_at():
    subs = [{"name": "s", "capacity": {"requests": {"memory": "-1"}}}]
    content = {"metadata": META, "spec": {"devices": {"requests": [{"name": "r", "firstAvailable": subs}]}}}
    assert len(told_of_claim(content)) == 1


def test_a_negative_amount_in_an_allocation_stops_all_pods_with_claims():
    (obstacle,) = told_of_claim(claim(consumed={"memory": "-1Gi", "cores": "0"}))
    assert obstacle.stops_scheduling
    assert (str(obstacle.subject), "negative amount of memory" in obstacle.what) == ("claim ml/c", True)


@for_each_case(
    [
        pytest.param(
            {"attributes": {"a.example/x": {"version": "1.2.3"}}, "capacity": {"m": {"value": "1"}}}, [], id="fine"
        ),
        pytest.param({"attributes": {"a/b/c": {"int": 1}}}, ["the name a/b/c has more than one slash"], id="attribute"),
        pytest.param(
            {"capacity": {"a/b/c": {"value": "1"}}}, ["the name a/b/c has more than one slash"], id="capacity"
        ),
        pytest.param(
            {"attributes": {"x": {"version": f"1.{'9' * 19}.0"}}},
            ["a version in attribute x has a number of more than 18 digits"],
            id="long-version",
        ),
        pytest.param({"attributes": {"x": {"version": f"1.{'9' * 18}.0"}}}, [], id="not-too-long-version"),
        pytest.param({"attributes": {"x": {"version": f"1.0.0-rc{'9' * 19}+{'9' * 19}"}}}, [], id="no-numbers"),
        pytest.param(
            {"nodeSelector": {"nodeSelectorTerms": [{}, {}]}}, ["its nodeSelector has not exactly one term"], id="two"
        ),
        pytest.param({"nodeSelector": {"nodeSelectorTerms": [{}]}}, [], id="one-term"),
    ]
)
def test_slices(device, told):
    expected = [("resourceslice s", f"device gpu of driver d.example: {what}") for what in told]
    assert [(str(each.subject), each.what) for each in told_of_slice(sliced(**device))] == expected


def test_a_driver_that_writes_a_version_that_is_dropped_is_named_once_for_all_its_slices():
    slices = [sliced(), sliced()]
    for number, each in enumerate(slices):
        each["metadata"] |= {"name": f"s{number}"}
        each["metadata"]["managedFields"] = [{"manager": "old-driver", "apiVersion": "resource.k8s.io/v1beta1"}]
    (obstacle,) = {obstacle for each in slices for obstacle in told_of_slice(each)}
    assert str(obstacle.subject) == "driver d.example"
    assert obstacle.what == "old-driver writes resource.k8s.io/v1beta1, which 1.38 drops"


def test_a_slice_without_the_names_of_its_writers_has_its_devices_looked_at():
    (obstacle,) = obstacles_of_slice(msgspec.convert(sliced(attributes={"a/b/c": {"int": 1}}), ResourceSlice))
    assert str(obstacle.subject) == "resourceslice s"


@pytest.mark.parametrize(
    ("server", "ahead"),
    [
        pytest.param("v1.37.2", True, id="before"),
        pytest.param("v1.38.0", False, id="at"),
        pytest.param("v1.39.1-gke.5", False, id="after"),
        pytest.param("", True, id="unknown"),
    ],
)
def test_what_stands_in_the_way_is_told_until_the_upgrade(server, ahead):
    odd = msgspec.convert(claim(consumed={"memory": "-1"}, memory="-1"), ResourceClaim)
    slices = [msgspec.convert(sliced(attributes={"a/b/c": {"int": 1}}), ManagedResourceSlice)]
    told = [
        str(each.code)
        for each in (*claim_problems(odd, server=server), *problems(slices=slices, templates=(), server=server))
    ]
    assert told == ["NegativeConsumedCapacity", *(["UpgradeObstacle"] * 2 if ahead else ())]
    assert is_ahead(server) is ahead
