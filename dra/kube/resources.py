"""Kinds of API objects and their paths.

A path is built from validated names only. Names come from annotations and references that any user may write; a name
such as ``..`` or ``x/status`` would direct a request, with the rights of this process, to an unintended object.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from dra.model.meta import Key

_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_LABEL_PATTERN: Final = re.compile(_LABEL)
_SUBDOMAIN_PATTERN: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_LABEL_MAX: Final = 63
_SUBDOMAIN_MAX: Final = 253


class InvalidNameError(ValueError):
    """A name that no API object can have."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind in one version, as in the paths of the API."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    def __post_init__(self) -> None:
        if self.group:
            _subdomain(self.group, "group")
        _label(self.version, "version")
        _label(self.plural, "plural")

    @property
    def api_version(self) -> str:
        """Return the ``apiVersion`` of the objects of this kind."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def label(self) -> str:
        """Return the group-resource as kubectl writes it: ``jobs.batch``, ``pods``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def describe(self, key: Key) -> str:
        """Return the name of an object in error texts: ``ResourceClaim ml/train``."""
        namespace, name = key
        return f"{self.kind} {namespace}/{name}" if namespace else f"{self.kind} {name}"

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the path of an object, or of the collection when there is no `name`.

        Without a namespace, the path covers all namespaces, which is valid only for reading a collection.
        """
        parts = [group_path(self.group, self.version)]
        if namespace:
            if not self.namespaced:
                raise InvalidNameError(f"{self.label}: namespace {namespace!r} given, but the kind has none")
            parts += ["namespaces", _label(namespace, "namespace")]
        elif name is not None and self.namespaced:
            raise InvalidNameError(f"{self.label} {name!r}: has no namespace")
        parts.append(self.plural)
        if name is not None:
            parts.append(_subdomain(name, "name"))
        if subresource is not None:
            parts.append(_label(subresource, "subresource"))
        return "/".join(parts)


@lru_cache(maxsize=1024)
def group_path(group: str, version: str | None = None) -> str:
    """Return the path of an API group ("" is the core group), or of one version of the group."""
    root = f"/apis/{_subdomain(group, 'group')}" if group else "/api"
    return f"{root}/{_label(version, 'version')}" if version is not None else root


@lru_cache(maxsize=1024)
def _label(text: str, role: str) -> str:
    """Return `text` if it is a DNS-1123 label; else raise `InvalidNameError`."""
    if len(text) > _LABEL_MAX or not _LABEL_PATTERN.fullmatch(text):
        raise InvalidNameError(f"{role} {text[:_SUBDOMAIN_MAX]!r}: not a DNS label")
    return text


def _subdomain(text: str, role: str) -> str:
    """Return `text` if it is a DNS-1123 subdomain; else raise `InvalidNameError`.

    Stricter than the server's rule for a path segment (no ``/``, ``%``, ``.``, ``..``), which a few kinds rely on that
    this project never accesses (``system:node`` of RBAC).
    """
    if len(text) > _SUBDOMAIN_MAX or not _SUBDOMAIN_PATTERN.fullmatch(text):
        raise InvalidNameError(f"{role} {text[:_SUBDOMAIN_MAX]!r}: not a DNS subdomain")
    return text


PODS: Final = Resource("", "v1", "pods", "Pod", namespaced=True)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
SECRETS: Final = Resource("", "v1", "secrets", "Secret", namespaced=True)
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event", namespaced=True)
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", "ReplicaSet", namespaced=True)
STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets", "StatefulSet", namespaced=True)
REPLICATION_CONTROLLERS: Final = Resource("", "v1", "replicationcontrollers", "ReplicationController", namespaced=True)
SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
JOBS: Final = Resource("batch", "v1", "jobs", "Job", namespaced=True)
CLAIMS: Final = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", namespaced=True)
TEMPLATES: Final = Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", namespaced=True)
POD_GROUPS: Final = Resource("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", namespaced=True)
"""PodGroups in the version of Kubernetes 1.37. Kubernetes 1.36 has v1alpha2 instead: replace the version with the one
that discovery finds."""

SLICES: Final = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False)
TAINT_RULES: Final = Resource("resource.k8s.io", "v1", "devicetaintrules", "DeviceTaintRule", namespaced=False)
"""DeviceTaintRules, served by default from Kubernetes 1.37 on; for older servers, take the version from discovery."""

DEVICE_CLASSES: Final = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False)
RESERVATIONS: Final = Resource("scheduling.koordinator.sh", "v1alpha1", "reservations", "Reservation", namespaced=False)
NODE_TOPOLOGIES: Final = Resource(
    "topology.node.k8s.io", "v1alpha1", "noderesourcetopologies", "NodeResourceTopology", namespaced=False
)
DEVICES: Final = Resource("scheduling.koordinator.sh", "v1alpha1", "devices", "Device", namespaced=False)
POD_MIGRATION_JOBS: Final = Resource(
    "scheduling.koordinator.sh", "v1alpha1", "podmigrationjobs", "PodMigrationJob", namespaced=False
)
RESOURCE_QUOTAS: Final = Resource("", "v1", "resourcequotas", "ResourceQuota", namespaced=True)
POD_DISRUPTION_BUDGETS: Final = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
POD_UNAVAILABLE_BUDGETS: Final = Resource(
    "policy.kruise.io", "v1alpha1", "podunavailablebudgets", "PodUnavailableBudget", namespaced=True
)
"""OpenKruise's budgets, which also count pods whose containers restart."""
NODE_METRICS: Final = Resource("slo.koordinator.sh", "v1alpha1", "nodemetrics", "NodeMetric", namespaced=False)
PERSISTENT_VOLUMES: Final = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
PERSISTENT_VOLUME_CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True)
PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
RUNTIME_CLASSES: Final = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
CUSTOM_RESOURCE_DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
SUBJECT_ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
SELF_SUBJECT_ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
COLOCATION_PROFILES: Final = Resource(
    "config.koordinator.sh", "v1alpha1", "clustercolocationprofiles", "ClusterColocationProfile", namespaced=False
)
COLOCATION_PROFILE_PARAMETERS: Final = Resource(
    "reserve.dra", "v1alpha1", "colocationprofileparameters", "ColocationProfileParameters", namespaced=False
)
"""What the admission policy for profiles reads."""
