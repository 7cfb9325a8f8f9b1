"""Asks both allocators, and brings their answers into one form.

An answer is a list for each claim, of (request, driver, pool, device, admin access, shared, consumed capacity,
binding conditions, binding failure conditions, tolerations) with the nodes where the claim can be used; `NO`
where this node does not do, `GIVEN_UP` where kube-scheduler gives up the pod for this attempt, `TOO_LONG` where the
search of `dra.engine.allocator` ended before its end.
"""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from dra.engine.allocator import (
    AllocationFailure,
    AllocatorRelease,
    ConsumedCapacityCollection,
    ResourceSliceTracker,
    UnsatisfiableError,
    allocate,
    allocation_results,
    claim_to_allocate,
)
from dra.engine.devices.allocator_releases import RELEASE_1_37
from dra.engine.devices.ledger import Holder, Ledger, allocated_devices
from dra.model.claims import AllocationResult, ResourceClaim
from dra.model.device_classes import DeviceClass
from dra.model.slices import ResourceSlice

NO: Final = "no"
GIVEN_UP: Final = "given up"
TOO_LONG: Final = "too long"


def upstream(program: Path, questions: Sequence[Any]) -> list[Any]:
    """Return the answers of kube-scheduler's allocator. Raises CalledProcessError."""
    asked = "".join(f"{json.dumps(each)}\n" for each in questions)
    done = subprocess.run([program], input=asked, capture_output=True, text=True, check=True, timeout=600)
    return [_answer(json.loads(line)) for line in done.stdout.splitlines()]


def _answer(found: Any) -> Any:
    if "error" in found:
        return GIVEN_UP
    return NO if found.get("refused") else [form(each) for each in found.get("allocations", ())]


def ours(question: Any, release: AllocatorRelease = RELEASE_1_37) -> Any:
    """Return the answer of `dra.engine.allocator`, as of a release."""
    release = release._replace(fractional=release.fractional or question["fractional"])
    inventory, ledger, shares = ResourceSliceTracker(release), Ledger(), ConsumedCapacityCollection()
    for each in question["slices"]:
        inventory.observe(msgspec.convert(each, ResourceSlice))
    for number, each in enumerate(question["held"]):
        uid = f"held-{number}"
        allocation = msgspec.convert({"devices": {"results": [each]}}, AllocationResult)
        ledger.hold(Holder(kind="claim", key=("ml", uid), uid=uid), allocated_devices(allocation))  # type: ignore[arg-type]
        shares.observe_allocation(uid, allocation)  # type: ignore[arg-type]
    classes = {each["metadata"]["name"]: msgspec.convert(each, DeviceClass) for each in question["classes"]}
    node = question["node"]["metadata"]
    try:
        wanted = [claim_to_allocate(msgspec.convert(each, ResourceClaim), classes) for each in question["claims"]]
    except UnsatisfiableError:
        return GIVEN_UP
    offer = inventory.node_devices(node["name"], node["labels"])
    found = allocate(wanted, node_devices=offer, ledger=ledger, consumed_capacity=shares, allow_binding_conditions=True)
    if isinstance(found, AllocationFailure):
        return GIVEN_UP if found.fatal else TOO_LONG if found.text.startswith("gave up") else NO
    made = allocation_results(wanted, found, node=node["name"], share_id=lambda: "new")
    return [form(msgspec.to_builtins(each)) for each in made]


def form(allocation: Any) -> Any:
    """Return an allocation in the form in which answers are compared."""
    return (
        [
            (
                each["request"],
                each["driver"],
                each["pool"],
                each["device"],
                each.get("adminAccess", False),
                "shareID" in each,
                each.get("consumedCapacity", {}),
                each.get("bindingConditions", []),
                each.get("bindingFailureConditions", []),
                each.get("tolerations", []),
            )
            for each in allocation["devices"]["results"]
        ],
        allocation.get("nodeSelector"),
    )
