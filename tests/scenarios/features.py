"""What only some versions of Kubernetes do, and what becomes of us without it.

The scenarios say which of it they need. `test_features` finds out on a real cluster whether a version is as it is
written here, and docs/reference/kubernetes-versions.md shows it to users:

    python -m tests.scenarios.features     writes the table there anew
"""

from __future__ import annotations

import os
import re
import sys
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Final

from dra.model.releases import NEWEST
from tests.cluster import binaries
from tests.cluster.kubectl import kubectl
from tests.cluster.versions import minor
from tests.scenarios.target import Place

EMULATED: Final = NEWEST.traits.version
"""What our own control plane behaves as."""

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "reference" / "kubernetes-versions.md"


class Feature(Enum):
    """Since which minor version of Kubernetes 1, what it is, what happens without it, and in which version it broke."""

    GATE_POLICY = (
        36,
        "the gate is added to pods by a MutatingAdmissionPolicy",
        "write the gate into the pod templates; pods without it start slower, and as safely",
    )
    PRUNED_MIXED_LISTS = (
        36,
        "the stock claim controller prunes lists with entries of other objects than pods",
        "it logs `unsupported ReservedFor entry` and does not change such lists; dra-reserve prunes finished pods",
    )
    CLAIMS_BESIDE_MISSING = (
        36,
        "the stock claim controller makes claims for a pod of which another claim is missing",
        "it waits for the missing one without an Event; dra-reserve does not wait",
    )
    UNBLOCKING_CLAIMS = (
        35,
        "generated claims do not hold up the foreground deletion of their pods",
        "claims of the stock controller do; claims of dra-reserve do not",
    )
    ALLOCATION_TIMESTAMP = (
        36,
        "allocations say when they were made",
        "after a restart of the controller, a claim whose entry is missing stays reserved (`ReservationInDoubt`)",
    )
    BINDING_RIGHT = (
        36,
        "writing a list needs a right of its own, `resourceclaims/binding`",
        "it is granted all the same, and does nothing",
    )
    CONSUMABLE_CAPACITY = (
        36,
        "several claims share the capacity of one device, by default (`DRAConsumableCapacity`)",
        "the CPU driver prepares no devices of many CPUs; publish one device per CPU (`--cpu-devices individual`)",
    )
    EXTENDED_RESOURCES = (
        36,
        "devices serve extended resources of pods, by default (`DRAExtendedResource`)",
        "such pods get no claim",
    )
    DEVICE_TAINTS = (36, "drivers may taint devices, by default", "no pod is evicted from a device")
    NOMINATION = (
        35,
        "the scheduler nominates a node before it binds a pod with claims: two requests a pod",
        "pods join faster",
    )
    PARTLY_ALLOCATED_PODS = (
        34,
        "the scheduler places pods of which one claim is allocated and another is not",
        "they wait until both have been allocated for others (its Score fails: `number of allocations 1 is smaller …`)",
        35,
    )
    TAINT_RULES = (
        36,
        "administrators may taint devices by DeviceTaintRules, with the feature gate `DRADeviceTaintRules`",
        "no taint comes from an administrator",
    )
    TAINT_RULES_BY_DEFAULT = (
        37,
        "the same by default (`resource.k8s.io/v1`)",
        "no taint comes from an administrator, unless the gate is on and `resource.k8s.io/v1beta2` is served",
    )
    POD_GROUPS = (
        36,
        "PodGroups may have claims, with the feature gates `GenericWorkload` and `DRAWorkloadResourceClaims`",
        "their pods are served one by one",
    )

    def __init__(self, since: int, does: str, without: str, broken_in: int | None = None) -> None:
        self.since: Final = since
        self.does: Final = does
        self.without: Final = without
        self.broken_in: Final = broken_in

    def among(self, version: str) -> bool:
        """Tell whether a version such as v1.35.4 has it."""
        return minor(version) >= self.since and minor(version) != self.broken_in


@cache
def kubernetes_version() -> str:
    """Return the version of the cluster that the scenarios run on, such as v1.35.4."""
    if Place.chosen().api:
        return EMULATED
    if Place.chosen() is not Place.EXISTING:
        return binaries.controlplane().version
    told = kubectl("get", "--raw", "/version", kubeconfig=Path(os.environ["KUBECONFIG"]))
    found = re.search(r'"gitVersion": *"([^"]+)"', told)
    assert found is not None, told
    return found[1]


def table() -> str:
    """Return what each version that can be built here does, in Markdown."""
    versions = [program.version for program in reversed(binaries.controlplanes())]
    heads = ["", *(f"1.{minor(version)}" for version in versions), "without it"]
    lines = [heads, ["---", *(":-:" for _ in versions), "---"]]
    for feature in Feature:
        has = ("yes" if feature.among(version) else "–" for version in versions)
        lines.append([feature.does, *has, feature.without])
    numbers = [version.removeprefix("v") for version in versions]
    newer = [number for number in numbers if minor(number) > minor(binaries.DEFAULT)]
    *older, default = [number for number in numbers if number not in newer]
    tried = f"Tried on {', '.join([*older, default])}. `make test-cluster` without VERSION runs {default}, as CI does."
    if newer:
        tried += f"\nNot all scenarios have passed on {', '.join(newer)} yet."
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines) + f"\n{tried}\n"


def page() -> str:
    """Return the page as it should be."""
    return page_with(table(), mark="versions")


def page_with(part: str, *, mark: str) -> str:
    """Return the page with a generated part between ``<!-- mark -->`` and ``<!-- /mark -->``, and all else as it is."""
    begin, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->\n"
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    return before + begin + part + end + rest.partition(end)[2]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE}: written\n")
