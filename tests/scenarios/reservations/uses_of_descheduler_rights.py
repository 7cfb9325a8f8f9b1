"""What the descheduler needs each of its rights for: the shortest scenario that cannot succeed without it.

`USES` names one for every right that deploy/descheduler grants. To grant another right, add a row: with a scenario of
here, or a new one.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from dra.api.migration.well_known import ANNOTATION_SOFT_EVICTION
from tests.cluster.ports import LOOPBACK
from tests.scenarios import controller, metrics, namespaces, objects
from tests.scenarios.api import Api, Json
from tests.scenarios.eventually import eventually
from tests.scenarios.faults import Fault, Kind
from tests.scenarios.namespaces import Namespace
from tests.scenarios.reservations.migrations import condition, deployment, migration, outcome, ready_pods
from tests.scenarios.reservations.proxied import Proxied
from tests.scenarios.reservations.test_migrations import budget, counted
from tests.scenarios.reservations.test_migrations_faults import asking, options
from tests.scenarios.resources import CRDS, EVENTS, LEASES, POD_MIGRATION_JOBS, PODS, RESERVATIONS, Resource
from tests.scenarios.rights import NAMESPACE, Right

AHEAD: Final = (sys.executable, "-P", str(Path(controller.__file__).with_name("ahead.py")))
"""The command, on a machine whose time of day is ahead."""

LEASE: Final = "dra-reserve-descheduler"
GROUP: Final = "scheduling.koordinator.sh"
OFFERING: Final = ("node-0", "node-1")
CONFLICTS_IN_A_ROW: Final = 8
"""With a retry after each conflict the job would wait for a minute."""

BUDGETS_OF_KRUISE: Final = Resource(
    "policy.kruise.io/v1alpha1", "PodUnavailableBudget", "podunavailablebudgets", namespaced=True
)

CLONE_SETS: Final = Resource("apps.kruise.io/v1alpha1", "CloneSet", "clonesets", namespaced=True)
STATEFUL_SETS_OF_KRUISE: Final = Resource("apps.kruise.io/v1beta1", "StatefulSet", "statefulsets", namespaced=True)

OF_KRUISE: Final = (BUDGETS_OF_KRUISE, CLONE_SETS, STATEFUL_SETS_OF_KRUISE)
"""Kinds of OpenKruise, of which the descheduler knows."""

Goal = Callable[[], Awaitable[object]]


@dataclass(kw_only=True)
class Workplace:
    """The API, and a descheduler with the rights in question."""

    api: Api
    namespace: Namespace
    descheduler: Proxied
    metrics_port: int
    stack: AsyncExitStack
    number: int = 0

    def new_name(self) -> str:
        """Return a name that no other object has."""
        self.number += 1
        return f"web-{self.number}"

    async def acts(self) -> None:
        """Start the descheduler if it does not run."""
        if not self.descheduler.process.alive:
            await self.restarted()

    async def restarted(self, **changes: Any) -> None:
        """Start the descheduler again."""
        await self.stopped(**changes)
        await self.descheduler.start()

    async def stopped(self, *, program: tuple[str, ...] = controller.IMPATIENT, **changes: Any) -> None:
        """Stop the descheduler, to be started with a configuration."""
        await self.descheduler.stop()
        self.descheduler.configure(program, **({"leaderElection": {"enabled": False}} | changes))

    def refused(self, right: Right) -> bool:
        """Tell whether the API server has refused a request that takes a right."""
        verb = "patch" if right.verb == "migrate" else right.verb
        return any(
            (each.call.verb, each.call.resource, each.answer) == (verb, right.resource, 403)
            for each in self.descheduler.proxy.exchanges
        )

    async def counted_as_refused(self) -> bool:
        """Tell whether a metric counts requests that were refused."""
        async with (
            aiohttp.ClientSession(trust_env=False) as session,
            session.get(f"http://{LOOPBACK}:{self.metrics_port}/metrics") as answer,
        ):
            found = metrics.parse(await answer.text())
        return any('code="403"' in series for series in found)

    def has_ended_pods(self) -> bool:
        """Tell whether the descheduler has ended any pod."""
        return any(
            each.answer in {200, 201}
            and (each.call.resource == "pods/eviction" or (each.call.resource, each.call.verb) == ("pods", "delete"))
            for each in self.descheduler.proxy.exchanges
        )

    async def job(self, name: str) -> Json:
        return await self.api.get(POD_MIGRATION_JOBS, name)

    async def runs(self, name: str, namespace: str = "default", **spec: Any) -> Json:
        """Return the pod of a new Deployment, once it is ready."""
        await self.api.create(deployment(name, replicas=1, **spec), namespace=namespace)
        (pod,) = await ready_pods(self.api, name, 1, namespace=namespace)
        return pod

    def ends(self, name: str, phase: str, reason: str = "") -> Goal:
        """Return whether a job has come to an end."""

        async def goal() -> bool:
            return outcome(await self.job(name)) == (phase, reason)

        return goal

    def waits(self, name: str, reason: str) -> Goal:
        """Return whether a job waits for arbitration."""

        async def goal() -> bool:
            return condition(await self.job(name), "PassedArbitration")[1] == reason

        return goal


def definition(kind: Resource) -> Json:
    """Return a definition of a kind of OpenKruise."""
    group, _, version = kind.api_version.partition("/")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    if kind is not BUDGETS_OF_KRUISE:
        paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
        served["subresources"] = {"scale": paths}
    names = {"plural": kind.plural, "singular": kind.kind.lower(), "kind": kind.kind}
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.kind,
        "metadata": {"name": f"{kind.plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
    }


Scenario = Callable[[Workplace], Awaitable[Goal]]


async def it_migrates(work: Workplace) -> Goal:
    await work.acts()
    name = work.new_name()
    await work.api.create(migration(name, await work.runs(name)))
    return work.ends(name, "Succeeded")


async def its_writes_conflict(work: Workplace) -> Goal:
    """Others write the job faster than it can: it reads the job again and goes on."""
    await work.acts()
    name = work.new_name()
    pod = await work.runs(name)
    work.descheduler.proxy.inject(
        Fault(kind=Kind.CONFLICT, verbs=frozenset({"patch"}), path=f"/{name}$", times=CONFLICTS_IN_A_ROW)
    )
    await work.api.create(migration(name, pod))
    return work.ends(name, "Succeeded")


async def it_deletes_jobs_that_ended(work: Workplace) -> Goal:
    """Ten minutes after the creation of a job that failed at once."""
    await work.restarted(program=AHEAD)
    name = work.new_name()
    nobody: Json = {"metadata": {"namespace": "default", "name": "nobody"}}
    await work.api.create(migration(name, nobody))

    async def goal() -> bool:
        return await work.api.find(POD_MIGRATION_JOBS, name) is None

    return goal


async def it_deletes_what_nobody_uses(work: Workplace) -> Goal:
    """A Reservation is larger than any node, and its job fails."""
    await work.acts()
    name = work.new_name()
    pod = await work.runs(name)
    owners = [{"labelSelector": {"matchLabels": {"app": name}}}]
    template = asking("1k") | {"metadata": {"namespace": "default"}}
    made = await work.api.create(migration(name, pod, ttl="3s", **options(owners=owners, template=template)))

    async def goal() -> bool:
        gone = await work.api.find(RESERVATIONS, made["metadata"]["uid"]) is None
        return gone and outcome(await work.job(name)) == ("Failed", "Timeout")

    return goal


async def it_deletes_pods(work: Workplace) -> Goal:
    await work.acts()
    name = work.new_name()
    pod = await work.runs(name)
    await work.api.create(migration(name, pod, labels={"koordinator.sh/evict-policy": "Delete"}))
    return work.ends(name, "Succeeded")


async def it_asks_pods_to_end(work: Workplace) -> Goal:
    await work.acts()
    pod = await _asked(work)

    async def goal() -> bool:
        return ANNOTATION_SOFT_EVICTION in await _annotations(work, pod)

    return goal


async def it_heeds_a_priority_class(work: Workplace) -> Goal:
    """The threshold of priorities is the name of a class, whose value arbitration reads."""
    threshold = {"priorityThreshold": {"name": "system-cluster-critical"}}
    await work.restarted(migration={"objectLimiters": {"workload": {"duration": "0s"}}, **threshold})
    name = work.new_name()
    await work.api.create(migration(name, await work.runs(name)))
    return work.ends(name, "Succeeded")


async def it_counts_what_it_repeats(work: Workplace) -> Goal:
    """A pod is asked to end twice, since the first wish is lost: one Event, which says in the end how often."""
    await work.acts()
    pod = await _asked(work)
    for again in (True, False):
        await eventually(
            lambda: _annotations(work, pod),
            until=lambda found: ANNOTATION_SOFT_EVICTION in found,
            within=20.0,
            saying="the pod is asked to end",
        )
        if again:
            lost = {"metadata": {"annotations": {ANNOTATION_SOFT_EVICTION: None}}}
            await work.api.patch(PODS, pod["metadata"]["name"], lost, namespace="default")
    await work.descheduler.stop()
    events = await work.api.all(EVENTS, fieldSelector=f"involvedObject.uid={pod['metadata']['uid']}")

    async def goal() -> bool:
        return any((event.get("series") or {}).get("count") == 2 for event in events)

    return goal


async def it_tells(work: Workplace) -> Goal:
    await work.acts()
    name = work.new_name()
    made = await work.api.create(migration(name, await work.runs(name)))

    async def goal() -> bool:
        found = await work.api.all(EVENTS, fieldSelector=f"involvedObject.uid={made['metadata']['uid']}")
        return any(each["reason"] == "Complete" for each in found)

    return goal


async def it_waits_for_budgets(work: Workplace) -> Goal:
    """The budget comes while the descheduler runs."""
    await work.acts()
    name = work.new_name()
    pod = await work.runs(name)
    await work.api.create(budget(name, minAvailable=1), namespace="default")
    await counted(work.api, name, allowed=0)
    await work.api.create(migration(name, pod))
    return work.waits(name, "PodDisruptionBudget")


async def it_waits_for_budgets_of_kruise(work: Workplace) -> Goal:
    """The same for pods that OpenKruise protects."""
    await work.acts()
    name = work.new_name()
    pod = await work.runs(name)
    path = BUDGETS_OF_KRUISE.path(namespace="default")
    selector = {"selector": {"matchLabels": {"app": name}}}
    made = {
        "apiVersion": BUDGETS_OF_KRUISE.api_version,
        "kind": BUDGETS_OF_KRUISE.kind,
        "metadata": {"name": name},
        "spec": selector,
        "status": {"unavailableAllowed": 0, "desiredAvailable": 1},
    }
    await work.api.request("POST", path, made)
    await work.api.create(migration(name, pod))
    return work.waits(name, "PodUnavailableBudget")


async def it_begins(work: Workplace) -> Goal:
    """It reads the cluster, and acts."""
    await work.stopped()
    return _begins(work)


async def it_leads(work: Workplace) -> Goal:
    """With a lease, which nobody has made yet."""
    await _without_lease(work)
    return _begins(work)


async def it_succeeds_another_leader(work: Workplace) -> Goal:
    """The lease is there already; it is read, and taken."""
    await _without_lease(work)
    lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": {"name": LEASE}, "spec": {}}
    await work.api.create(lease, namespace=NAMESPACE)
    return _begins(work)


async def it_heeds_claims_by_name(work: Workplace) -> Goal:
    """The devices of the claim are on one node."""
    await work.acts()
    name, of = work.new_name(), await _devices(work)
    await work.namespace.create(objects.claim(name, device_class=of))
    claims = [{"name": "gpu", "resourceClaimName": name}]
    await work.api.create(migration(name, await work.runs(name, work.namespace.name, resourceClaims=claims)))
    return work.ends(name, "Failed", "ForbiddenMigratePod")


async def it_sees_that_devices_are_held(work: Workplace) -> Goal:
    await work.acts()
    name, of = work.new_name(), await _devices(work)
    await work.namespace.create(objects.claim_template(name, device_class=of))
    claims = [{"name": "gpu", "resourceClaimTemplateName": name}]
    await work.api.create(migration(name, await work.runs(name, work.namespace.name, resourceClaims=claims)))
    return work.ends(name, "Succeeded")


def it_knows_the_replicas(kind: str) -> Scenario:
    """Return the scenario of a workload that wants two pods, and has one, since its namespace may have no more.

    All pods of a workload with one replica would be away at once, so they are not evicted directly.
    """

    async def scenario(work: Workplace) -> Goal:
        await work.acts()
        name = work.new_name()
        made = namespaces.temporary(work.api, purpose=f"replicas-of-{kind.lower()}")
        namespace = await work.stack.enter_async_context(made)
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "one"},
            "spec": {"hard": {"pods": "1"}},
        }
        path = f"/api/v1/namespaces/{namespace.name}/resourcequotas"
        await work.api.request("POST", path, quota)
        await eventually(
            lambda: work.api.request("GET", f"{path}/one"),
            until=lambda found: "hard" in found.get("status", {}),
            saying="the quota is in force",
        )
        workload = _workload(kind, name)
        group = workload["apiVersion"]
        plural = kind.lower() + "s"
        root = "/api/v1" if group == "v1" else f"/apis/{group}"
        await work.api.request("POST", f"{root}/namespaces/{namespace.name}/{plural}", workload)
        (pod,) = await ready_pods(work.api, name, 1, namespace=namespace.name)
        await work.api.create(migration(name, pod, mode="EvictDirectly"))
        return work.ends(name, "Succeeded")

    scenario.__name__ = f"it_knows_the_replicas_of_a_{kind.lower()}"
    return scenario


def it_knows_the_scale(kind: Resource) -> Scenario:
    """Return the same scenario of a kind of OpenKruise; nobody makes pods of it here but the scenario."""

    async def scenario(work: Workplace) -> Goal:
        await work.acts()
        name = work.new_name()
        spec = deployment(name, replicas=2)["spec"]
        workload = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}
        made = await work.api.request("POST", kind.path(namespace="default"), workload)
        owner = {"apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": made["metadata"]["uid"]}
        template = spec["template"]
        metadata = {**template["metadata"], "name": name, "ownerReferences": [{**owner, "controller": True}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        await work.api.create(pod, namespace="default")
        (pod,) = await ready_pods(work.api, name, 1)
        await work.api.create(migration(name, pod, mode="EvictDirectly"))
        return work.ends(name, "Succeeded")

    scenario.__name__ = f"it_knows_the_scale_of_{kind.plural}_of_openkruise"
    return scenario


def _workload(kind: str, name: str) -> Json:
    """Return a workload of a kind that wants two pods."""
    spec = deployment(name, replicas=2)["spec"]
    version = {"ReplicationController": "v1", "Job": "batch/v1"}.get(kind, "apps/v1")
    if kind == "ReplicationController":
        spec["selector"] = spec["selector"]["matchLabels"]
    if kind == "StatefulSet":
        spec["serviceName"] = name
    if kind == "Job":
        template = spec["template"]
        template["spec"]["restartPolicy"] = "Never"
        spec = {"parallelism": 2, "completions": 2, "template": template}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


async def _asked(work: Workplace) -> Json:
    """Create a job that asks its pod to end; return the pod."""
    name = work.new_name()
    pod = await work.runs(name)
    await work.api.create(migration(name, pod, labels={"koordinator.sh/evict-policy": "SoftEviction"}))
    return pod


async def _annotations(work: Workplace, pod: Json) -> Json:
    found = await work.api.get(PODS, pod["metadata"]["name"], namespace="default")
    annotations: Json = found["metadata"].get("annotations", {})
    return annotations


async def _without_lease(work: Workplace) -> None:
    leads = {"enabled": True, "leaseSeconds": 4, "renewSeconds": 2, "retrySeconds": 0.2}
    await work.stopped(leaderElection=leads)
    if await work.api.find(LEASES, LEASE, namespace=NAMESPACE) is not None:
        await work.api.delete(LEASES, LEASE, namespace=NAMESPACE)


def _begins(work: Workplace) -> Goal:
    """Start the descheduler; return whether it acts."""
    work.descheduler.spawn()

    async def goal() -> bool:
        return work.descheduler.acts()

    return goal


async def _devices(work: Workplace) -> str:
    """Offer a device on each of two nodes; return their class."""
    name = f"{work.new_name()}.{work.namespace.name}.scenario.dra"
    await work.namespace.create(objects.device_class(name, driver=name))
    for node in OFFERING:
        await work.namespace.create(objects.resource_slice(f"{name}-{node}", driver=name, devices=["gpu-0"], node=node))
    return name


def _rights(resource: str, *verbs: str, group: str = "", **where: Any) -> tuple[Right, ...]:
    return tuple(Right(resource=resource, group=group, verb=verb, **where) for verb in verbs)


LEASE_GROUP: Final = "coordination.k8s.io"
KRUISE: Final = "policy.kruise.io"

USES: Final[dict[Scenario, tuple[Right, ...]]] = {
    it_migrates: (
        *_rights("podmigrationjobs", "watch", "patch", "migrate", group=GROUP),
        *_rights("podmigrationjobs/status", "patch", group=GROUP),
        *_rights("reservations", "get", "watch", "create", group=GROUP),
        *_rights("pods", "get", "watch"),
        *_rights("pods/eviction", "create"),
    ),
    it_begins: (
        *_rights("podmigrationjobs", "list", group=GROUP),
        *_rights("reservations", "list", group=GROUP),
        *_rights("pods", "list"),
        *_rights("poddisruptionbudgets", "list", group="policy"),
        *_rights("podunavailablebudgets", "list", group=KRUISE),
    ),
    its_writes_conflict: _rights("podmigrationjobs", "get", group=GROUP),
    it_deletes_jobs_that_ended: _rights("podmigrationjobs", "delete", group=GROUP),
    it_deletes_what_nobody_uses: _rights("reservations", "delete", group=GROUP),
    it_deletes_pods: _rights("pods", "delete"),
    it_asks_pods_to_end: _rights("pods", "patch"),
    it_waits_for_budgets: _rights("poddisruptionbudgets", "watch", group="policy"),
    it_waits_for_budgets_of_kruise: _rights("podunavailablebudgets", "watch", group=KRUISE),
    it_knows_the_replicas("ReplicaSet"): _rights("replicasets", "get", group="apps"),
    it_knows_the_replicas("StatefulSet"): _rights("statefulsets", "get", group="apps"),
    it_knows_the_replicas("ReplicationController"): _rights("replicationcontrollers", "get"),
    it_knows_the_replicas("Job"): _rights("jobs", "get", group="batch"),
    it_knows_the_scale(CLONE_SETS): _rights("clonesets/scale", "get", group="apps.kruise.io"),
    it_knows_the_scale(STATEFUL_SETS_OF_KRUISE): _rights("statefulsets/scale", "get", group="apps.kruise.io"),
    it_heeds_a_priority_class: _rights("priorityclasses", "get", group="scheduling.k8s.io"),
    it_heeds_claims_by_name: _rights("resourceclaims", "get", group="resource.k8s.io"),
    it_sees_that_devices_are_held: _rights("resourceclaims", "list", group="resource.k8s.io"),
    it_tells: _rights("events", "create", group="events.k8s.io"),
    it_counts_what_it_repeats: _rights("events", "patch", group="events.k8s.io"),
    it_leads: _rights("leases", "create", group=LEASE_GROUP, everywhere=False),
    it_succeeds_another_leader: _rights("leases", "get", "patch", group=LEASE_GROUP, everywhere=False, name=LEASE),
}

_REPLICAS: Final = {
    right
    for rights in USES.values()
    for right in rights
    if right.resource in {"replicasets", "statefulsets", "replicationcontrollers", "jobs"}
    or right.resource.endswith("/scale")
}
FINAL: Final[frozenset[Right]] = frozenset(
    {
        *_REPLICAS,
        *_rights("reservations", "create", group=GROUP),
        *_rights("poddisruptionbudgets", "watch", group="policy"),
        *_rights("podunavailablebudgets", "watch", group=KRUISE),
        *_rights("events", "create", "patch", group="events.k8s.io"),
    }
)
"""Rights whose lack decides the outcome for good; without any other, the job goes on once the right is granted."""

EVICTING: Final[frozenset[Right]] = frozenset(
    (*_rights("pods/eviction", "create"), *_rights("pods", "patch", "delete"))
)
"""Rights to end pods, which deploy/descheduler/admission.yaml asks for before a job may begin."""

SILENT: Final[frozenset[Right]] = frozenset(_rights("events", "create", "patch", group="events.k8s.io"))
"""Rights whose lack a metric reports, and no line of the log: there may be thousands of Events."""

PODS_END: Final[frozenset[Right]] = frozenset(
    {
        *_rights("podunavailablebudgets", "watch", group=KRUISE),  # OpenKruise itself still refuses the eviction
        *_rights("events", "create", group="events.k8s.io"),
        *_rights("podmigrationjobs", "get", group=GROUP),
    }
)
"""Rights without which pods may end: nothing that is missing is about whether they may."""
