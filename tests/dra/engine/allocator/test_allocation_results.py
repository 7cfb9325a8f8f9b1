"""Allocations as they are written."""

import msgspec

from dra.engine.allocator import ConsumedCapacityCollection, allocate, allocation_results
from dra.model.slices import Device
from tests.dra.engine.allocator.strategies import (
    DRIVER,
    NODE,
    device,
    exactly,
    first_of,
    inventory,
    ledger,
    slice_of,
    wanted,
)
from tests.dra.engine.allocator.test_resource_slice_tracker import zone

OPAQUE = {"opaque": {"driver": DRIVER, "parameters": {"x": 1}}}


def written(claim, *slices, conditional=False):
    offer = inventory(*slices).node_devices(NODE, {"zone": "a"})
    solution = allocate(
        [claim],
        node_devices=offer,
        ledger=ledger(),
        consumed_capacity=ConsumedCapacityCollection(),
        allow_binding_conditions=conditional,
    )
    [result] = allocation_results([claim], solution, node=NODE, share_id=lambda: "share-1")
    return msgspec.to_builtins(result)


def test_a_device_of_the_node_binds_the_claim_to_it():
    found = written(wanted(exactly()), slice_of(device("d")))

    assert found == {
        "devices": {"results": [{"request": "r", "driver": DRIVER, "pool": "p", "device": "d"}]},
        "nodeSelector": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [NODE]}]}]
        },
    }


def test_devices_for_many_nodes_join_their_selectors():
    one, other = (
        slice_of(device("d"), node_selector=zone("a")),
        slice_of(device("e"), name="t", pool="q", all_nodes=True),
    )

    both = written(wanted(exactly(count=2)), one, other)
    assert both["nodeSelector"]["nodeSelectorTerms"] == [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    ]
    assert "nodeSelector" not in written(wanted(exactly()), other)


def test_the_configuration_of_classes_comes_before_the_claims():
    config = [OPAQUE, OPAQUE | {"requests": ["a"]}, OPAQUE | {"requests": ["b"]}]
    claim = wanted(first_of("a", exactly("x", cls="red", count=9), exactly("y", cls="red")), config=config)

    assert written(claim, slice_of(device("d", color="red")))["devices"]["config"] == [
        {"source": "FromClass", "opaque": {"driver": DRIVER, "parameters": {"mode": "fast"}}},
        {"source": "FromClaim", **OPAQUE},
        {"source": "FromClaim", **OPAQUE},
    ]


def test_admin_access_and_tolerations_are_told():
    tolerations = [{"key": "k"}, {"operator": "Exists", "effect": "NoSchedule"}]
    claim = wanted(exactly(adminAccess=True, tolerations=tolerations))

    [result] = written(claim, slice_of(device("d")))["devices"]["results"]
    assert result["adminAccess"] is True
    assert result["tolerations"] == [{"key": "k", "operator": "Equal"}, {"operator": "Exists", "effect": "NoSchedule"}]


def test_a_part_of_a_device_has_an_id_and_an_amount():
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "2Gi"}}
    shared = Device(
        name="d", capacity={"memory": {"value": "40Gi", "requestPolicy": policy}}, allow_multiple_allocations=True
    )

    [result] = written(wanted(exactly(capacity={"requests": {"memory": "4Gi"}})), slice_of(shared))["devices"][
        "results"
    ]
    assert (result["shareID"], result["consumedCapacity"]) == ("share-1", {"memory": "5Gi"})
