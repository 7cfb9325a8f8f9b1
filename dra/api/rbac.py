"""The permissions of the controller that deploy/ grants, as data.

An installation uses the manifests, which give the reason for each permission; the preflight check uses this module. A
test compares the two, so that neither can be changed alone.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

import msgspec

from dra.model.workload_types import WORKLOAD_TYPES


class RolePurpose(StrEnum):
    """The purpose of a permission; values are the names of the roles in deploy/."""

    CLAIMS = "dra-reserve-controller"
    WORKLOADS = "dra-reserve-workloads"
    EVICTION = "dra-reserve-eviction"  # configuration: deviceTaintEviction
    GENERATION = "dra-reserve-generation"  # mode replace only
    NODES = "dra-reserve-node-annotations"  # configuration: annotateNodes
    KOORDINATOR = "dra-reserve-koordinator"  # configuration: koordinator
    COLOCATION = "dra-reserve-colocation"  # configuration: colocation
    MIGRATION = "dra-reserve-descheduler"  # of the descheduler, which has an account of its own
    DESCHEDULING = "dra-reserve-descheduler-profiles"  # the same account, if its configuration has profiles


class PolicyRule(msgspec.Struct, frozen=True):
    """One rule of a role, as in RBAC."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()


class Permission(msgspec.Struct, frozen=True, order=True):
    """A permission for a single verb on a single resource, or on an object of that name."""

    group: str
    resource: str
    verb: str
    name: str = ""

    def __str__(self) -> str:
        plural, slash, subresource = self.resource.partition("/")
        kind = f"{plural}.{self.group}" if self.group else plural
        return f"{self.verb} {kind}{slash}{subresource}"


NAMESPACE: Final = "dra-reserve"
SERVICE_ACCOUNT: Final = "dra-reserve-controller"
LEASE_NAME: Final = "dra-reserve-controller"

_DRA: Final = "resource.k8s.io"
_KOORDINATOR: Final = "scheduling.koordinator.sh"

CLUSTER_ROLE_RULES: Final[dict[RolePurpose, tuple[PolicyRule, ...]]] = {
    RolePurpose.CLAIMS: (
        PolicyRule(_DRA, ("resourceclaims",), ("get", "list", "watch", "patch", "update")),
        PolicyRule(_DRA, ("resourceclaims",), ("reserve",)),  # only deploy/policies/guards.yaml checks this verb
        PolicyRule(_DRA, ("resourceclaims/status",), ("patch", "update")),
        PolicyRule(_DRA, ("resourceclaims/binding",), ("patch", "update")),
        PolicyRule("", ("pods",), ("get", "list", "watch", "patch")),
        PolicyRule("", ("nodes",), ("list", "watch")),
        PolicyRule(_DRA, ("resourceslices", "deviceclasses"), ("list",)),
        PolicyRule("events.k8s.io", ("events",), ("create", "patch")),
    ),
    RolePurpose.WORKLOADS: tuple(
        PolicyRule(workload_type.resource.group, (workload_type.resource.resource,), ("get", "list", "watch"))
        for workload_type in WORKLOAD_TYPES
        if workload_type.readable
    ),
    RolePurpose.EVICTION: (
        PolicyRule(_DRA, ("resourceslices", "devicetaintrules"), ("list", "watch")),
        PolicyRule("", ("pods/status",), ("patch",)),
        PolicyRule("", ("pods",), ("delete",)),
    ),
    RolePurpose.GENERATION: (
        PolicyRule(_DRA, ("resourceclaimtemplates",), ("list", "watch")),
        PolicyRule(_DRA, ("resourceclaims",), ("create", "delete")),
        PolicyRule("", ("pods/status",), ("patch",)),
        PolicyRule("scheduling.k8s.io", ("podgroups",), ("get", "list", "watch")),
        PolicyRule("scheduling.k8s.io", ("podgroups/status",), ("patch",)),
    ),
    RolePurpose.NODES: (PolicyRule("", ("nodes",), ("patch",)),),
    RolePurpose.KOORDINATOR: (
        PolicyRule("", ("namespaces",), ("list", "watch")),
        PolicyRule(_DRA, ("resourceslices",), ("list", "watch")),
        PolicyRule(_DRA, ("resourceclaimtemplates",), ("list", "watch", "create", "patch", "delete")),
        PolicyRule("", ("pods/eviction",), ("create",)),
        PolicyRule(_KOORDINATOR, ("reservations",), ("report",)),  # only deploy/koordinator/reports.yaml checks it
    ),
    RolePurpose.COLOCATION: (
        PolicyRule("slo.koordinator.sh", ("nodemetrics",), ("list", "watch", "create", "patch")),
        PolicyRule("", ("nodes/status",), ("patch",)),
    ),
    RolePurpose.MIGRATION: (
        PolicyRule(_KOORDINATOR, ("podmigrationjobs",), ("get", "list", "watch", "patch", "delete")),
        PolicyRule(
            _KOORDINATOR, ("podmigrationjobs",), ("migrate",)
        ),  # only deploy/descheduler/admission.yaml checks it
        PolicyRule(_KOORDINATOR, ("podmigrationjobs/status",), ("patch",)),
        PolicyRule(_KOORDINATOR, ("reservations",), ("get", "list", "watch", "create", "delete")),
        PolicyRule("", ("pods",), ("get", "list", "watch", "patch", "delete")),
        PolicyRule("", ("pods/eviction",), ("create",)),
        PolicyRule("policy", ("poddisruptionbudgets",), ("list", "watch")),
        PolicyRule("policy.kruise.io", ("podunavailablebudgets",), ("list", "watch")),
        PolicyRule("apps", ("replicasets", "statefulsets"), ("get",)),
        PolicyRule("", ("replicationcontrollers",), ("get",)),
        PolicyRule("batch", ("jobs",), ("get",)),
        PolicyRule("apps.kruise.io", ("clonesets/scale", "statefulsets/scale"), ("get",)),
        PolicyRule("scheduling.k8s.io", ("priorityclasses",), ("get",)),
        PolicyRule(_DRA, ("resourceclaims",), ("get", "list")),
        PolicyRule("events.k8s.io", ("events",), ("create", "patch")),
    ),
    RolePurpose.DESCHEDULING: (
        PolicyRule(_KOORDINATOR, ("podmigrationjobs",), ("create",)),
        PolicyRule("", ("nodes", "namespaces", "persistentvolumes", "persistentvolumeclaims"), ("list", "watch")),
        PolicyRule(_DRA, ("resourceclaims", "resourceslices", "deviceclasses"), ("list", "watch")),
        PolicyRule("scheduling.k8s.io", ("priorityclasses",), ("list", "watch")),
        PolicyRule("slo.koordinator.sh", ("nodemetrics",), ("list", "watch")),
    ),
}
"""Rules that apply in all namespaces."""

NAMESPACE_ROLE_RULES: Final = (
    PolicyRule("coordination.k8s.io", ("leases",), ("get", "patch"), (LEASE_NAME,)),
    PolicyRule("coordination.k8s.io", ("leases",), ("create",)),
)
"""Rules that apply in the controller's own namespace."""


def permissions(rules: tuple[PolicyRule, ...]) -> Iterator[Permission]:
    """Yield the single permissions of some rules."""
    for rule in rules:
        for resource in rule.resources:
            for verb in rule.verbs:
                for name in rule.names or ("",):
                    yield Permission(rule.group, resource, verb, name)
