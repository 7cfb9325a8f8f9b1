"""Rows of tables about one search: devices, what others have of them, claims, and what these get.

The tables `test_pools`, `test_requests`, `test_constraints`, `test_sharing` and `test_partitions` tell facts that the
table tests of kube-scheduler's allocator tell, too (k8s.io/dynamic-resource-allocation/structured of 1.36.3). Rows of
which 1.37 says otherwise are as 1.37 has them, and say so; what 1.38 does otherwise is in `test_releases`. `make
allocator` asks the allocators of both.
"""

from typing import Any, NamedTuple

from dra.engine.allocator import (
    AllocationFailure,
    ConsumedCapacityCollection,
    allocate,
    allocation_results,
    claim_to_allocate,
)
from dra.engine.devices.allocator_releases import RELEASE_1_37, AllocatorRelease
from dra.engine.devices.ledger import Holder, Ledger, allocated_devices
from dra.model.claims import AllocationResult, DeviceAllocationResult, DeviceRequestAllocationResult
from dra.model.nodes import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dra.model.slices import Device
from tests.dra.engine.allocator import strategies

NO = "cannot allocate all claims"
DRIVER = strategies.DRIVER


class Row(NamedTuple):
    """One search on the node `worlds.NODE`, in zone a."""

    slices: list[Any]
    claims: list[Any]
    expected: Any
    """For each claim its devices as `shown`, or the text of the refusal."""

    held: tuple[DeviceRequestAllocationResult, ...] = ()
    classes: dict[str, Any] = strategies.CLASSES
    release: AllocatorRelease = RELEASE_1_37


def outcome(row: Row) -> Any:
    """Return what the claims of a row get, or why they get nothing."""
    ledger, shares = Ledger(), ConsumedCapacityCollection()
    for number, each in enumerate(row.held):
        allocation = AllocationResult(devices=DeviceAllocationResult(results=[each]))
        uid = f"held-{number}"
        ledger.hold(Holder(kind="claim", key=("ml", uid), uid=uid), allocated_devices(allocation))
        shares.observe_allocation(uid, allocation)
    wanted = [claim_to_allocate(each, row.classes) for each in row.claims]
    offer = strategies.inventory(*row.slices, release=row.release).node_devices(strategies.NODE, {"zone": "a"})
    solution = allocate(
        wanted, node_devices=offer, ledger=ledger, consumed_capacity=shares, allow_binding_conditions=True
    )
    if isinstance(solution, AllocationFailure):
        return solution.text
    made = allocation_results(wanted, solution, node=strategies.NODE, share_id=lambda: "new")
    return [[shown(each) for each in allocation.devices.results or ()] for allocation in made]


def shown(result: DeviceRequestAllocationResult) -> str:
    """Return ``request=device``, with the pool unless it is p, and what a share takes."""
    device = result.device if result.pool == "p" else f"{result.pool}/{result.device}"
    taken = " ".join(f"{name}:{amount}" for name, amount in sorted((result.consumed_capacity or {}).items()))
    words = [
        f"{result.request}={device}",
        taken,
        "share" if result.share_id else "",
        "admin" * bool(result.admin_access),
    ]
    return " ".join(word for word in words if word)


def whole(device: str, pool: str = "p", **fields: Any) -> DeviceRequestAllocationResult:
    """Return a device that another claim has."""
    return DeviceRequestAllocationResult(request="r", driver=DRIVER, pool=pool, device=device, **fields)


def share(device: str, **taken: str) -> DeviceRequestAllocationResult:
    """Return a share of a device that another claim has."""
    return whole(device, share_id="theirs", consumed_capacity=taken or None)


def shared(name: str, *, policy: dict[str, Any] | None = None, draws: dict[str, str] | None = None, **capacity: str):
    """Return a device that several requests may have a share of."""
    return sized(name, policy=policy, draws=draws, allow_multiple_allocations=True, **capacity)


def sized(name: str, *, policy=None, draws=None, allow_multiple_allocations=False, attributes=None, **capacity: str):
    """Return a device with capacity, of which requests get what a policy says."""
    values = {key: {"value": value, **({"requestPolicy": policy} if policy else {})} for key, value in capacity.items()}
    return Device(
        name=name,
        attributes=attributes,
        capacity=values or None,
        allow_multiple_allocations=allow_multiple_allocations,
        consumes_counters=draws and [consumes(**draws)],
    )


def consumes(counters_: str = "set", **amounts: str) -> dict[str, Any]:
    """Return what a device draws from a counter set."""
    return {"counterSet": counters_, "counters": {name: {"value": value} for name, value in amounts.items()}}


def counters(name: str = "set", **amounts: str) -> dict[str, Any]:
    """Return a counter set of a pool."""
    return {"name": name, "counters": {key: {"value": value} for key, value in amounts.items()}}


def partitioned(*devices: Device, sets: list[dict[str, Any]], pool: str = "p", **place: Any) -> list[Any]:
    """Return the two slices of a pool of partitions."""
    place = place or {"node_name": strategies.NODE}
    return [
        strategies.slice_of(*devices, name=f"{pool}-devices", pool=pool, count=2, **place),
        strategies.slice_of(name=f"{pool}-counters", pool=pool, count=2, shared_counters=sets, **place),
    ]


def asking(amount: str | None = None, name: str = "r", **fields: Any) -> dict[str, Any]:
    """Return a request for so much of a device's memory."""
    capacity = {} if amount is None else {"capacity": {"requests": {"memory": amount}}}
    return strategies.exactly(name, **capacity, **fields)


def cel(expression: str) -> list[dict[str, Any]]:
    """Return selectors of a request."""
    return [{"cel": {"expression": expression}}]


def where(**attributes: Any) -> list[dict[str, Any]]:
    """Return selectors of a request for devices with these attributes."""
    own = f'device.attributes["{DRIVER}"]'
    return cel(" && ".join(f'has({own}.{key}) && {own}.{key} == "{value}"' for key, value in attributes.items()))


def zone(value: str) -> NodeSelector:
    """Return a selector for the nodes of a zone."""
    requirement = NodeSelectorRequirement(key="zone", operator="In", values=[value])
    return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=[requirement])])
