"""The kinds that are there from the start."""

from itertools import chain
from typing import Final

from dra.local.kinds import (
    claims,
    classes,
    core,
    deployments,
    events,
    jobs,
    leases,
    nodes,
    pods,
    priorities,
    reviews,
    slices,
    stored,
)
from dra.local.kinds.kind import Kind
from dra.local.schemas.structures import Dialect

_FAMILIES: Final = (
    core,
    nodes,
    pods,
    jobs,
    deployments,
    events,
    leases,
    priorities,
    claims,
    classes,
    slices,
    reviews,
    stored,
)


def builtin(api: Dialect) -> tuple[Kind, ...]:
    """Return all built-in kinds of an API server."""
    del api
    return tuple(chain.from_iterable(family.KINDS for family in _FAMILIES))


BUILTIN = builtin(Dialect.KEP)
