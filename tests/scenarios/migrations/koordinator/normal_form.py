"""The normal form of what a descheduler leaves: names, uids, nodes and times replaced, defaults of the API left out.

Two records in normal form are equal if both deschedulers did the same. The words of a scheduler about nodes that do not
fit are replaced as well: kube-scheduler and koord-scheduler each have their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

Json = dict[str, Any]

TIME: Final = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z$|^\d{13}$")
NODES_DO_NOT_FIT: Final = re.compile(r"0/\d+ nodes are available.*|no nodes available.*", re.DOTALL)
FIELD: Final = re.compile(r"spec(?:\.\w+)+")

DEFAULTS: Final[Json] = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "terminationGracePeriodSeconds": 1,
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
    "serviceAccount": "default",
    "serviceAccountName": "default",
    "priority": 0,
}
"""Fields of a pod that the API server fills in, and fields that all pods of the comparison share."""

CONTAINER_DEFAULTS: Final[Json] = {
    "imagePullPolicy": "IfNotPresent",
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
OF_THE_SERVICE_ACCOUNT: Final = "kube-api-access-"
TOLERATED_BY_ADMISSION: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class Names:
    """Replacements of what differs from run to run."""

    def __init__(self) -> None:
        self._by_text: Final[dict[str, str]] = {}

    def call(self, text: str | None, name: str) -> None:
        """Replace the text by the name wherever it occurs; the first name of a text stays."""
        if text:
            self._by_text.setdefault(text, name)

    def replace(self, value: Any) -> Any:
        """Return a copy of the value with each replacement made, in keys too."""
        if isinstance(value, Mapping):
            return {self.replace(key): self.replace(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.replace(each) for each in value]
        if not isinstance(value, str):
            return value
        if TIME.match(value):
            return "TIME"
        for text in sorted(self._by_text, key=len, reverse=True):
            value = value.replace(text, self._by_text[text])
        return NODES_DO_NOT_FIT.sub("THE SCHEDULER'S WORDS", value)


def refusal(text: str) -> str:
    """Return the fields that the API server refused."""
    return "refused: " + ", ".join(sorted(set(FIELD.findall(text))))


def conditions(status: Json) -> list[Json]:
    """Return conditions sorted by type, without times."""
    found = ({key: each.get(key, "") for key in ("type", "status", "reason", "message")} for each in status)
    return sorted(found, key=lambda each: each["type"])


def job(found: Json, *, given: Json, reservations: Mapping[str, Json]) -> Json:
    """Return the normal form of a PodMigrationJob: what was written to the spec, metadata, and the status.

    A template in the spec that says the same as the job's Reservation is a reference to the Reservation.
    """
    spec = {key: value for key, value in found["spec"].items() if given["spec"].get(key) != value}
    if template := spec.get("reservationOptions", {}).get("template"):
        made = reservations.get(found["metadata"]["uid"], {})
        told: Json | str = reservation_template(template)
        if told == {key: made[key] for key in ("metadata", "spec") if key in made}:
            told = "AS THE RESERVATION"
        spec["reservationOptions"] = spec["reservationOptions"] | {"template": told}
    status = dict(found.get("status") or {})
    status["conditions"] = conditions(status.get("conditions") or [])
    status.setdefault("phase", "")
    return _without_empty({"metadata": _metadata(found), "changes of spec": spec, "status": status})


def reservation(found: Json) -> Json:
    """Return the normal form of a Reservation."""
    status = dict(found.get("status") or {})
    kept = {key: status[key] for key in ("phase", "nodeName", "currentOwners", "allocated") if status.get(key)}
    status = kept | {"conditions": conditions(status.get("conditions") or [])}
    metadata = _metadata(found)
    owners = [{"kind": each["kind"], "controller": each.get("controller", False)} for each in _owners(found)]
    spec = reservation_template({"spec": found["spec"]})["spec"]
    return _without_empty({"metadata": metadata, "owner references": owners, "spec": spec, "status": status})


def reservation_template(template: Json) -> Json:
    """Return the normal form of metadata and spec of a Reservation."""
    spec = dict(template.get("spec") or {})
    if "template" in spec:
        spec["template"] = pod_template(spec["template"])
    if "owners" in spec:
        spec["owners"] = [_without_empty(each) for each in spec["owners"]]
    if "ttl" in spec:
        spec["ttl"] = re.sub(r"(?<=[hm])(?:0m)?0s$", "", spec["ttl"])  # as Go writes a duration
    return _without_empty({"metadata": _metadata(template), "spec": spec})


def pod_template(template: Json) -> Json:
    """Return the normal form of a pod's metadata and spec."""
    spec = {key: value for key, value in template["spec"].items() if DEFAULTS.get(key, ...) != value}
    spec["containers"] = [_container(each) for each in spec["containers"]]
    spec["volumes"] = [each for each in spec.get("volumes", ()) if not each["name"].startswith(OF_THE_SERVICE_ACCOUNT)]
    spec["tolerations"] = [each for each in spec.get("tolerations", ()) if each["key"] not in TOLERATED_BY_ADMISSION]
    metadata = {
        key: value for key, value in (template.get("metadata") or {}).items() if key not in {"uid", "ownerReferences"}
    }
    others = sorted(
        key
        for key, value in (template.get("metadata") or {}).items()
        if key not in {"labels", "annotations", "namespace", "name", "generateName"} and value is not None
    )
    kept = {key: metadata[key] for key in metadata if key not in others} | ({"others": others} if others else {})
    return _without_empty({"metadata": kept, "spec": spec})


def _container(container: Json) -> Json:
    kept = {key: value for key, value in container.items() if CONTAINER_DEFAULTS.get(key, ...) != value}
    mounts = [each for each in kept.get("volumeMounts", ()) if not each["name"].startswith(OF_THE_SERVICE_ACCOUNT)]
    return _without_empty(kept | {"volumeMounts": mounts})


def _metadata(found: Json) -> Json:
    metadata = found.get("metadata") or {}
    return {key: metadata[key] for key in ("labels", "annotations", "finalizers") if metadata.get(key)}


def _owners(found: Json) -> list[Json]:
    owners: list[Json] = found["metadata"].get("ownerReferences") or []
    return owners


def _without_empty(value: Json) -> Json:
    return {key: each for key, each in value.items() if each not in (None, "", [], {})}
