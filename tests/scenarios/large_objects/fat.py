"""Objects that a tenant makes as large as an API server stores, of things that take much more once decoded."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.scenarios import objects
from tests.scenarios.api import Json
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import (
    CLAIM_TEMPLATES,
    CLAIMS,
    JOBS,
    POD_GROUPS,
    POD_MIGRATION_JOBS,
    PODS,
    RESERVATIONS,
    Resource,
)

LABELS: Final = {format(n, "x"): "" for n in range(8_000)}
"""Labels that take a megabyte once decoded. A hundred thousand fit, but an API server needs half a minute for each."""

VALUES: Final = 100_000
"""Number of the values of an affinity: 800 KiB, and six megabytes once decoded."""

BRACES: Final = [{}] * 3380
"""Ten kilobytes, the maximum of parameters, which take 216 KiB once decoded."""

PARAMETERS: Final = {"x": BRACES}
ENTRIES: Final = 32
"""Maximum number of entries of parameters in a claim."""


def _count(usual: int) -> int:
    """Return how many objects of a kind are created, LARGE_OBJECTS of the environment if that is set."""
    return int(os.environ.get("LARGE_OBJECTS") or usual)


EMPTY: Final = min(150_000, 15_000_000 // _count(12))
"""Empty objects in a free-form part: 600 KB, and 20 times as much once decoded. An API server keeps them decoded, too:
for 500 objects of 600 KB, that of 1.37 needed more than 23 GiB, so that 500 have 30,000 empty objects each."""


def parameters(driver: str, *, entries: int = ENTRIES) -> list[Json]:
    """Return entries for ``config`` of a claim."""
    return [{"opaque": {"driver": driver, "parameters": PARAMETERS}}] * entries


def claim_spec(driver: str) -> Json:
    """Return the spec of a claim with as many parameters as fit."""
    request = {"name": "d", "exactly": {"deviceClassName": "nobody.example.com"}}
    return {"devices": {"requests": [request], "config": parameters(driver)}}


def claim(name: str) -> Json:
    """Return a ResourceClaim with 320 KiB of parameters."""
    metadata = {"name": name, "annotations": {objects.RESERVED_FOR: "jobs.batch/none"}}
    return {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.kind,
        "metadata": metadata,
        "spec": claim_spec("x.example.com"),
    }


def template(name: str) -> Json:
    """Return a ResourceClaimTemplate with 320 KiB of parameters."""
    return {
        "apiVersion": CLAIM_TEMPLATES.api_version,
        "kind": CLAIM_TEMPLATES.kind,
        "metadata": {"name": name},
        "spec": {"spec": claim_spec("x.example.com")},
    }


def labelled_pod(name: str) -> Json:
    """Return a gated pod with thousands of labels."""
    made = objects.pod(name, PodShape(claim="none", gated=True))
    made["metadata"]["labels"] = LABELS
    return made


def affine_pod(name: str) -> Json:
    """Return a gated pod with a hundred thousand values in its affinity."""
    made = objects.pod(name, PodShape(claim="none", gated=True))
    term = {"matchExpressions": [{"key": "k", "operator": "In", "values": [format(n, "x") for n in range(VALUES)]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    made["spec"]["affinity"] = {"nodeAffinity": required}
    return made


def batch_job(name: str) -> Json:
    """Return a suspended Job with thousands of labels."""
    container = {"name": "a", "image": "b"}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    metadata = {"name": name, "labels": LABELS}
    spec = {"suspend": True, "template": pod}
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": metadata, "spec": spec}


def pod_group(name: str) -> Json:
    """Return a PodGroup with thousands of labels."""
    metadata = {"name": name, "labels": LABELS}
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    return {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind, "metadata": metadata, "spec": spec}


def _pod_spec() -> Json:
    container = {"name": "c", "image": "c", "resources": {"requests": {"cpu": "1"}}}
    return {"schedulerName": "none", "containers": [container], "x": [{}] * EMPTY}


def reservation(name: str) -> Json:
    """Return a Reservation with a list of empty objects in its template."""
    return {
        "apiVersion": RESERVATIONS.api_version,
        "kind": RESERVATIONS.kind,
        "metadata": {"name": name},
        "spec": {
            "template": {"metadata": {"namespace": "nowhere"}, "spec": _pod_spec()},
            "owners": [{"object": {"namespace": "nowhere", "name": "x"}}],
            "ttl": "1h",
        },
    }


def migration_job(name: str) -> Json:
    """Return a paused PodMigrationJob with a list of empty objects in the template of its Reservation."""
    return {
        "apiVersion": POD_MIGRATION_JOBS.api_version,
        "kind": POD_MIGRATION_JOBS.kind,
        "metadata": {"name": name},
        "spec": {
            "paused": True,
            "podRef": {"namespace": "nowhere", "name": "nobody"},
            "reservationOptions": {"template": {"spec": {"template": {"spec": _pod_spec()}}}},
            "deleteOptions": {"x": [{}] * 1000},
        },
    }


@dataclass(frozen=True)
class FatKind:
    """A kind of fat objects, and how many of them a tenant creates."""

    resource: Resource
    make: Callable[[str], Json]
    count: int
    stored_before: bool = False
    """Whether the objects are from before the installation, since its rules refuse new ones."""

    named: bool = False
    """Whether Events and metrics name the objects, since a part that is needed is too large to be kept."""


KINDS: Final[dict[str, FatKind]] = {
    "claims": FatKind(CLAIMS, claim, _count(60)),
    "templates": FatKind(CLAIM_TEMPLATES, template, _count(60)),
    "labelled-pods": FatKind(PODS, labelled_pod, _count(40), named=True),
    "affine-pods": FatKind(PODS, affine_pod, _count(40), named=True),
    "batch-jobs": FatKind(JOBS, batch_job, _count(40)),
    "pod-groups": FatKind(POD_GROUPS, pod_group, _count(40)),
    "reservations": FatKind(RESERVATIONS, reservation, _count(12), stored_before=True, named=True),
    "migration-jobs": FatKind(POD_MIGRATION_JOBS, migration_job, _count(12), stored_before=True, named=True),
}


def patch(number: int) -> dict[str, Any]:
    """Return a change of an annotation, after which each watcher gets the whole object again."""
    return {"metadata": {"annotations": {"n": str(number)}}}
