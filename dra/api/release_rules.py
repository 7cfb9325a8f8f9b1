"""The built-in release rules as plain data, so that a process that only reads a cluster needs no pydantic."""

from collections.abc import Mapping
from typing import Final

BUILT_IN_RELEASE_RULES: Final[Mapping[str, str]] = {
    "jobs.batch": "object.status.conditions.exists(c, c.type in ['Complete', 'Failed'] && c.status == 'True')",
    "jobsets.jobset.x-k8s.io": (
        "object.status.conditions.exists(c, c.type in ['Completed', 'Failed'] && c.status == 'True')"
    ),
    "pods": "object.status.phase in ['Succeeded', 'Failed']",
}
"""Resource → CEL on ``object``, for kinds that end by themselves. A Deployment never does: its claim is released by its
owner, or when it is deleted."""
