"""Reading claims and pods: the questions that scenarios ask of the objects they get."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def allocated(claim: Json) -> bool:
    """Tell whether the claim has devices."""
    return "allocation" in claim.get("status", {})


def entries(claim: Json) -> list[Json]:
    """Return the list: the entries of status.reservedFor."""
    return [*claim.get("status", {}).get("reservedFor", [])]


def listed(claim: Json, resource: str = "pods") -> set[str]:
    """Return the names of the listed consumers of one resource, pods unless said otherwise."""
    return {entry["name"] for entry in entries(claim) if entry["resource"] == resource}


def entered(claim: Json) -> bool:
    """Tell whether the annotation says that the workload was entered for the claim's allocation."""
    return "reserve.dra/entered-allocation" in claim["metadata"].get("annotations", {})


def condition(obj: Json, kind: str) -> str | None:
    """Return the status of one condition of any object, None when it does not have it."""
    found = {each["type"]: each["status"] for each in obj.get("status", {}).get("conditions") or ()}
    return found.get(kind)


def started(pod: Json) -> bool:
    """Tell whether the pod's sandbox is ready: from then on its kubelet does not look at the list."""
    return condition(pod, "PodReadyToStartContainers") == "True"


def bound(pod: Json) -> bool:
    """Tell whether the scheduler has given the pod a node."""
    return "nodeName" in pod["spec"]


def finished(pod: Json) -> bool:
    """Tell whether the pod has ended, well or not."""
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def revision(obj: Json) -> str:
    """Return the resourceVersion: equal means nothing was written in between."""
    found: str = obj["metadata"]["resourceVersion"]
    return found
