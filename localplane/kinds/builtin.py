"""Lists the built-in kinds of the server."""

from itertools import chain

from dra.model.releases import NEWEST, Release
from localplane.kinds import (
    access_reviews,
    core,
    deployments,
    device_classes,
    device_taint_rules,
    events,
    jobs,
    leases,
    nodes,
    pod_disruption_budgets,
    pods,
    priority_classes,
    resource_claims,
    resource_slices,
    storage_only,
)
from localplane.kinds.kind import Kind


def builtin_kinds(release: Release = NEWEST) -> tuple[Kind, ...]:
    """Return all built-in kinds of an API server of a release."""
    families = (
        core.KINDS,
        nodes.KINDS,
        pods.pod_kinds(release.traits),
        pod_disruption_budgets.KINDS,
        jobs.KINDS,
        deployments.KINDS,
        events.KINDS,
        leases.KINDS,
        priority_classes.priority_class_kinds(release.traits),
        resource_claims.claim_kinds(release.traits),
        device_classes.KINDS,
        resource_slices.slice_kinds(release.traits),
        device_taint_rules.device_taint_rule_kinds(release.traits),
        access_reviews.KINDS,
        storage_only.KINDS,
    )
    return tuple(chain.from_iterable(families))
