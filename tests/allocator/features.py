"""What the allocator of devices does of each feature of DRA, by version of Kubernetes: the one table of it.

    python -m tests.allocator.features     writes the table in docs/reference/kubernetes-versions.md anew

`test_features` compares the defaults of the gates with what the kube-apiservers that are built here say of them.
"""

import sys
from typing import Final, NamedTuple

from tests.scenarios.features import PAGE, page_with

VERSIONS: Final = (35, 36, 37, 38)
"""Minor versions of Kubernetes 1 that are compared."""

ON, OFF, NONE = "on", "off", "–"
"""What a gate is by default; `NONE`: that version does not know it."""


class Feature(NamedTuple):
    """A feature of DRA that may decide which devices fit."""

    what: str
    gates: tuple[str, ...]
    defaults: tuple[str, str, str, str]
    """For each of `VERSIONS`."""

    does: str
    """What the allocator makes of it, where objects have it."""


FEATURES: Final = (
    Feature(
        "requests, selectors, constraints, `allocationMode: All`, 32 devices a claim",
        ("DynamicResourceAllocation",),
        (ON, ON, ON, ON),
        "as kube-scheduler",
    ),
    Feature(
        "admin access",
        ("DRAAdminAccess",),
        (ON, ON, ON, ON),
        "as kube-scheduler: capacity and shared counters are taken all the same",
    ),
    Feature("prioritized lists (`firstAvailable`)", ("DRAPrioritizedList",), (ON, ON, ON, ON), "as kube-scheduler"),
    Feature("taints in ResourceSlices, and tolerations", ("DRADeviceTaints",), (OFF, ON, ON, ON), "as kube-scheduler"),
    Feature("DeviceTaintRules", ("DRADeviceTaintRules",), (OFF, OFF, ON, ON), "as kube-scheduler"),
    Feature(
        "partitionable devices (shared counters, nodes by device)",
        ("DRAPartitionableDevices",),
        (OFF, ON, ON, ON),
        "as kube-scheduler",
    ),
    Feature(
        "consumable capacity (`allowMultipleAllocations`, request policies)",
        ("DRAConsumableCapacity",),
        (OFF, ON, ON, ON),
        "as kube-scheduler, amounts in `consumedCapacity` included",
    ),
    Feature(
        "fractional ranges of request policies",
        ("DRAFractionalCapacityRange",),
        (NONE, NONE, OFF, ON),
        "up to 1.37 in whole numbers, each bound rounded up, as without the gate, which 1.37 has on only "
        "with `--min-compatibility-version=1.37`; in thousandths since 1.38",
    ),
    Feature(
        "binding conditions",
        ("DRADeviceBindingConditions",),
        (OFF, ON, ON, ON),
        "such devices fit, `simulate` takes them as ready; the scheduler of the local plane never allocates them, "
        "since it does not wait for conditions",
    ),
    Feature(
        "list attributes in constraints",
        ("DRAListTypeAttributes",),
        (NONE, OFF, OFF, OFF),
        "as kube-scheduler: `matchAttribute` needs a value in common, `distinctAttribute` none",
    ),
    Feature(
        "node-allocatable resources of devices",
        ("DRANodeAllocatableResources",),
        (NONE, OFF, OFF, OFF),
        "as kube-scheduler: `mapping` and `overhead` of 1.37 and the mappings of 1.36 count beside what the pod asks "
        "for; since 1.38 the overhead of an init container ends with that container, though Reservations count it as "
        "before; a claim with a mapped device is for one pod; limits of the pod as a whole are not compared",
    ),
    Feature(
        "compatibility groups of partitions",
        ("DRADeviceCompatibilityGroups",),
        (NONE, NONE, OFF, OFF),
        "nothing is taken of such pools, as by kube-scheduler without the gate",
    ),
    Feature(
        "derived attributes",
        ("DRADerivedAttributes",),
        (NONE, NONE, OFF, OFF),
        "a claim that has them is not allocated, as by kube-scheduler without the gate",
    ),
    Feature(
        "skipped node operations, types of partitions",
        ("DRAOptionalNodeOperations", "DRAPartitionableDevicesType"),
        (NONE, NONE, OFF, OFF),
        "not looked at: they do not decide which devices fit",
    ),
)


def table() -> str:
    """Return the table in Markdown."""
    lines = [
        ("feature", "gate", *(f"1.{each}" for each in VERSIONS), "the allocator"),
        ("---", "---", *(":-:" for _ in VERSIONS), "---"),
        *((f.what, ", ".join(f"`{gate}`" for gate in f.gates), *f.defaults, f.does) for f in FEATURES),
    ]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def page() -> str:
    """Return the page as it should be."""
    return page_with(table(), mark="allocator")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE}: written\n")
