"""Plays one case on a cluster with a descheduler, and records what is left: jobs, Reservations, pods and Events."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Final

from tests.scenarios.api import ApiError
from tests.scenarios.eventually import eventually
from tests.scenarios.history import WatchHistory
from tests.scenarios.migrations.koordinator import manifests, normal_form, observation
from tests.scenarios.resources import (
    DISRUPTION_BUDGETS,
    NODES,
    POD_MIGRATION_JOBS,
    PODS,
    RESERVATIONS,
)

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from tests.scenarios.api import Api
    from tests.scenarios.namespaces import Namespace

Json = dict[str, Any]

QUIET: Final = 8.0
"""Seconds without a change after which a job waits: Koordinator looks again every 3 s, our Unschedulable takes 5 s."""

AFTERWARDS: Final = 3.0
"""Seconds without a change after the end of a job, for Events and for the deletion of its Reservation."""

ENDING: Final = 30.0
"""Seconds for the jobs of a case to end; on a busy machine a descheduler may begin later than `QUIET`."""

ENDED: Final = frozenset({"Succeeded", "Failed", "Aborted"})

ONLY: Final = "scenario.dra/only"
"""A label of one node, for pods that no other node takes; its value is the namespace."""


class Play:
    """One case: what a person does, and the record of the outcome."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace: Final = namespace
        self.api: Final[Api] = namespace.api
        self.app: Final = namespace.name
        self.record: Final[Json] = {}
        self._names: Final = normal_form.Names()
        self._names.call(self.app, "NAMESPACE")
        self._jobs: Final[dict[str, Json]] = {}
        self._refused: Final[dict[str, str]] = {}
        self._reservations: Final[set[str]] = set()
        self._migrated: Final[dict[str, Json]] = {}
        self._first_pods: set[str] = set()
        self._watching: Final = AsyncExitStack()
        self._seen: Final = {
            "jobs": WatchHistory(self.api, POD_MIGRATION_JOBS),
            "reservations": WatchHistory(self.api, RESERVATIONS),
            "pods": WatchHistory(self.api, PODS, namespace=self.app),
        }

    async def __aenter__(self) -> Self:
        for each in self._seen.values():
            await self._watching.enter_async_context(each)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._watching.__aexit__(kind, error, traceback)
        for name in self._jobs:
            await self.api.delete(POD_MIGRATION_JOBS, name)
        for each in await self.api.all(RESERVATIONS):
            if each["metadata"]["name"] in self._own_reservations():
                await self.api.delete(RESERVATIONS, each["metadata"]["name"])

    async def workload(
        self,
        kind: str = "Deployment",
        *,
        replicas: int = 3,
        labels: Json | None = None,
        annotations: Json | None = None,
        spec: Json | None = None,
        pending: int = 0,
    ) -> Json:
        """Create a workload and return the pod to migrate: the first by name, a Pending one if there are any."""
        template = manifests.pod_template(self.app, labels=labels or {}, annotations=annotations or {}, spec=spec or {})
        if kind == "Pod":
            await self.namespace.create(manifests.pod(self.app, template=template))
        else:
            await self.namespace.create(manifests.workload(kind, self.app, replicas=replicas, template=template))
        count = {"Pod": 1, "DaemonSet": len(await self.api.all(NODES))}.get(kind, replicas)
        found = await self._pods(count, pending=pending)
        self._first_pods = {each["metadata"]["uid"] for each in found}
        for each in found:
            for label in ("pod-template-hash", "controller-revision-hash"):
                self._names.call(each["metadata"]["labels"].get(label), "HASH")
        return self._call_migrated(next(each for each in found if not (pending and _ready(each))), "POD")

    async def another(self) -> Json:
        """Return the second pod by name, to be migrated as well."""
        second = (await self._pods(len(self._first_pods)))[1]
        return self._call_migrated(second, "POD-2")

    async def scale(self, replicas: int) -> None:
        """Scale the Deployment and wait until its pods run."""
        path = f"/apis/apps/v1/namespaces/{self.app}/deployments/web"
        merge = "application/merge-patch+json"
        await self.api.request("PATCH", path, {"spec": {"replicas": replicas}}, content_type=merge)
        self._first_pods = {each["metadata"]["uid"] for each in await self._pods(replicas)}

    async def budget(self, *, min_available: int, allowed: int) -> None:
        """Create or change the PodDisruptionBudget and wait until its status says what it allows."""
        made = manifests.budget(self.app, min_available=min_available)
        if await self.namespace.find(DISRUPTION_BUDGETS, "web"):
            await self.namespace.patch(DISRUPTION_BUDGETS, "web", {"spec": made["spec"]})
        else:
            await self.namespace.create(made)
        await eventually(
            lambda: self.namespace.get(DISRUPTION_BUDGETS, "web"),
            until=lambda found: (
                found.get("status", {}).get("disruptionsAllowed") == allowed and found["status"].get("expectedPods")
            ),
            saying=f"the budget allows {allowed} disruptions",
        )

    async def only_node(self, name: str = "") -> str:
        """Label a node, by default the first one, with `ONLY` and return its name."""
        node = name or (await self.api.all(NODES))[0]["metadata"]["name"]
        await self.api.patch(NODES, node, {"metadata": {"labels": {f"{ONLY}-{self.app}": "true"}}})
        return str(node)

    def selector(self) -> Json:
        """Return fields of a pod's spec that select nodes labelled by `only_node`."""
        return {"nodeSelector": {f"{ONLY}-{self.app}": "true"}}

    def one_per_node(self) -> Json:
        """Return fields of a pod's spec that let no two pods of the workload run on one node."""
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": self.app}}}
        return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}

    async def reservation(self, *, node: str) -> str:
        """Create a Reservation on a node, for pods of the workload, and return its name once it is Available."""
        name = f"{self.app}-room"
        self._reservations.add(name)
        await self.api.create(manifests.reservation(name, app=self.app, node=node))
        await self.reservation_is(name, "Available")
        return name

    async def reservation_is(self, name: str, phase: str) -> None:
        """Wait for a phase of the Reservation."""
        await eventually(
            lambda: self.api.get(RESERVATIONS, name),
            until=lambda found: found.get("status", {}).get("phase") == phase,
            saying=f"reservation {name} is {phase}",
        )

    async def other_node(self, pod: Json) -> str:
        """Return a node without the pod."""
        nodes = sorted(each["metadata"]["name"] for each in await self.api.all(NODES))
        return next(str(each) for each in nodes if each != pod["spec"]["nodeName"])

    async def migrate(self, pod: Json | None = None, *, labels: Json | None = None, **spec: Any) -> str:
        """Create a PodMigrationJob for the pod, and return its name."""
        number = len(self._jobs) + len(self._refused) + 1
        name = f"{self.app}-{number}"
        reference = {"namespace": pod["metadata"]["namespace"], "name": pod["metadata"]["name"]} if pod else None
        spec = ({"podRef": reference} if reference else {}) | {"ttl": "5m0s"} | spec
        given = manifests.migration(name, spec={k: v for k, v in spec.items() if v is not None}, labels=labels or {})
        called = "JOB" if number == 1 else f"JOB-{number}"
        self._names.call(name, called)
        try:
            made = await self.api.create(given)
        except ApiError as error:
            self._refused[called] = normal_form.refusal(str(error))
            return name
        self._names.call(made["metadata"]["uid"], f"{called}-UID")
        self._jobs[name] = given
        return name

    async def change(self, name: str, **spec: Any) -> None:
        """Change fields of a job's spec."""
        await self.api.patch(POD_MIGRATION_JOBS, name, {"spec": spec})

    async def begun(self, name: str) -> None:
        """Wait until the job is Running."""
        await eventually(
            lambda: self.api.get(POD_MIGRATION_JOBS, name),
            until=lambda found: found.get("status", {}).get("phase") == "Running",
            saying=f"job {name} is Running",
        )

    async def step(self, name: str, reason: str) -> None:
        """Wait until a condition of the job has the reason."""
        await eventually(
            lambda: self.api.get(POD_MIGRATION_JOBS, name),
            until=lambda found: (
                reason in {each.get("reason") for each in found.get("status", {}).get("conditions", ())}
            ),
            saying=f"job {name}: a condition has reason {reason}",
        )

    async def delete(self, name: str) -> None:
        """Delete a job."""
        await self.api.delete(POD_MIGRATION_JOBS, name)

    async def snapshot(self, stage: str) -> None:
        """Wait until all jobs have ended or wait, and record all objects."""
        await self._settle()
        jobs = {name: await self.api.find(POD_MIGRATION_JOBS, name) for name in self._jobs}
        pods = await self.namespace.all(PODS)
        names = self._own_reservations()
        reservations = [each for each in await self.api.all(RESERVATIONS) if each["metadata"]["name"] in names]
        held = {each["metadata"]["name"]: normal_form.reservation(each) for each in reservations}
        found: Json = {
            "jobs": {
                name: normal_form.job(each, given=self._jobs[name], reservations=held) if each else "deleted"
                for name, each in jobs.items()
            },
            "reservations": held,
            "pods": {
                name: observation.fate(pod, pods, before=self._first_pods) for name, pod in self._migrated.items()
            },
        }
        if self._refused:
            found["refused"] = self._refused
        self._call_nodes([*reservations, *filter(None, jobs.values())], nodes=await self.api.all(NODES))
        self._call_pods(pods)
        self.record[stage] = self._names.replace(found)

    async def ended(self, *, within: float) -> None:
        """Wait until all jobs have ended; those that have not after that time are recorded as they are."""
        with suppress(AssertionError):
            await eventually(self._have_ended, within=within, saying=f"{self.app}: the jobs have ended")

    async def finish(self) -> Json:
        """Record the end, the course of each job and all Events, and return the record."""
        await self.ended(within=ENDING)
        await self.snapshot("end")
        for each in self._seen.values():
            await each.catch_up()
        versions = self._seen["jobs"].versions
        courses = {name: observation.course(versions, name) for name in self._jobs}
        self.record["course"] = self._names.replace(courses)
        self.record["events"] = self._names.replace(await observation.events(self.namespace, self._jobs))
        return self.record

    def _call_nodes(self, placed: list[Json], *, nodes: list[Json]) -> None:
        for each in placed:
            self._names.call(each.get("status", {}).get("nodeName"), "NEW-NODE")
        for each in nodes:
            self._names.call(each["metadata"]["name"], "ANOTHER-NODE")

    def _call_pods(self, pods: list[Json]) -> None:
        own = self._own_reservations()
        for version in self._seen["reservations"].versions:
            if version.object["metadata"]["name"] in own:
                self._names.call(version.object["metadata"]["uid"], "RESERVATION-UID")
        for pod in pods:
            name = "SIBLING" if pod["metadata"]["uid"] in self._first_pods else "REPLACEMENT"
            self._names.call(pod["metadata"]["uid"], f"{name}-UID")
            self._names.call(pod["metadata"]["name"], name)
            for owner in pod["metadata"].get("ownerReferences", ()):
                self._names.call(owner["uid"], "CONTROLLER-UID")

    def _call_migrated(self, pod: Json, name: str) -> Json:
        self._names.call(pod["metadata"]["name"], name)
        self._names.call(pod["metadata"]["uid"], f"{name}-UID")
        if not self._migrated:  # the second pod may run where the first one goes
            self._names.call(pod["spec"].get("nodeName"), "OLD-NODE")
        self._migrated[name] = pod
        return pod

    def _own_reservations(self) -> set[str]:
        uids = {
            version.object["metadata"]["uid"]
            for version in self._seen["jobs"].versions
            if version.object["metadata"]["name"] in self._jobs
        }
        return self._reservations | uids

    async def _pods(self, count: int, *, pending: int = 0) -> list[Json]:
        def there(found: list[Json]) -> bool:
            rejected = [each for each in found if observation.condition(each, "PodScheduled") == "False"]
            return (len(found), len(rejected), sum(map(_ready, found))) == (count, pending, count - pending)

        found = await eventually(
            lambda: self.namespace.all(PODS), until=there, saying=f"{self.app}: {count} pods are there"
        )
        return sorted(found, key=lambda each: str(each["metadata"]["name"]))

    async def _settle(self) -> None:
        async def settled() -> bool:
            for each in self._seen.values():
                await each.catch_up()
            quiet = AFTERWARDS if await self._have_ended() else QUIET
            return time.monotonic() - self._last_change() > quiet

        await eventually(settled, within=120, saying=f"{self.app}: the jobs have ended or wait")

    async def _have_ended(self) -> bool:
        now = [await self.api.find(POD_MIGRATION_JOBS, name) for name in self._jobs]
        return all(each is None or each.get("status", {}).get("phase") in ENDED for each in now)

    def _last_change(self) -> float:
        names = self._own_reservations() | self._jobs.keys()
        received = [
            version.received
            for kind in ("jobs", "reservations")
            for version in self._seen[kind].versions
            if version.object["metadata"]["name"] in names
            and (kind == "jobs" or version.change != "MODIFIED")  # schedulers try again and again
        ]
        received += [version.received for version in self._seen["pods"].versions]
        return max(received, default=0.0)


def _ready(pod: Json) -> bool:
    return observation.condition(pod, "Ready") == "True"
