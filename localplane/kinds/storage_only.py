"""Defines kinds that are stored but have no controller in the plane.

Manifests for a real cluster can be applied unchanged, and a real scheduler can list every kind that it watches.
`NOT_ENFORCED` lists the effects that these objects have in a real cluster.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from dra.model.name_validation import NameFormat
from localplane.kinds import columns
from localplane.kinds.kind import Kind, NoStatusStrategy, PrinterColumn, Strategy
from localplane.objects import Object

NOT_ENFORCED: Final[Mapping[str, str]] = {
    "rbac.authorization.k8s.io": "roles and bindings are stored; every authenticated user may do everything",
    "resourcequotas": "quotas are stored and not enforced",
    "limitranges": "limits are stored and not applied to containers",
    "networkpolicies.networking.k8s.io": "policies are stored; there is no network between pods",
    "services": "services are stored; there is no network between pods",
    "replicationcontrollers": "stored; no controller creates pods",
    "statefulsets.apps": "stored; no controller creates pods",
    "daemonsets.apps": "stored; no controller creates pods",
    "cronjobs.batch": "stored; no controller creates jobs",
    "persistentvolumes": "volumes are stored and neither bound nor mounted",
    "persistentvolumeclaims": "volumes are stored and neither bound nor mounted",
    "storage.k8s.io": "storage classes and drivers are stored and provide nothing",
}
"""Effects that are not enforced, by resource or group."""


class RoleBindingStrategy(NoStatusStrategy):
    """The strategy of RoleBindings and ClusterRoleBindings."""

    def table_cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the cells of ``kubectl get rolebindings``."""
        role, subjects = obj.get("roleRef") or {}, obj.get("subjects") or ()
        accounts = [subject for subject in subjects if subject.get("kind") == "ServiceAccount"]
        return {
            "Role": f"{role.get('kind', '')}/{role.get('name', '')}",
            "Age": columns.age(obj, now),
            "Users": ", ".join(subject["name"] for subject in subjects if subject.get("kind") == "User"),
            "Groups": ", ".join(subject["name"] for subject in subjects if subject.get("kind") == "Group"),
            "ServiceAccounts": ", ".join(f"{subject.get('namespace', '')}/{subject['name']}" for subject in accounts),
        }


class RoleStrategy(NoStatusStrategy):
    """The strategy of Roles and ClusterRoles, whose cell is the creation time, not the age."""

    def table_cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the cells of ``kubectl get roles``."""
        del now
        return {"Created At": obj["metadata"].get("creationTimestamp", "")}


class LimitRangeStrategy(RoleStrategy):
    """The strategy of LimitRanges, with the same cells as Roles."""


class ResourceQuotaStrategy(Strategy):
    """The strategy of ResourceQuotas."""

    def table_cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the cells of ``kubectl get resourcequotas``."""
        status = obj.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        texts = {name: f"{name}: {used.get(name, '0')}/{hard[name]}" for name in sorted(hard)}
        return {
            "Request": ", ".join(text for name, text in texts.items() if not name.startswith("limits.")),
            "Limit": ", ".join(text for name, text in texts.items() if name.startswith("limits.")),
            "Age": columns.age(obj, now),
        }


class NetworkPolicyStrategy(NoStatusStrategy):
    """The strategy of NetworkPolicies."""

    def default(self, obj: Object) -> None:
        """Default policyTypes to Ingress, and to Egress too if there are egress rules."""
        spec = obj.get("spec") or {}
        if spec and not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]

    def table_cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the cells of ``kubectl get networkpolicies``."""
        selector = (obj.get("spec") or {}).get("podSelector")
        return {"Pod-Selector": columns.format_label_selector(selector), "Age": columns.age(obj, now)}


_RBAC: Final = "rbac.authorization.k8s.io"
_ROLE_COLUMNS: Final = (columns.NAME, *columns.strings("Created At"))
_BINDING_COLUMNS: Final = (
    columns.NAME,
    *columns.strings("Role"),
    columns.AGE,
    *columns.wide("Users", "Groups", "ServiceAccounts"),
)


def _kind_without_status(  # noqa: PLR0913 - what a kind is known by
    plural: str,
    name: str,
    *,
    group: str = "",
    namespaced: bool = True,
    short: tuple[str, ...] = (),
    strategy: Strategy | None = None,
    shown: tuple[PrinterColumn, ...] = (),
    naming: NameFormat = NameFormat.SUBDOMAIN,
    generations: bool = False,
) -> Kind:
    return Kind(
        group=group,
        plural=plural,
        name=name,
        namespaced=namespaced,
        short_names=short,
        subresources=(),
        strategy=strategy or NoStatusStrategy(),
        columns=shown,
        name_format=naming,
        has_generation=generations,
    )


_RBAC_KINDS: Final = tuple(
    _kind_without_status(
        plural, name, group=_RBAC, namespaced=namespaced, strategy=strategy, shown=shown, naming=NameFormat.SEGMENT
    )
    for plural, name, namespaced, strategy, shown in (
        ("clusterroles", "ClusterRole", False, RoleStrategy(), _ROLE_COLUMNS),
        ("clusterrolebindings", "ClusterRoleBinding", False, RoleBindingStrategy(), _BINDING_COLUMNS),
        ("roles", "Role", True, RoleStrategy(), _ROLE_COLUMNS),
        ("rolebindings", "RoleBinding", True, RoleBindingStrategy(), _BINDING_COLUMNS),
    )
)
_RESOURCE_QUOTAS: Final = Kind(
    plural="resourcequotas",
    name="ResourceQuota",
    short_names=("quota",),
    has_generation=False,
    strategy=ResourceQuotaStrategy(),
    columns=(columns.NAME, *columns.strings("Request", "Limit"), columns.AGE),
)
_LIMIT_RANGES: Final = Kind(
    plural="limitranges",
    name="LimitRange",
    short_names=("limits",),
    subresources=(),
    has_generation=False,
    strategy=LimitRangeStrategy(),
    columns=(columns.NAME, *columns.strings("Created At")),
)
_NETWORK_POLICIES: Final = Kind(
    group="networking.k8s.io",
    plural="networkpolicies",
    name="NetworkPolicy",
    short_names=("netpol",),
    subresources=(),
    strategy=NetworkPolicyStrategy(),
    columns=(columns.NAME, *columns.strings("Pod-Selector"), columns.AGE),
)
_CRON_JOBS: Final = Kind(group="batch", plural="cronjobs", name="CronJob", short_names=("cj",), categories=("all",))
_STORAGE_KINDS: Final = tuple(
    _kind_without_status(plural, name, group="storage.k8s.io", namespaced=namespaced, short=short)
    for plural, name, namespaced, short in (
        ("storageclasses", "StorageClass", False, ("sc",)),
        ("csinodes", "CSINode", False, ()),
        ("csidrivers", "CSIDriver", False, ()),
        ("csistoragecapacities", "CSIStorageCapacity", True, ()),
        ("volumeattachments", "VolumeAttachment", False, ()),
    )
)
_CORE_KINDS: Final = tuple(
    Kind(plural=plural, name=name, namespaced=namespaced, short_names=short, has_generation=False)
    for plural, name, namespaced, short in (
        ("services", "Service", True, ("svc",)),
        ("replicationcontrollers", "ReplicationController", True, ("rc",)),
        ("persistentvolumes", "PersistentVolume", False, ("pv",)),
        ("persistentvolumeclaims", "PersistentVolumeClaim", True, ("pvc",)),
    )
)
_APPS_KINDS: Final = tuple(
    Kind(group="apps", plural=plural, name=name, short_names=short)
    for plural, name, short in (("statefulsets", "StatefulSet", ("sts",)), ("daemonsets", "DaemonSet", ("ds",)))
)

KINDS: Final = (
    *_RBAC_KINDS,
    _RESOURCE_QUOTAS,
    _LIMIT_RANGES,
    _NETWORK_POLICIES,
    _CRON_JOBS,
    *_STORAGE_KINDS,
    *_CORE_KINDS,
    *_APPS_KINDS,
)
