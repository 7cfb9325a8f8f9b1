"""Objects that a tenant makes as large as an API server stores, of things that take much more once decoded."""

from __future__ import annotations

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

LABELS: Final = {format(n, "x"): "" for n in range(100_000)}
"""A hundred thousand labels: a megabyte, and ten once decoded."""

BRACES: Final = [{}] * 3380
"""Ten kilobytes, the maximum of parameters, which take 216 KiB once decoded."""

PARAMETERS: Final = {"x": BRACES}
ENTRIES: Final = 32
"""Maximum number of entries of parameters in a claim."""

EMPTY: Final = 300_000
"""Empty objects in a free-form part: 1.2 MB, and 20 times as much once decoded."""


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
    """Return a gated pod with a hundred thousand labels."""
    made = objects.pod(name, PodShape(claim="none", gated=True))
    made["metadata"]["labels"] = LABELS
    return made


def annotated_pod(name: str) -> Json:
    """Return a gated pod with a quarter of a megabyte of annotations, the maximum."""
    made = objects.pod(name, PodShape(claim="none", gated=True))
    made["metadata"]["annotations"] = {format(n, "x"): "" for n in range(60_000)}
    return made


def batch_job(name: str) -> Json:
    """Return a suspended Job with a hundred thousand labels."""
    container = {"name": "a", "image": "b"}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    metadata = {"name": name, "labels": LABELS}
    spec = {"suspend": True, "template": pod}
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": metadata, "spec": spec}


def pod_group(name: str) -> Json:
    """Return a PodGroup with a hundred thousand labels."""
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
    """A kind of fat objects; so many that the decoded objects exceed the limit of the controller, if all are kept."""

    resource: Resource
    make: Callable[[str], Json]
    count: int
    stored_before: bool = False
    """Whether the objects are from before the installation, since its rules refuse new ones."""

    named: bool = False
    """Whether Events and metrics name the objects, since a part that is needed is too large to be kept."""


KINDS: Final[dict[str, FatKind]] = {
    "claims": FatKind(CLAIMS, claim, 120),
    "templates": FatKind(CLAIM_TEMPLATES, template, 120),
    "labelled-pods": FatKind(PODS, labelled_pod, 60, named=True),
    "annotated-pods": FatKind(PODS, annotated_pod, 120),
    "batch-jobs": FatKind(JOBS, batch_job, 60),
    "pod-groups": FatKind(POD_GROUPS, pod_group, 60),
    "reservations": FatKind(RESERVATIONS, reservation, 20, stored_before=True, named=True),
    "migration-jobs": FatKind(POD_MIGRATION_JOBS, migration_job, 20, stored_before=True, named=True),
}


def patch(number: int) -> dict[str, Any]:
    """Return a change of an annotation, after which each watcher gets the whole object again."""
    return {"metadata": {"annotations": {"n": str(number)}}}
