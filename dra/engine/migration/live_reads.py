"""What only live reads and writes show of the objects of one job: no watch repeats it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from dra.engine.instants import Instant, WallTime
from dra.engine.migration.view import ClaimReach, MigrationPod
from dra.model.meta import Uid


class LookedAtPod(NamedTuple):
    """A pod as a live read shows it, with its whole content."""

    pod: MigrationPod
    content: dict[str, Any]


class LiveReads(msgspec.Struct, gc=False):
    """The results of live reads and writes for one job, which no watch repeats."""

    pod: MigrationPod | None = None
    """A pod that the watch does not show, and when it was read."""
    pod_read_at: Instant = 0.0
    pod_gone: bool = False
    pod_template: dict[str, Any] | None = None
    claims: tuple[ClaimReach, ...] = ()
    reservation_gone: bool = False
    bound_pod: MigrationPod | None = None
    bound_pod_read_at: Instant = 0.0
    bound_pod_gone: bool = False
    create_error: str = ""
    evict_error: str = ""
    evict_failed_at: WallTime = 0.0
    evicted: Uid = Uid("")
    eviction_turn: Instant | None = None
    """When the next eviction may happen, by the limit on evictions per second; None if none is planned."""


def template_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata and the spec of a pod, without the bookkeeping of field managers."""
    metadata = {key: value for key, value in content["metadata"].items() if key != "managedFields"}
    return {"metadata": metadata, "spec": content.get("spec")}
