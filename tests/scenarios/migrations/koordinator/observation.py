"""What a record keeps of objects beyond their state: the course of a job, its Events, and the fate of its pod."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, Any, Final

from tests.scenarios.resources import EVENTS

if TYPE_CHECKING:
    from tests.scenarios.history import Version
    from tests.scenarios.namespaces import Namespace

Json = dict[str, Any]

RACES: Final = ("WaitForPodBindReservation", "WaitForBoundPodReady", "TooManyEvictions")
"""Steps that a job shows only if the replacement comes later than the descheduler looks, or if other jobs have just
evicted pods; left out of the records."""

ALLOCATED: Final = "scheduling.koordinator.sh/reservation-allocated"


def course(versions: Iterable[Version], job: str) -> list[str]:
    """Return the steps of a job's status: phase, status, reason; steps that repeat are left out."""
    found: list[str] = []
    for version in versions:
        if version.object["metadata"]["name"] == job and version.change != "DELETED":
            status = version.object.get("status") or {}
            step = " / ".join(status.get(key) or "-" for key in ("phase", "status", "reason"))
            if found[-1:] != [step] and not _is_race(step):
                found.append(step)
    return found


async def events(namespace: Namespace, jobs: Container[str]) -> list[str]:
    """Return the descheduler's Events, those on jobs before those on pods, each in order."""
    about_jobs = "involvedObject.kind=PodMigrationJob"
    on_jobs = await namespace.api.all(EVENTS, namespace="default", fieldSelector=about_jobs)
    on_pods = await namespace.all(EVENTS, fieldSelector="reason=Descheduled")
    own = [each for each in on_jobs if each["involvedObject"]["name"] in jobs]
    texts = [
        f"{each['involvedObject']['kind']} {each['involvedObject']['name']}: "
        f"{each['type']} {each['reason']}: {each['message']}"
        for each in (*sorted(own, key=_when), *sorted(on_pods, key=_when))
    ]
    return [text for text in texts if not _is_race(text)]


def fate(pod: Json, pods: Iterable[Json], *, before: Container[str]) -> Json:
    """Return what became of a migrated pod, and its replacements: the pods whose uids were not there before."""
    found: Json = {"pod": "deleted"}
    still = next((each for each in pods if each["metadata"]["uid"] == pod["metadata"]["uid"]), None)
    if still is not None:
        old = pod["metadata"].get("annotations") or {}
        new = sorted(key for key, value in _annotations(still).items() if old.get(key) != value)
        found = {
            "pod": "terminating" if "deletionTimestamp" in still["metadata"] else still["status"]["phase"],
            "new annotations": new,
        }
    replacements = [each for each in pods if each["metadata"]["uid"] not in before]
    found["replacements"] = [_replacement(each, pod) for each in replacements]
    return found


def condition(pod: Json, kind: str) -> str:
    """Return the status of a pod's condition; empty if the pod has none of the type."""
    return next((each["status"] for each in pod["status"].get("conditions", ()) if each["type"] == kind), "")


def _replacement(pod: Json, old: Json) -> Json:
    found = {"phase": pod["status"]["phase"], "on the node of the Reservation": ALLOCATED in _annotations(pod)}
    if ALLOCATED in _annotations(pod):  # any other node is up to the scheduler
        found["on another node"] = pod["spec"].get("nodeName") != old["spec"].get("nodeName")
    return found


def _annotations(pod: Json) -> Json:
    return pod["metadata"].get("annotations") or {}


def _is_race(text: str) -> bool:
    return any(reason in text for reason in RACES)


def _when(event: Json) -> str:
    return str(event["eventTime"])
