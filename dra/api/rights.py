"""What the controller may have to do with the API: the rights that deploy/ grants, as data.

The manifests are what an installation gets, with the reason for each right beside it; this is what a check asks for.
A test compares the two, so that neither can be changed alone.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

import msgspec


class Purpose(StrEnum):
    """What a right is for; values are the names of the roles in deploy/."""

    CLAIMS = "dra-reserve-controller"
    WORKLOADS = "dra-reserve-workloads"
    EVICTION = "dra-reserve-eviction"  # configuration: deviceTaintEviction
    GENERATION = "dra-reserve-generation"  # mode replace only


class Rule(msgspec.Struct, frozen=True):
    """One rule of a role."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()


class Right(msgspec.Struct, frozen=True, order=True):
    """One thing that somebody may do."""

    group: str
    resource: str
    verb: str
    name: str = ""

    def __str__(self) -> str:
        plural, slash, subresource = self.resource.partition("/")
        kind = f"{plural}.{self.group}" if self.group else plural
        return f"{self.verb} {kind}{slash}{subresource}"


NAMESPACE: Final = "dra-reserve"
ACCOUNT: Final = "dra-reserve-controller"
LEASE: Final = "dra-reserve-controller"

_DRA: Final = "resource.k8s.io"

CLUSTER: Final[dict[Purpose, tuple[Rule, ...]]] = {
    Purpose.CLAIMS: (
        Rule(_DRA, ("resourceclaims",), ("get", "list", "watch", "patch", "update")),
        Rule(_DRA, ("resourceclaims",), ("reserve",)),  # asked for by deploy/policies/guards.yaml alone
        Rule(_DRA, ("resourceclaims/status",), ("patch", "update")),
        Rule(_DRA, ("resourceclaims/binding",), ("patch", "update")),
        Rule("", ("pods",), ("get", "list", "watch", "patch")),
        Rule("", ("nodes",), ("list", "watch")),
        Rule(_DRA, ("resourceslices", "deviceclasses"), ("list",)),
        Rule("events.k8s.io", ("events",), ("create", "patch")),
    ),
    Purpose.WORKLOADS: (
        Rule("batch", ("jobs",), ("get", "list", "watch")),
        Rule("jobset.x-k8s.io", ("jobsets",), ("get", "list", "watch")),
        Rule("apps", ("deployments", "statefulsets", "replicasets"), ("get", "list", "watch")),
    ),
    Purpose.EVICTION: (
        Rule(_DRA, ("resourceslices", "devicetaintrules"), ("list", "watch")),
        Rule("", ("pods/status",), ("patch",)),
        Rule("", ("pods",), ("delete",)),
    ),
    Purpose.GENERATION: (
        Rule(_DRA, ("resourceclaimtemplates",), ("list", "watch")),
        Rule(_DRA, ("resourceclaims",), ("create", "delete")),
        Rule("", ("pods/status",), ("patch",)),
        Rule("scheduling.k8s.io", ("podgroups",), ("get", "list", "watch")),
        Rule("scheduling.k8s.io", ("podgroups/status",), ("patch",)),
    ),
}
"""In all namespaces."""

OWN_NAMESPACE: Final = (
    Rule("coordination.k8s.io", ("leases",), ("get", "patch"), (LEASE,)),
    Rule("coordination.k8s.io", ("leases",), ("create",)),
)
"""In the controller's own namespace."""


def rights(rules: tuple[Rule, ...]) -> Iterator[Right]:
    """Yield the single rights of some rules."""
    for rule in rules:
        for resource in rule.resources:
            for verb in rule.verbs:
                for name in rule.names or ("",):
                    yield Right(rule.group, resource, verb, name)
