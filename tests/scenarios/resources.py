"""Where the objects that scenarios use live in the API of the cluster at hand: the paths of their collections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tests.cluster.versions import Kind
from tests.scenarios.features import kubernetes_version

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Resource:
    """One resource of the API."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    def path(self, *, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the path of the collection, of one object in it, or of a part of that object."""
        if self.namespaced is not (namespace is not None) and name is not None:
            raise ValueError(f"{self.plural} {name}: {'needs a' if self.namespaced else 'has no'} namespace")
        root = "/apis" if "/" in self.api_version else "/api"
        within = f"namespaces/{namespace}" if namespace else None
        return "/".join(filter(None, (root, self.api_version, within, self.plural, name, subresource)))


PODS: Final = Resource("v1", "Pod", "pods")
EVENTS: Final = Resource("v1", "Event", "events")
SERVICE_ACCOUNTS: Final = Resource("v1", "ServiceAccount", "serviceaccounts")
NAMESPACES: Final = Resource("v1", "Namespace", "namespaces", namespaced=False)
NODES: Final = Resource("v1", "Node", "nodes", namespaced=False)
JOBS: Final = Resource("batch/v1", "Job", "jobs")
DEPLOYMENTS: Final = Resource("apps/v1", "Deployment", "deployments")
REPLICA_SETS: Final = Resource("apps/v1", "ReplicaSet", "replicasets")
STATEFUL_SETS: Final = Resource("apps/v1", "StatefulSet", "statefulsets")
DAEMON_SETS: Final = Resource("apps/v1", "DaemonSet", "daemonsets")
LEASES: Final = Resource("coordination.k8s.io/v1", "Lease", "leases")
CLAIMS: Final = Resource("resource.k8s.io/v1", "ResourceClaim", "resourceclaims")
CLAIM_TEMPLATES: Final = Resource("resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates")
DEVICE_CLASSES: Final = Resource("resource.k8s.io/v1", "DeviceClass", "deviceclasses", namespaced=False)
RESOURCE_SLICES: Final = Resource("resource.k8s.io/v1", "ResourceSlice", "resourceslices", namespaced=False)
DEVICE_TAINT_RULES: Final = Resource(
    Kind.DEVICE_TAINT_RULE.api_version(kubernetes_version()), "DeviceTaintRule", "devicetaintrules", namespaced=False
)
POD_GROUPS: Final = Resource(Kind.POD_GROUP.api_version(kubernetes_version()), "PodGroup", "podgroups")
DISRUPTION_BUDGETS: Final = Resource("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
RUNTIME_CLASSES: Final = Resource("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", namespaced=False)
PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", namespaced=False)
CLUSTER_ROLES: Final = Resource("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDINGS: Final = Resource(
    "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
)
ROLE_BINDINGS: Final = Resource("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
ADMISSION_POLICIES: Final = Resource(
    "admissionregistration.k8s.io/v1",
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
    namespaced=False,
)
RESERVATIONS: Final = Resource("scheduling.koordinator.sh/v1alpha1", "Reservation", "reservations", namespaced=False)
POD_MIGRATION_JOBS: Final = Resource(
    "scheduling.koordinator.sh/v1alpha1", "PodMigrationJob", "podmigrationjobs", namespaced=False
)
DEVICES: Final = Resource("scheduling.koordinator.sh/v1alpha1", "Device", "devices", namespaced=False)
NODE_METRICS: Final = Resource("slo.koordinator.sh/v1alpha1", "NodeMetric", "nodemetrics", namespaced=False)
CRDS: Final = Resource(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)

COLOCATION_PROFILES: Final = Resource(
    "config.koordinator.sh/v1alpha1", "ClusterColocationProfile", "clustercolocationprofiles", namespaced=False
)
COLOCATION_PARAMETERS: Final = Resource(
    "reserve.dra/v1alpha1", "ColocationProfileParameters", "colocationprofileparameters", namespaced=False
)
LIMIT_RANGES: Final = Resource("v1", "LimitRange", "limitranges")

_ALL: Final = (
    *(PODS, EVENTS, SERVICE_ACCOUNTS, NAMESPACES, NODES, JOBS, LEASES),
    *(DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS),
    *(
        CLAIMS,
        CLAIM_TEMPLATES,
        DEVICE_CLASSES,
        RESOURCE_SLICES,
        DEVICE_TAINT_RULES,
        POD_GROUPS,
        DISRUPTION_BUDGETS,
        RUNTIME_CLASSES,
        PRIORITY_CLASSES,
        CLUSTER_ROLES,
        CLUSTER_ROLE_BINDINGS,
        ROLE_BINDINGS,
        ADMISSION_POLICIES,
        CRDS,
        RESERVATIONS,
        POD_MIGRATION_JOBS,
        DEVICES,
        NODE_METRICS,
        COLOCATION_PROFILES,
        COLOCATION_PARAMETERS,
        LIMIT_RANGES,
    ),
)
_BY_KIND: Final = {(resource.api_version, resource.kind): resource for resource in _ALL}


def of(obj: Mapping[str, Any]) -> Resource:
    """Return the resource that an object belongs to."""
    return _BY_KIND[obj["apiVersion"], obj["kind"]]
