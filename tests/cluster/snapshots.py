"""Every object of a cluster at one moment, for those who must leave it as they found it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tests.cluster.kubectl import kubectl
from tests.cluster.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

BY_THEMSELVES: Final = {"events", "events.events.k8s.io", "componentstatuses"}
"""What comes and goes by itself."""

SETTLED_WITHIN: Final = 20.0

Identity = tuple[str, str, str]
"""Kind, namespace, name."""

Snapshot = dict[Identity, dict[str, Any]]


def taken(admin: Path) -> Snapshot:
    """Return every object, without what it tells of itself: status, versions, managers; leases without their times."""
    listable = kubectl("api-resources", "--verbs=list", "--output=name", kubeconfig=admin).split()
    kinds = ",".join(sorted({*listable} - BY_THEMSELVES))
    shown = json.loads(kubectl("get", kinds, "--all-namespaces", "--output=json", kubeconfig=admin))
    found: Snapshot = {}
    for obj in shown["items"]:
        metadata = obj["metadata"]
        told = {key: value for key, value in metadata.items() if key in {"labels", "annotations", "finalizers"}}
        unsteady = {"metadata", "status", "spec"} if obj["kind"] == "Lease" else {"metadata", "status"}
        rest = {key: value for key, value in obj.items() if key not in unsteady}
        found[obj["kind"], metadata.get("namespace", ""), metadata["name"]] = {**rest, "metadata": told}
    return found


def settled(admin: Path) -> Snapshot:
    """Return all objects, once two looks see the same: roles are aggregated, namespaces of other tests end."""
    looks = [taken(admin)]

    def still() -> bool:
        looks.append(taken(admin))
        return not difference(looks[-2], looks[-1])

    until(still, within=SETTLED_WITHIN, saying="two looks see the same")
    return looks[-1]


def changed(before: Snapshot, after: Snapshot) -> set[Identity]:
    """Return what is in both, and not the same."""
    return {key for key in before.keys() & after.keys() if before[key] != after[key]}


def difference(before: Snapshot, after: Snapshot) -> set[Identity]:
    """Return what is in one alone, or not the same in both."""
    return (before.keys() ^ after.keys()) | changed(before, after)
