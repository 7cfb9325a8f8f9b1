"""The kinds that are there from the start."""

from itertools import chain

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
    taint_rules,
)
from dra.local.kinds.kind import Kind
from dra.local.schemas.releases import NEWEST, Release


def builtin(release: Release = NEWEST) -> tuple[Kind, ...]:
    """Return all built-in kinds of an API server of a version."""
    families = (
        core.KINDS,
        nodes.KINDS,
        pods.KINDS,
        jobs.KINDS,
        deployments.KINDS,
        events.KINDS,
        leases.KINDS,
        priorities.KINDS,
        claims.kinds(release.traits),
        classes.KINDS,
        slices.kinds(release.traits),
        taint_rules.kinds(release.traits),
        reviews.KINDS,
        stored.KINDS,
    )
    return tuple(chain.from_iterable(families))


BUILTIN = builtin()
