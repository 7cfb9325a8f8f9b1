"""The kinds that are there from the start."""

from itertools import chain
from typing import Final

from dra.local.kinds import claims, classes, core, events, leases, nodes, pods, priorities, reviews, slices, stored
from dra.local.kinds.kind import Kind
from dra.local.schemas.structures import Dialect

_FAMILIES: Final = (core, nodes, pods, events, leases, priorities, claims, classes, slices, reviews, stored)

_TODO = (
    Kind(group="batch", plural="jobs", name="Job", categories=("all",)),
    Kind(group="apps", plural="deployments", name="Deployment", short_names=("deploy",), categories=("all",)),
    Kind(group="apps", plural="replicasets", name="ReplicaSet", short_names=("rs",), categories=("all",)),
)


def builtin(api: Dialect) -> tuple[Kind, ...]:
    """Return all built-in kinds of an API server."""
    del api
    return tuple(chain.from_iterable(family.KINDS for family in _FAMILIES)) + _TODO


BUILTIN = builtin(Dialect.KEP)
