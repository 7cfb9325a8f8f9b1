"""The kinds that are there from the start."""

from typing import Final

from dra.local.kinds.kind import Kind, WholeStrategy

BUILTIN: Final = (
    Kind(plural="namespaces", name="Namespace", namespaced=False, short_names=("ns",), generations=False),
    Kind(plural="nodes", name="Node", namespaced=False, short_names=("no",), generations=False),
    Kind(plural="pods", name="Pod", short_names=("po",)),
    Kind(plural="configmaps", name="ConfigMap", short_names=("cm",), subresources=(), strategy=WholeStrategy()),
    Kind(plural="secrets", name="Secret", subresources=(), strategy=WholeStrategy()),
    Kind(plural="serviceaccounts", name="ServiceAccount", short_names=("sa",), subresources=()),
    Kind(plural="events", name="Event", short_names=("ev",), subresources=(), strategy=WholeStrategy()),
    Kind(
        group="events.k8s.io",
        plural="events",
        name="Event",
        short_names=("ev",),
        subresources=(),
        strategy=WholeStrategy(),
        storage="events",
    ),
    Kind(group="coordination.k8s.io", plural="leases", name="Lease", subresources=(), strategy=WholeStrategy()),
    Kind(group="batch", plural="jobs", name="Job", categories=("all",)),
    Kind(group="apps", plural="deployments", name="Deployment", short_names=("deploy",), categories=("all",)),
    Kind(group="apps", plural="replicasets", name="ReplicaSet", short_names=("rs",), categories=("all",)),
    Kind(group="resource.k8s.io", plural="resourceclaims", name="ResourceClaim", generations=False),
    Kind(group="resource.k8s.io", plural="resourceclaimtemplates", name="ResourceClaimTemplate", subresources=()),
    Kind(group="resource.k8s.io", plural="deviceclasses", name="DeviceClass", namespaced=False, subresources=()),
    Kind(group="resource.k8s.io", plural="resourceslices", name="ResourceSlice", namespaced=False, subresources=()),
)
