"""A small cluster with one PodMigrationJob: the API's objects, and what the loop keeps in memory."""

from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import msgspec

from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.api.migration.model import EvictionPolicy, parse_pod_migration_job
from dra.api.migration.well_known import ANNOTATION_PASSED_ARBITRATION, ANNOTATION_SOFT_EVICTION
from dra.api.reservations.model import parse_reservation
from dra.engine.migration import plan as actions
from dra.engine.migration.decide import decide
from dra.engine.migration.view import ClaimReach, JobView, MigrationPod

NOON = 1_800_000_000.0
JOB_UID = "0000-job"
OLD_NODE, NEW_NODE = "node-0", "node-1"
CONTROLLER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "uid-web-1", "controller": True}
ARGS = MigrationControllerArgs()


def timestamp(moment: float) -> str:
    return datetime.fromtimestamp(int(moment), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def merge(target: dict[str, Any], patch: dict[str, Any]) -> None:
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        elif isinstance(value, dict):
            merge(target.setdefault(name, {}), value)
        else:
            target[name] = deepcopy(value)


def pod(name="web-a", *, uid="", node=OLD_NODE, cpu="1", created=NOON - 600, controller=CONTROLLER, **parts):
    conditions = [] if node else [{"type": "PodScheduled", "status": "False", "message": "no node fits"}]
    found = {
        "metadata": {
            "namespace": "default",
            "name": name,
            "uid": uid or f"uid-{name}",
            "creationTimestamp": timestamp(created),
            "labels": {"app": "web"},
            "ownerReferences": [controller] if controller else [],
        },
        "spec": {
            "nodeName": node,
            "schedulerName": "default-scheduler",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
        },
        "status": {"phase": "Running" if node else "Pending", "conditions": conditions},
    }
    merge(found, parts)
    return found


def job(*, passed=True, **parts):
    found = {
        "metadata": {
            "name": "migration",
            "uid": JOB_UID,
            "resourceVersion": "1",
            "creationTimestamp": timestamp(NOON),
            "annotations": {ANNOTATION_PASSED_ARBITRATION: "true"} if passed else {},
        },
        "spec": {"podRef": {"namespace": "default", "name": "web-a"}},
    }
    merge(found, parts)
    return found


def reservation(name="kept", *, node="", owners=(), cpu="1", phase="", created=NOON - 60, **parts):
    """Return a Reservation that the user supplies."""
    controller = {**CONTROLLER, "namespace": "default"}
    found = {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "creationTimestamp": timestamp(created),
        },
        "spec": {
            "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}},
            "owners": [{"controller": controller}],
        },
        "status": {
            "phase": phase or ("Available" if node else "Pending"),
            "nodeName": node,
            "allocatable": {"cpu": cpu} if node else {},
            "currentOwners": [{"namespace": "default", "name": each, "uid": f"uid-{each}"} for each in owners],
        },
    }
    merge(found, parts)
    return found


def reservation_of_job(uid, **given):
    """Return a Reservation that a job created."""
    found = reservation(uid, **given)
    reference = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "PodMigrationJob", "name": "j"}
    found["metadata"]["ownerReferences"] = [{**reference, "uid": uid, "controller": True}]
    return found


class World:
    """The API, with what the loop remembers about the job."""

    def __init__(self, *, job=None, pods=None, reservations=(), claims=(), args=ARGS, now=NOON, decide=decide):
        self.job = job or globals()["job"]()
        self.pods = {each["metadata"]["name"]: each for each in (pods if pods is not None else [pod()])}
        self.reservations = {each["metadata"]["name"]: each for each in reservations}
        self.claims: tuple[ClaimReach, ...] = tuple(claims)
        self.args, self.now, self._decide = args, now, decide
        self.create_error = self.evict_error = ""
        """Answers of the API server to the next requests."""
        self.job_deleted = self.keeps_created = False
        self.trace: list[tuple[str, str, str]] = []
        self.events: list[tuple[str, str]] = []
        self.evictions: list[actions.EvictPod] = []
        self.version = 1
        self.restart()

    def restart(self):
        """Forget what only the process knew."""
        self.templates: dict[str, dict[str, Any]] = {}
        self.gone: set[str] = set()
        self.hidden: set[str] = set()
        """Pods that the watch does not show yet."""
        self.gone_reservations: set[str] = set()
        self.known_create_error = self.known_evict_error = ""
        self.evict_failed_at = 0.0
        self.evicted = ""

    @property
    def status(self):
        return self.job.get("status", {})

    @property
    def reservation(self):
        ref = self.job["spec"].get("reservationOptions", {}).get("reservationRef") or {"name": JOB_UID}
        return self.reservations.get(ref["name"])

    def condition(self, kind):
        found = next((each for each in self.status.get("conditions", ()) if each["type"] == kind), None)
        return found and (found["status"], found.get("reason", ""))

    def view(self) -> JobView:
        parsed = parse_pod_migration_job(self.job)
        name = parsed.spec.pod_ref.name
        found = self.reservation
        options = parsed.spec.reservation_options
        ref = options.reservation_ref.name if options and options.reservation_ref else ""
        owners = found["status"].get("currentOwners", ()) if found else ()
        bound = self.status.get("podRef", {}).get("name") or (owners[0]["name"] if owners else "")
        return JobView(
            job=parsed,
            pod=self._pod(name),
            pod_gone=name in self.gone,
            pod_template=self.templates.get(name),
            claims=self.claims if name in self.templates else (),
            reservation=parse_reservation(found) if found else None,
            keeps_created=self.keeps_created,
            reservation_gone=ref in self.gone_reservations,
            bound_pod=self._pod(bound),
            bound_pod_gone=bound in self.gone,
            create_error=self.known_create_error,
            evict_error=self.known_evict_error,
            evict_failed_at=self.evict_failed_at,
            evicted=self.evicted,
        )

    def _pod(self, name):
        found = None if name in self.hidden else self.pods.get(name)
        return msgspec.convert(found, MigrationPod, strict=False) if found else None

    def plan(self) -> actions.MigrationPlan:
        return self._decide(self.view(), args=self.args, now=self.now)

    def step(self, *, do=True) -> actions.MigrationAction | None:
        """Decide once, and apply the action."""
        plan = self.plan()
        assert len(plan.actions) <= 1
        for action in plan.actions:
            if do:
                self.apply(action)
            return action
        return None

    def settle(self, *, limit=40):
        """Decide and apply until nothing is left to do."""
        done = []
        for _ in range(limit):
            if self.job_deleted or (action := self.step()) is None:
                return done
            done.append(action)
        raise AssertionError(f"the job does not settle: {done[-4:]}")

    def apply(self, action):  # noqa: C901 - one case for each kind of action
        match action:
            case actions.PatchJob(body=body):
                self._patch_job(body)
            case actions.PatchJobStatus(body=body, events=events):
                self._patch_job(body)
                self.trace.append(tuple(self.status.get(each, "") for each in ("phase", "status", "reason")))
                self.events += [(each.reason.value, each.message) for each in events]
            case actions.ReadPod(key=(_, name)):
                if name in self.pods:
                    self.templates[name] = {part: self.pods[name][part] for part in ("metadata", "spec")}
                    self.gone.discard(name)
                    self.hidden.discard(name)
                else:
                    self.gone.add(name)
            case actions.ReadReservation(name=name):
                if name not in self.reservations:
                    self.gone_reservations.add(name)
            case actions.CreateReservation(manifest=manifest):
                self._create(deepcopy(dict(manifest)))
            case actions.EvictPod():
                self._evict(action)
            case actions.DeleteReservation(name=name, uid=uid, resource_version=version):
                found = self.reservations[name]["metadata"]
                assert (found["uid"], found["resourceVersion"]) == (uid, version)
                del self.reservations[name]
            case actions.DeleteJob():
                self.job_deleted = True
            case _:
                raise AssertionError(action)

    def _patch_job(self, body):
        assert body["metadata"].pop("resourceVersion") == self.job["metadata"]["resourceVersion"]
        merge(self.job, body)
        self._touch(self.job)

    def _touch(self, found):
        self.version += 1
        found["metadata"]["resourceVersion"] = str(self.version)

    def _create(self, manifest):
        if self.create_error:
            self.known_create_error = self.create_error
        elif manifest["metadata"]["name"] not in self.reservations:
            manifest["metadata"] |= {"uid": "uid-held", "creationTimestamp": timestamp(self.now)}
            manifest["status"] = {}
            self.reservations[manifest["metadata"]["name"]] = manifest
            self._touch(manifest)

    def _evict(self, action):
        name = action.key[1]
        found = self.pods.get(name)
        assert action.delete_options["preconditions"]["uid"] == action.uid
        self.evictions.append(action)
        if self.evict_error:
            self.known_evict_error, self.evict_failed_at = self.evict_error, self.now
            return
        self.known_evict_error, self.evicted = "", action.uid
        if found and found["metadata"]["uid"] == action.uid:
            if action.eviction_policy is EvictionPolicy.SOFT_EVICTION:
                found["metadata"].setdefault("annotations", {})[ANNOTATION_SOFT_EVICTION] = "{}"
            else:
                found["metadata"]["deletionTimestamp"] = timestamp(self.now)

    # What others do.

    def place(self, node=NEW_NODE):
        found = self.reservation
        amounts = found["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
        found["status"] = {"phase": "Available", "nodeName": node, "allocatable": dict(amounts)}
        self._touch(found)

    def reject(self, message="0/2 nodes are available"):
        condition = {"type": "Scheduled", "status": "False", "reason": "Unschedulable", "message": message}
        self.reservation["status"] = {"phase": "Pending", "conditions": [condition]}
        self._touch(self.reservation)

    def expire(self):
        self.reservation["status"] |= {"phase": "Failed"}
        self._touch(self.reservation)

    def end(self, name="web-a"):
        """Let a pod disappear."""
        del self.pods[name]

    def add(self, new):
        self.pods[new["metadata"]["name"]] = new
        self.gone.discard(new["metadata"]["name"])

    def bind(self, name="web-b", *, node=NEW_NODE, created=None):
        """Bind a pod in the Reservation, as the extender does."""
        if name not in self.pods:
            self.add(pod(name, node="", created=self.now if created is None else created))
        found, bound = self.reservation, self.pods[name]
        owner = {"namespace": "default", "name": name, "uid": bound["metadata"]["uid"]}
        found["status"] |= {"phase": "Succeeded", "currentOwners": [owner]}
        self._touch(found)
        bound["spec"]["nodeName"] = node
        bound["status"] = {"phase": "Running"}

    def ready(self, name="web-b"):
        self.pods[name]["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
