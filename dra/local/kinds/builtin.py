"""The kinds that are there from the start."""

from itertools import chain

from dra.local.kinds import core, events, leases, nodes, priorities, reviews, stored
from dra.local.kinds.kind import Kind
from dra.local.schemas.structures import Dialect

_TODO = (
    Kind(plural="pods", name="Pod", short_names=("po",)),
    Kind(group="batch", plural="jobs", name="Job", categories=("all",)),
    Kind(group="apps", plural="deployments", name="Deployment", short_names=("deploy",), categories=("all",)),
    Kind(group="apps", plural="replicasets", name="ReplicaSet", short_names=("rs",), categories=("all",)),
    Kind(group="resource.k8s.io", plural="resourceclaims", name="ResourceClaim", generations=False),
    Kind(group="resource.k8s.io", plural="resourceclaimtemplates", name="ResourceClaimTemplate", subresources=()),
    Kind(group="resource.k8s.io", plural="deviceclasses", name="DeviceClass", namespaced=False, subresources=()),
    Kind(group="resource.k8s.io", plural="resourceslices", name="ResourceSlice", namespaced=False, subresources=()),
)


def builtin(api: Dialect) -> tuple[Kind, ...]:
    """Return all built-in kinds of an API server."""
    del api
    families = (core.KINDS, nodes.KINDS, events.KINDS, leases.KINDS, priorities.KINDS, reviews.KINDS, stored.KINDS)
    return tuple(chain(*families, _TODO))


BUILTIN = builtin(Dialect.KEP)
