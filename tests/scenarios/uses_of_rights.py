"""What the controller needs each of its rights for: the shortest scenario that cannot succeed without it.

`USES` names one for every right that deploy/kustomize grants; `test_rights` takes the right away and sees it fail. To
grant another right, add a row: with a scenario of here, or a new one.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from tests.cluster.processes import ProcessDiedError
from tests.scenarios import objects, steps, taints
from tests.scenarios.api import Json
from tests.scenarios.claims import bound, listed
from tests.scenarios.conftest import ALONE
from tests.scenarios.controller import Controller
from tests.scenarios.eventually import eventually
from tests.scenarios.features import Feature
from tests.scenarios.installation import LEASE
from tests.scenarios.metrics import total
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import FORCE_RELEASE, PRE_LIST, RESERVED_FOR, PodShape
from tests.scenarios.resources import CLAIMS, LEASES, NODES, POD_GROUPS, PODS, Resource
from tests.scenarios.rights import NAMESPACE, Right
from tests.scenarios.workload_kinds import KINDS, workload
from tests.scenarios.workplaces import Workplace

PATIENCE: Final = 10.0
"""Seconds for which a pod must have been unschedulable before its claim's allocation is doubted."""

BIND_HORIZON: Final = 60.0
"""Seconds after the deletion of its nodes for which a claim is kept whose pods have been in the list."""

T = TypeVar("T")

AT_ONCE: Final = 5
"""Scenarios of one kind that run at the same time: each takes a device, and the nodes have few."""

LEASE_GROUP: Final = "coordination.k8s.io"


Scenario = Callable[[Workplace], Awaitable[None]]


async def fails_without(rights: Sequence[Right], uses: Mapping[Right, Scenario], work: Workplace) -> None:
    """Play the scenarios of rights that are missing there; none of them may succeed."""
    outcomes = await asyncio.gather(*(uses[right](work) for right in rights), return_exceptions=True)
    unmoved = [right for right, outcome in zip(rights, outcomes, strict=True) if outcome is None]
    assert not unmoved, "nothing failed without them"
    assert all(isinstance(outcome, AssertionError | ProcessDiedError) for outcome in outcomes), outcomes


async def it_knows(kind: str, work: Workplace) -> None:
    """It has read all objects of a kind, and does not get ready before."""
    controller = work.spawn()
    await eventually(
        controller.troubles,
        until=lambda text: text is not None and f"{kind}: " not in text,
        within=work.ready_within,
        saying=f"it knows the {kind}",
    )


async def it_serves_a_claim(work: Workplace) -> None:
    """A gated pod of a claim that is reserved: entered, noted, ungated, told."""
    controller, namespace = await work.start(), work.namespace
    await _create(namespace, KINDS["jobs"], "train")
    await work.claim("shared", reserved_for="jobs.batch/train")
    await work.run("worker", claim="shared")
    await steps.claim_is(namespace, "shared", _entered, within=work.soon, saying="it is reserved, and that is noted")
    await steps.told(namespace, "shared", "ReservedForWorkload", within=work.soon)
    await _nothing_was_refused(controller)


async def it_serves_a_claim_that_cannot_be_patched(work: Workplace) -> None:
    """Somebody has put spaces into what a driver is told."""
    await work.start()
    namespace = work.namespace
    await _create(namespace, KINDS["jobs"], "train")
    claim = objects.claim("spaced", device_class=work.devices, reserved_for="jobs.batch/train")
    await steps.create_with_spaces(namespace, claim)
    await work.run("worker", claim="spaced")
    await steps.claim_is(namespace, "spaced", _entered, within=work.soon, saying="it is reserved, and that is noted")
    await steps.end_pods(namespace, "worker")
    await namespace.delete(KINDS["jobs"], "train")
    await steps.freed(namespace, "spaced", within=work.soon)


async def it_heeds_nodes(work: Workplace) -> None:
    """A node falls silent, and what was forbidden becomes allowed."""
    controller, namespace = await work.start(), work.namespace
    node = await steps.add_node(namespace, "own")
    await work.claim("shared")
    await namespace.create(objects.pod("worker", PodShape(claim="shared", spec=steps.on(node))))
    await steps.pods_run(namespace, "worker", within=work.soon)
    await steps.force_release(namespace, "shared")
    await steps.lose_node(namespace, node)
    await steps.freed(namespace, "shared", within=work.soon)
    await _nothing_was_refused(controller)


async def it_annotates_nodes(work: Workplace) -> None:
    """A claim is kept for a workload on a node, which no autoscaler may delete."""
    controller, namespace = await work.start({**ALONE, "annotateNodes": True}), work.namespace
    node = await steps.add_node(namespace, "own")
    await _create(namespace, KINDS["jobs"], "train")
    await work.claim("shared", reserved_for="jobs.batch/train")
    await steps.allocate(namespace, "shared", devices=work.devices, pool=f"{namespace.name}-shared", node=node)
    await work.run("worker", claim="shared")
    await eventually(
        lambda: namespace.api.get(NODES, node),
        until=lambda found: "reserve.dra/kept-node" in found["metadata"].get("annotations", {}),
        within=work.soon,
        saying="the node is annotated",
    )
    await _nothing_was_refused(controller)


async def it_looks_for_other_devices(work: Workplace) -> None:
    """A claim of a workload is allocated on a node that is gone: nodes, devices and classes are read before it goes."""
    controller, namespace = await work.start(), work.namespace
    await _create(namespace, KINDS["jobs"], "train")
    await work.claim("shared", reserved_for="jobs.batch/train")  # else the scheduler's PostFilter takes it back at once
    await steps.allocate(namespace, "shared", devices=work.devices, pool="gone", node="gone")
    await namespace.create(objects.pod("worker", PodShape(claim="shared", gated=True)))
    await steps.told(namespace, "shared", "Deallocated", within=PATIENCE + BIND_HORIZON + 2 * work.soon)
    await _nothing_was_refused(controller)


async def it_looks_up_a_pod(work: Workplace) -> None:
    """A pod is listed of which no watch has ever told."""
    controller, namespace = await work.start(), work.namespace
    await work.claim("shared")
    await steps.allocate(namespace, "shared", devices=work.devices, pool=f"{namespace.name}-shared")
    nobody = {"resource": "pods", "name": "nobody", "uid": "uid-of-nobody"}
    await namespace.patch_status(CLAIMS, "shared", {"reservedFor": [nobody]})
    # Nobody has seen how the pod ended, so the devices follow only when its containers have certainly ended.
    await steps.told(namespace, "shared", "PodsVanished", within=work.soon)
    await _nothing_was_refused(controller)


async def its_writes_conflict(work: Workplace) -> None:
    """Others write the claim faster than it can: it reads it again and goes on."""
    controller, namespace = await work.start(), work.namespace
    await work.claim("shared")
    pod = await namespace.create(objects.pod("starting", PodShape(claim="shared", hold=True)))
    await steps.pod_is(namespace, "starting", bound, within=work.soon, saying="it is bound")

    async def disturb() -> None:
        for number in itertools.count():
            await namespace.patch(CLAIMS, "shared", {"metadata": {"annotations": {"scenario.dra/n": str(number)}}})

    async def conflicts() -> float:
        await steps.unlist(namespace, "shared", pod["metadata"]["uid"])  # which it cannot leave so
        return total(await controller.metrics(), "dra_reserve_claim_conflicts_total")

    disturbing = [asyncio.create_task(disturb()) for _ in range(4)]
    try:
        await eventually(conflicts, saying="a write of the controller conflicted")
    finally:
        for each in disturbing:
            each.cancel()
        await asyncio.gather(*disturbing, return_exceptions=True)
    await steps.claim_is(namespace, "shared", lambda claim: listed(claim) == {"starting"}, saying="it has gone on")
    await _nothing_was_refused(controller)


async def it_counts_what_it_repeats(work: Workplace) -> None:
    """The same thing goes wrong twice: one Event, and in the end it says how often."""
    controller, namespace = await work.start(), work.namespace
    await work.claim("shared")
    for often, value in enumerate(("wrong", "right", "wrong"), start=1):
        force = {FORCE_RELEASE: value} if value == "wrong" else {FORCE_RELEASE: None}
        await namespace.patch(CLAIMS, "shared", {"metadata": {"annotations": {**force, PRE_LIST: str(often)}}})
        if value == "wrong":
            await eventually(
                lambda: _said(controller, "ForceReleaseIgnored"),
                until=lambda times, often=often: times == (often + 1) // 2,
                within=work.soon,
                saying="it says that this is wrong",
            )
        else:
            await namespace.patch(CLAIMS, "shared", {"metadata": {"annotations": {RESERVED_FOR: "nonsense"}}})
            await steps.told(namespace, "shared", "MalformedReference", within=work.soon)
    await steps.told(namespace, "shared", "ForceReleaseIgnored", within=work.soon)
    await controller.stop()
    counts = [(event.get("series") or {}).get("count", 1) for event in await namespace.events("shared")]
    assert 2 in counts


async def it_leads(work: Workplace) -> None:
    """With a lease, which nobody has made yet; at the end it gives the lease back."""
    await work.namespace.api.delete(LEASES, LEASE, namespace=NAMESPACE)
    controller = await work.start({})
    await eventually(
        lambda: work.namespace.api.find(LEASES, LEASE, namespace=NAMESPACE),
        until=lambda lease: lease and lease["spec"].get("holderIdentity"),
        within=work.soon,
        saying="it has the lease",
    )
    await controller.stop()
    lease = await work.namespace.api.get(LEASES, LEASE, namespace=NAMESPACE)
    assert not lease["spec"].get("holderIdentity")


async def it_succeeds_another_leader(work: Workplace) -> None:
    """The lease is there already; it is read, and taken."""
    lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": {"name": LEASE}, "spec": {}}
    await work.namespace.api.delete(LEASES, LEASE, namespace=NAMESPACE)
    await work.namespace.api.create(lease, namespace=NAMESPACE)
    await work.start({})
    await eventually(
        lambda: work.namespace.api.get(LEASES, LEASE, namespace=NAMESPACE),
        until=lambda found: found["spec"].get("holderIdentity"),
        within=work.soon,
        saying="it has the lease",
    )


async def it_makes_claims_from_templates(work: Workplace) -> None:
    """A template comes later than the pod that needs it; when the pod has ended, its claim goes."""
    controller, namespace = await work.start(), work.namespace
    await namespace.create(objects.pod("owner", PodShape(claim_template="own")))
    await steps.told(namespace, "owner", "FailedResourceClaimCreation", within=work.soon)
    await namespace.create(objects.claim_template("own", device_class=work.devices))
    await steps.pods_run(namespace, "owner", within=work.soon)
    await steps.end_pods(namespace, "owner")
    await eventually(
        lambda: namespace.all(CLAIMS), until=lambda claims: not claims, within=work.soon, saying="its claim is gone"
    )
    await _nothing_was_refused(controller)


async def it_evicts(work: Workplace) -> None:
    """A device gets a taint while a pod uses it that is not listed."""
    controller, namespace = await work.start(), work.namespace
    await namespace.create(objects.deployment(taints.WORKLOAD, PodShape(), replicas=0))
    await taints.reserve(namespace, "shared", devices=work.devices)
    (pod,) = await taints.run_unlisted(namespace, "shared")
    await taints.put(namespace, await taints.device_of(namespace, "shared"), taints=[taints.BROKEN])
    await eventually(
        lambda: namespace.find(PODS, pod), until=lambda left: left is None, within=work.soon, saying="it is evicted"
    )
    await _nothing_was_refused(controller)


async def it_heeds_taint_rules(work: Workplace) -> None:
    """An administrator taints the device of a pod that is not in the list."""
    await work.start()
    namespace = work.namespace
    await namespace.create(objects.deployment(taints.WORKLOAD, PodShape(), replicas=0))
    await taints.reserve(namespace, "shared", devices=work.devices)
    (pod,) = await taints.run_unlisted(namespace, "shared")
    await namespace.create(taints.rule(namespace.name, {"driver": work.devices}))
    await eventually(
        lambda: namespace.find(PODS, pod), until=lambda left: left is None, within=work.soon, saying="it is evicted"
    )


async def it_makes_claims_of_groups(work: Workplace) -> None:
    """A PodGroup that the list shows gets its claim, and one that only the watch can show.

    A controller is ready before it has listed a kind that not every API server serves.
    """
    namespace = work.namespace
    await namespace.create(objects.claim_template("gpu", device_class=work.devices))
    for name in ("listed", "watched"):
        await namespace.create(objects.pod_group(name, PodShape(claim_template="gpu", group=name)))
        if name == "listed":
            await work.start()
        await eventually(
            lambda name=name: namespace.get(POD_GROUPS, name),
            until=lambda group: group.get("status", {}).get("resourceClaimStatuses"),
            within=work.soon,
            saying=f"the status of {name} names its claim",
        )


async def it_asks_for_groups(work: Workplace) -> None:
    """A claim lists a PodGroup of a uid of which no watch has ever told."""
    await work.start()
    namespace = work.namespace
    await work.claim("shared")
    await work.run("worker", claim="shared")
    nobody = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "crew", "uid": "uid-of-nobody"}
    await namespace.patch_status(CLAIMS, "shared", {"reservedFor": [nobody]})
    await steps.end_pods(namespace, "worker")
    # The devices follow a bind horizon later: any pod of the group may be bound meanwhile.
    await steps.claim_is(
        namespace,
        "shared",
        lambda claim: not listed(claim, "podgroups"),
        within=work.soon,
        saying="nobody's entry goes",
    )


# Workloads, by kind:


async def _used_claim(work: Workplace, name: str, kind: Resource, *, workload: str, uid: str | None = None) -> None:
    await work.start()
    await work.claim(name, reserved_for=f"{kind.plural}.{kind.api_version.partition('/')[0]}/{workload}", uid=uid)
    await work.run(name, claim=name, gated=False)


async def it_follows_workloads(alias: str, work: Workplace) -> None:
    """A claim names a workload that comes later."""
    kind, namespace, name = KINDS[alias], work.namespace, f"early-{alias}"
    await _used_claim(work, name, kind, workload=f"late-{alias}")
    # Only then has the controller listed the kind, and nothing but the watch can show the workload.
    await steps.told(namespace, name, "WorkloadNotFound", within=work.soon)
    made = await _create(namespace, kind, f"late-{alias}")
    await steps.claim_is(
        namespace,
        name,
        lambda claim: made["metadata"]["uid"] in steps.uids(claim),
        within=work.soon,
        saying="it is reserved",
    )


async def it_asks_for_workloads(alias: str, work: Workplace) -> None:
    """A claim names a uid of which no watch has ever told."""
    kind, namespace, name = KINDS[alias], work.namespace, f"wrong-{alias}"
    await _create(namespace, kind, f"other-{alias}")
    await _used_claim(work, name, kind, workload=f"other-{alias}", uid="uid-of-nobody")
    await eventually(
        lambda: steps.reasons(namespace, name),
        until={"WorkloadGone", "ReleaseWaitsForPods"}.intersection,  # the latter if it was entered before it was asked
        within=work.soon,
        saying=f"an Event about {name} says that its workload is gone",
    )


async def _create(namespace: Namespace, kind: Resource, name: str) -> Json:
    return await namespace.api.request("POST", kind.path(namespace=namespace.name), workload(kind, name))


def _entered(claim: Json) -> bool:
    return bool(listed(claim, "jobs")) and "reserve.dra/entered-allocation" in claim["metadata"]["annotations"]


async def _said(controller: Controller, reason: str) -> float:
    return (await controller.metrics())[f'dra_reserve_reasons_total{{reason="{reason}"}}']


async def _nothing_was_refused(controller: Controller) -> None:
    """Whatever it tried it was allowed to do; but the namespace of the test before, going away, takes no Events."""
    refused = [series for series in await controller.metrics() if 'code="403"' in series and "events" not in series]
    assert not refused, refused


# Which right is needed for what:


CLAIM_GROUP: Final = "resource.k8s.io"


def _rights(resource: str, *verbs: str, group: str = "", **where: Any) -> tuple[Right, ...]:
    return tuple(Right(resource=resource, group=group, verb=verb, **where) for verb in verbs)


def _of_workloads(scenario: Callable[[str, Workplace], Awaitable[None]], *verbs: str) -> dict[Right, Scenario]:
    found: dict[Right, Scenario] = {}
    for alias, kind in KINDS.items():
        group = kind.api_version.partition("/")[0]
        found |= dict.fromkeys(_rights(kind.plural, *verbs, group=group), partial(scenario, alias))
    return found


USES: Final[dict[Right, Scenario]] = {
    **{
        right: partial(it_knows, str(right).removesuffix(":list"))
        for right in (
            *_rights("pods", "list"),
            *_rights("nodes", "list"),
            *_rights("resourceclaims", "list", group=CLAIM_GROUP),
            *_rights("resourceclaimtemplates", "list", group=CLAIM_GROUP),
            *_rights("resourceslices", "list", group=CLAIM_GROUP),
        )
    },
    **dict.fromkeys(
        (
            *_rights("resourceclaims", "watch", "patch", "reserve", group=CLAIM_GROUP),
            *_rights("resourceclaims/status", "patch", group=CLAIM_GROUP),
            *_rights("resourceclaims/binding", "patch", group=CLAIM_GROUP),
            *_rights("pods", "watch", "patch"),
            *_rights("events", "create", group="events.k8s.io"),
        ),
        it_serves_a_claim,
    ),
    **dict.fromkeys(
        (
            *_rights("resourceclaims", "update", group=CLAIM_GROUP),
            *_rights("resourceclaims/status", "update", group=CLAIM_GROUP),
            *_rights("resourceclaims/binding", "update", group=CLAIM_GROUP),
        ),
        it_serves_a_claim_that_cannot_be_patched,
    ),
    **dict.fromkeys(_rights("resourceclaims", "get", group=CLAIM_GROUP), its_writes_conflict),
    **dict.fromkeys(_rights("pods", "get"), it_looks_up_a_pod),
    **dict.fromkeys(_rights("nodes", "watch"), it_heeds_nodes),
    **dict.fromkeys(_rights("nodes", "patch"), it_annotates_nodes),
    **dict.fromkeys(_rights("deviceclasses", "list", group=CLAIM_GROUP), it_looks_for_other_devices),
    **dict.fromkeys(_rights("events", "patch", group="events.k8s.io"), it_counts_what_it_repeats),
    **dict.fromkeys(_rights("leases", "create", group=LEASE_GROUP, everywhere=False), it_leads),
    **dict.fromkeys(
        _rights("leases", "get", "patch", group=LEASE_GROUP, everywhere=False, name=LEASE), it_succeeds_another_leader
    ),
    **dict.fromkeys(
        (
            *_rights("resourceclaimtemplates", "watch", group=CLAIM_GROUP),
            *_rights("resourceclaims", "create", "delete", group=CLAIM_GROUP),
            *_rights("pods/status", "patch"),
        ),
        it_makes_claims_from_templates,
    ),
    **dict.fromkeys((*_rights("resourceslices", "watch", group=CLAIM_GROUP), *_rights("pods", "delete")), it_evicts),
    **_of_workloads(it_follows_workloads, "list", "watch"),
    **_of_workloads(it_asks_for_workloads, "get"),
}


NEEDED_FOR: Final[dict[Right, Feature]] = {
    **dict.fromkeys(_rights("resourceclaims/binding", "patch", "update", group=CLAIM_GROUP), Feature.BINDING_RIGHT),
    **dict.fromkeys((right for right, scenario in USES.items() if scenario is it_evicts), Feature.DEVICE_TAINTS),
}
"""Rights that only some versions of Kubernetes ask for."""

BEHIND_GATES: Final[dict[Right, Scenario]] = {
    **dict.fromkeys(_rights("devicetaintrules", "list", "watch", group=CLAIM_GROUP), it_heeds_taint_rules),
    **dict.fromkeys(
        (
            *_rights("podgroups", "list", "watch", group="scheduling.k8s.io"),
            *_rights("podgroups/status", "patch", group="scheduling.k8s.io"),
        ),
        it_makes_claims_of_groups,
    ),
    **dict.fromkeys(_rights("podgroups", "get", group="scheduling.k8s.io"), it_asks_for_groups),
}
"""Rights to kinds that some API servers have only with feature gates: there nobody would notice that they are gone."""


def batches(items: Sequence[T], size: int) -> Iterator[tuple[T, ...]]:
    """Yield the items in batches of at most this size."""
    return (tuple(items[start : start + size]) for start in range(0, len(items), size))


def at_once() -> tuple[tuple[Right, ...], ...]:
    """Return the rights in groups that can be taken away together: those that do not meet.

    They are the verbs on different kinds of workloads, and the first lists of different kinds.
    """
    groups: dict[object, list[Right]] = {}
    for right, scenario in USES.items():
        together = (scenario.func, right.verb) if isinstance(scenario, partial) else right
        groups.setdefault(together, []).append(right)
    return tuple(batch for group in groups.values() for batch in batches(group, AT_ONCE))
