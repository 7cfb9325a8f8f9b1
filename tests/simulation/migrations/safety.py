"""Safety: the state of the API server at each eviction and after each write, whatever the descheduler believes.

An eviction is judged at the moment at which the API server grants the eviction. A Reservation that somebody took
between the descheduler's last look and that moment is not the descheduler's mistake: the look must have been live, at
most `LOOK_SECONDS` before, and must have shown the Reservation free.
"""

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dra.kube.resources import CLAIMS, POD_MIGRATION_JOBS, PODS, RESERVATIONS
from dra.kube.transport import Request, Response
from dra.model import quantities
from localplane.objects import Object
from localplane.server import WatchResponse
from localplane.store import WatchCacheEvent, WatchEventType
from tests.dra.engine.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.migrations.cluster import MigratingCluster

LOOK_SECONDS: Final = 45.0
"""Maximum seconds from a live read of a Reservation to the eviction that relies on the read: the read's answer and the
eviction may each be late."""

DESCHEDULER: Final = "descheduler"
PASSED: Final = "descheduler.koordinator.sh/passed-arbitration"
ALLOCATED: Final = "scheduling.koordinator.sh/reservation-allocated"
ENDED: Final = frozenset({"Succeeded", "Failed"})

_EVICTION: Final = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/?]+)/eviction")
_POD: Final = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/?]+)")
_RESERVATION: Final = re.compile(r"/apis/scheduling\.koordinator\.sh/v1alpha1/reservations/([^/?]+)")


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """A request of the descheduler that ends a pod, with the state at its arrival."""

    pod: Object
    fault: str
    """The reason why the capacity of the pod is not held elsewhere; empty if the capacity is held."""
    job: str
    terminating: bool


class MigrationSafetyChecker:
    """Checks evictions and writes; raises Violation."""

    def __init__(self, cluster: "MigratingCluster") -> None:
        self._cluster = cluster
        self._looks: dict[str, float] = {}
        """Name of a Reservation → time of the descheduler's last live read that showed the Reservation free, with
        its devices."""
        self._eligible_until: dict[str, float] = {}
        """Uid of a job → time at which the job ended, was deleted or was paused, after its arbitration."""
        self._jobs: dict[str, Object] = {}
        """All jobs that ever existed, by uid, in their last state."""
        self.evicted: Counter[str] = Counter()
        """Uid of a pod → number of granted evictions."""
        self.had_faults = False

    # Requests of the descheduler

    def before_request(self, request: Request, *, actor: str) -> Ending | None:
        """Return the state in which a request arrives that ends a pod; None for any other request."""
        if actor != DESCHEDULER or request.method not in {"POST", "DELETE"}:
            return None
        path = request.path.partition("?")[0]
        match = (_EVICTION if request.method == "POST" else _POD).fullmatch(path)
        if match is None:
            return None
        pod = self._cluster.find(PODS, match[1], match[2])
        if pod is None:
            return None
        job, fault = self._judge(pod)
        return Ending(pod=pod, fault=fault, job=job, terminating=pod["metadata"].get("deletionTimestamp") is not None)

    def after_request(
        self, request: Request, response: Response | WatchResponse, *, actor: str, before: Ending | None
    ) -> None:
        """Record a live read; raise Violation for a granted eviction of a pod whose capacity was not held."""
        if actor != DESCHEDULER or not isinstance(response, Response) or self._cluster.violation is not None:
            return
        match = _RESERVATION.fullmatch(request.path.partition("?")[0])
        if request.method == "GET" and match is not None and response.status == 200:
            self._record_look(msgspec.json.decode(response.body))
        if before is None:
            return
        if response.status == 429:
            self._cluster.effects["an eviction is refused by a budget"] += 1
        if response.status >= 300:
            return
        try:
            self._check_ending(before)
        except Violation as violation:
            self._cluster.failed(violation)

    def _record_look(self, reservation: Object) -> None:
        """Record a live read of a Reservation that holds what the pods of its jobs need."""
        name = reservation["metadata"]["name"]
        for job in self._jobs.values():
            options = job["spec"].get("reservationOptions") or {}
            if name not in (job["metadata"]["uid"], (options.get("reservationRef") or {}).get("name")):
                continue
            reference = job["spec"]["podRef"]
            pod = self._cluster.find(PODS, reference["namespace"], reference["name"])
            if pod is not None and not self._shortfall(reservation, pod):
                self._looks[name] = self._cluster.clock.now()

    def _check_ending(self, ending: Ending) -> None:
        metadata = ending.pod["metadata"]
        name = f"pod {metadata['namespace']}/{metadata['name']}"
        if ending.terminating:
            self._cluster.effects["an eviction finds the pod terminating"] += 1
            if not self.had_faults:
                raise Violation(f"{name}: the descheduler ends a pod that is terminating, and nothing had failed")
            return
        self.evicted[metadata["uid"]] += 1
        self._cluster.effects["a pod is evicted"] += 1
        if ending.fault:
            raise Violation(f"{name}: evicted for job {ending.job or '?'}, and {ending.fault}")
        if self.evicted[metadata["uid"]] > 1:
            raise Violation(f"{name}: evicted twice")

    def _judge(self, pod: Object) -> tuple[str, str]:
        """Return the job for which a pod may be evicted, and the reason why the pod may not; empty if it may."""
        now, metadata = self._cluster.clock.now(), pod["metadata"]
        faults = []
        for job in self._jobs.values():
            reference = job["spec"]["podRef"]
            if (reference["namespace"], reference["name"]) != (metadata["namespace"], metadata["name"]):
                continue
            if reference.get("uid") not in {None, "", metadata["uid"]}:
                continue
            until = self._eligible_until.get(job["metadata"]["uid"])
            if not _has_passed(job) or (until is not None and now - until > LOOK_SECONDS):
                continue
            fault = self._unheld(job, pod)
            if not fault:
                return job["metadata"]["name"], ""
            faults.append((job["metadata"]["name"], fault))
        return faults[0] if faults else ("", "no job that has passed arbitration asks for the pod")

    def _unheld(self, job: Object, pod: Object) -> str:
        mode = job["spec"].get("mode") or self._cluster.initial_state.limits.get("defaultJobMode", "ReservationFirst")
        if mode == "EvictDirectly":
            return ""
        options = job["spec"].get("reservationOptions") or {}
        name = (options.get("reservationRef") or {}).get("name") or job["metadata"]["uid"]
        now = self._cluster.clock.now()
        found = self._cluster.find(RESERVATIONS, "", name)
        fault = f"Reservation {name} does not exist" if found is None else self._shortfall(found, pod)
        if fault and now - self._looks.get(name, float("-inf")) <= LOOK_SECONDS:
            self._cluster.effects["a Reservation is taken between the look and the eviction"] += 1
            return ""
        return fault

    def _shortfall(self, reservation: Object, pod: Object) -> str:
        name, status = reservation["metadata"]["name"], reservation.get("status") or {}
        if not _is_free(reservation):
            owners = [each["name"] for each in status.get("currentOwners") or ()]
            return f"Reservation {name} is {status.get('phase')}, used by {owners}"
        if status.get("nodeName") == pod["spec"].get("nodeName"):
            return f"Reservation {name} is on the pod's own node"
        amount = quantities.parse((status.get("allocatable") or {}).get("cpu", "0"))
        if amount < _cpu(pod):
            return f"Reservation {name} holds {amount} of {_cpu(pod)} CPUs"
        wanted = [each for each in pod["spec"].get("resourceClaims") or () if each.get("resourceClaimTemplateName")]
        if (held := self._held_claims(reservation)) < len(wanted):
            return f"Reservation {name} holds {held} of {len(wanted)} claims"
        return ""

    def _held_claims(self, reservation: Object) -> int:
        """Return the number of allocated claims that belong to a Reservation and that nothing deallocates."""
        uid = reservation["metadata"]["uid"]
        return sum(
            bool(status.get("allocation") and status.get("reservedFor"))
            for claim in self._cluster.all(CLAIMS)
            if uid in {each["uid"] for each in claim["metadata"].get("ownerReferences") or ()}
            for status in (claim.get("status") or {},)
        )

    # Writes

    def check_write(self, event: WatchCacheEvent, *, actor: str) -> None:
        """Raise Violation for a write that breaks a rule."""
        match event.object.key.collection:
            case POD_MIGRATION_JOBS.label:
                self._check_job(event, msgspec.json.decode(event.object.raw))
            case RESERVATIONS.label:
                self._check_reservation(event, msgspec.json.decode(event.object.raw), actor=actor)
            case PODS.label:
                pod = msgspec.json.decode(event.object.raw)
                if node := pod["spec"].get("nodeName"):
                    self._check_capacity(node)

    def _check_job(self, event: WatchCacheEvent, job: Object) -> None:
        uid, name = job["metadata"]["uid"], job["metadata"]["name"]
        before = self._jobs.get(uid)
        self._jobs[uid] = job
        phase, earlier = _phase(job), _phase(before) if before is not None else ""
        if before is not None and reservation_of(before) == uid != reservation_of(job):
            self._cluster.effects["a job takes over the Reservation of a sibling"] += 1
        if earlier in ENDED and phase != earlier:
            raise Violation(f"job {name}: {earlier} became {phase}")
        if phase in ENDED and earlier not in ENDED:
            reason = (job.get("status") or {}).get("reason", "")
            self._cluster.effects[f"a job ends: {phase}" + (f" ({reason})" if phase == "Failed" else "")] += 1
            if phase == "Succeeded" and _is_migrated_with_devices(self._cluster, job):
                self._cluster.effects["a job ends: Succeeded, with devices"] += 1
        ended = event.type is WatchEventType.DELETED or phase in ENDED or bool(job["spec"].get("paused"))
        if ended:
            self._eligible_until.setdefault(uid, self._cluster.clock.now())
        else:
            self._eligible_until.pop(uid, None)
        if event.type is WatchEventType.DELETED:
            return
        if phase == "Running" and not _has_passed(job):
            raise Violation(f"job {name}: Running without having passed arbitration")
        if _has_passed(job) and not (before is not None and _has_passed(before)):
            self._check_limits(job)

    def _check_limits(self, passed: Object) -> None:
        """Check the limits at the moment at which a job passes arbitration."""
        limits = self._cluster.configuration.migration
        running = [
            job
            for uid, job in self._jobs.items()
            if _has_passed(job) and _phase(job) not in ENDED and self._exists(job) and uid
        ]
        name = passed["metadata"]["name"]
        if limits.max_migrating_globally and len(running) > limits.max_migrating_globally:
            raise Violation(f"job {name}: passed as number {len(running)} of {limits.max_migrating_globally}")
        namespaces = Counter(job["spec"]["podRef"]["namespace"] for job in running)
        if limits.max_migrating_per_namespace and max(namespaces.values()) > limits.max_migrating_per_namespace:
            raise Violation(f"job {name}: passed, and {namespaces} exceed the limit for each namespace")
        nodes: Counter[str] = Counter()
        for job in running:
            reference = job["spec"]["podRef"]
            pod = self._cluster.find(PODS, reference["namespace"], reference["name"])
            if pod is not None and reference.get("uid") in {None, "", pod["metadata"]["uid"]}:
                nodes[pod["spec"].get("nodeName", "")] += 1
        del nodes[""]
        if limits.max_migrating_per_node and nodes and max(nodes.values()) > limits.max_migrating_per_node:
            raise Violation(f"job {name}: passed, and {nodes} exceed the limit for each node")

    def _exists(self, job: Object) -> bool:
        found = self._cluster.find(POD_MIGRATION_JOBS, "", job["metadata"]["name"])
        return found is not None and found["metadata"]["uid"] == job["metadata"]["uid"]

    def _check_reservation(self, event: WatchCacheEvent, reservation: Object, *, actor: str) -> None:
        name = reservation["metadata"]["name"]
        if event.type is WatchEventType.DELETED and actor == DESCHEDULER:
            if name not in self._jobs:
                raise Violation(f"Reservation {name}: deleted by the descheduler, which did not create it")
            for pod in self._cluster.all(PODS):
                annotation = (pod["metadata"].get("annotations") or {}).get(ALLOCATED, "")
                running = (pod.get("status") or {}).get("phase") not in ENDED
                if reservation["metadata"]["uid"] in annotation and running and pod["spec"].get("nodeName"):
                    raise Violation(f"Reservation {name}: deleted while pod {pod['metadata']['name']} uses it")
        elif node := (reservation.get("status") or {}).get("nodeName"):
            self._check_capacity(node)

    def _check_capacity(self, node: str) -> None:
        """Check that the pods on a node and the capacity that is held there fit."""
        capacity = dict(self._cluster.initial_state.nodes)[node]
        held = [
            each
            for each in self._cluster.all(RESERVATIONS)
            if _phase(each) == "Available" and each["status"].get("nodeName") == node
        ]
        inside: dict[str, Any] = {each["metadata"]["uid"]: 0 for each in held}
        charge: Any = 0
        for pod in self._cluster.all(PODS):
            if pod["spec"].get("nodeName") != node or _phase(pod) in ENDED:
                continue
            if pod["metadata"]["name"].startswith("reservation-"):
                continue
            annotation = (pod["metadata"].get("annotations") or {}).get(ALLOCATED, "")
            used = next((uid for uid in inside if uid in annotation), None)
            if used is None:
                charge += _cpu(pod)
            else:
                inside[used] += _cpu(pod)
        for each in held:
            charge += max(quantities.parse(each["status"]["allocatable"]["cpu"]), inside[each["metadata"]["uid"]])
        if charge > capacity:
            raise Violation(f"node {node}: {charge} of {capacity} CPUs are used or held")


def reservation_of(job: Object) -> str:
    """Return the name of the Reservation that a job refers to; empty if there is none."""
    options = job["spec"].get("reservationOptions") or {}
    return str((options.get("reservationRef") or {}).get("name") or "")


def has_ended(job: Object) -> bool:
    """Return whether a job has ended."""
    return _phase(job) in ENDED


def _phase(found: Object) -> str:
    return str((found.get("status") or {}).get("phase") or "")


def _has_passed(job: Object) -> bool:
    return (job["metadata"].get("annotations") or {}).get(PASSED) == "true"


def _is_free(reservation: Object) -> bool:
    return _phase(reservation) == "Available" and not reservation["status"].get("currentOwners")


def _cpu(pod: Object) -> Any:
    return sum(quantities.parse(each["resources"]["requests"]["cpu"]) for each in pod["spec"]["containers"])


def _is_migrated_with_devices(cluster: "MigratingCluster", job: Object) -> bool:
    reference = (job.get("status") or {}).get("podRef") or {}
    pod = cluster.find(PODS, reference.get("namespace", ""), reference.get("name", ""))
    return pod is not None and bool(pod["spec"].get("resourceClaims"))
