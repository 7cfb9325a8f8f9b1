"""What scenarios do and wait for again and again, in the words of the rules."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from tests.cluster import fake_nodes
from tests.scenarios import objects
from tests.scenarios.claims import allocated, bound, condition, entries, revision, started
from tests.scenarios.eventually import WITHIN, eventually
from tests.scenarios.resources import CLAIMS, NODES, PODS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.scenarios.history import WatchHistory
    from tests.scenarios.namespaces import Namespace

Json = dict[str, Any]

FREED_WITHIN: Final = 60.0
"""Seconds until devices count as kept; a controller that starts waits ten for late writes of the one before."""

UNSCHEDULABLE: Final = {"nodeSelector": {"scenario.dra/no-such": "node"}}
"""For `PodShape.spec`: no node takes the pod, whatever its claims are."""


def on(node: str) -> Json:
    """Return what `PodShape.spec` needs so that only this node takes the pod."""
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def free(claim: Json) -> bool:
    """Tell whether nothing is left of an allocation: neither devices nor the finalizer nor our notes about it."""
    ours = {key for key in claim["metadata"].get("annotations", {}) if key.startswith("reserve.dra/")}
    whose = {
        objects.RESERVED_FOR,
        objects.RESERVED_FOR_UID,
        "reserve.dra/resolved-uid",
        "reserve.dra/resolved-for",
    }  # not about an allocation
    return not allocated(claim) and not claim["metadata"].get("finalizers") and ours <= whose


def gates(pod: Json) -> list[str]:
    """Return the scheduling gates that the pod still has."""
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]


def unschedulable(pod: Json) -> bool:
    """Tell whether the scheduler has tried the pod and found no node."""
    return any(
        each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable"
        for each in pod["status"].get("conditions", [])
    )


async def create_with_spaces(namespace: Namespace, claim: Json) -> None:
    """Create a claim with parameters for a driver, as a client does that writes JSON for people."""
    parameters = {"kind": "GpuConfig", "sharing": {"strategy": "TimeSlicing"}}
    claim["spec"]["devices"]["config"] = [{"opaque": {"driver": "example.com", "parameters": parameters}}]
    path = CLAIMS.path(namespace=namespace.name)
    await namespace.api.request("POST", path, json.dumps(claim).encode())


async def claim_is(
    namespace: Namespace, name: str, until: Callable[[Json], object], *, saying: str, within: float = WITHIN
) -> Json:
    """Wait for a state of a claim."""
    return await eventually(
        lambda: namespace.get(CLAIMS, name), until=until, within=within, saying=f"claim {name}: {saying}"
    )


async def pod_is(
    namespace: Namespace, name: str, until: Callable[[Json], object], *, saying: str, within: float = WITHIN
) -> Json:
    """Wait for a state of a pod."""
    return await eventually(
        lambda: namespace.get(PODS, name), until=until, within=within, saying=f"pod {name}: {saying}"
    )


async def pods_run(namespace: Namespace, *names: str, count: int = 1, within: float = WITHIN) -> None:
    """Wait until these pods, or without names all pods and at least so many, have their sandboxes."""

    def all_started(pods: list[Json]) -> bool:
        chosen = [pod for pod in pods if not names or pod["metadata"]["name"] in names]
        return len(chosen) >= (len(names) or count) and all(map(started, chosen))

    await eventually(lambda: namespace.all(PODS), until=all_started, within=within, saying=f"{names or 'all pods'} run")


async def freed(namespace: Namespace, name: str, *, within: float = FREED_WITHIN) -> Json:
    """Wait until the claim has given back its devices, finalizer and notes included."""
    return await claim_is(namespace, name, free, within=within, saying="its devices are free")


async def reasons(namespace: Namespace, about: str) -> set[str]:
    """Return the reasons of all Events about the object of that name."""
    return {event["reason"] for event in await namespace.events(about)}


async def told(namespace: Namespace, about: str, reason: str, *, within: float = WITHIN) -> None:
    """Wait for an Event."""
    await eventually(
        lambda: reasons(namespace, about),
        until=lambda found: reason in found,
        within=within,
        saying=f"an Event about {about} says {reason}",
    )


async def note(namespace: Namespace, about: str, reason: str) -> str:
    """Return what the last Event of that reason says; wait for one."""
    await told(namespace, about, reason)
    found = [event for event in await namespace.events(about) if event["reason"] == reason]
    text: str = max(found, key=revision)["message"]
    return text


async def list_too(namespace: Namespace, claim: str, *more: Json) -> Json:
    """Add entries as any other client may: without looking, each by its uid."""
    return await namespace.patch_status(CLAIMS, claim, {"reservedFor": [*more]}, kind="strategic-merge-patch")


async def unlist(namespace: Namespace, claim: str, *uids: str) -> Json:
    """Remove entries, as the scheduler's Unreserve and the owners of workloads do."""
    gone = {"reservedFor": [{"$patch": "delete", "uid": uid} for uid in uids]}
    return await namespace.patch_status(CLAIMS, claim, gone, kind="strategic-merge-patch")


def entry(obj: Json, resource: str, *, group: str = "") -> Json:
    """Return the entry that stands for an object."""
    named = {"resource": resource, "name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}
    return {"apiGroup": group, **named} if group else named


def foreign_entry(name: str) -> Json:
    """Return an entry of somebody whom nobody here knows."""
    return {"apiGroup": "example.com", "resource": "widgets", "name": name, "uid": f"uid-of-{name}"}


async def end_pods(namespace: Namespace, *names: str, exit_code: int = 0) -> None:
    """Let these pods, or with no names all of the namespace, run to their end."""
    ending = {"metadata": {"labels": {objects.RUN_SECONDS: "0", objects.EXIT_CODE: str(exit_code)}}}
    chosen = names or [pod["metadata"]["name"] for pod in await namespace.all(PODS)]
    await asyncio.gather(*(namespace.patch(PODS, name, ending) for name in chosen))


async def allocate(
    namespace: Namespace, name: str, *, devices: str, pool: str, device: str = "device-0", node: str | None = None
) -> Json:
    """Allocate a device of a pool by hand, for nobody; with the finalizer, as the scheduler would."""
    result = {"request": "device", "driver": devices, "pool": pool, "device": device}
    allocation: Json = {"devices": {"results": [result]}, "allocationTimestamp": "2026-01-01T00:00:00Z"}
    if node:
        here = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [here]}]}
    await namespace.patch(CLAIMS, name, {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}})
    return await namespace.patch_status(CLAIMS, name, {"allocation": allocation})


async def add_node(namespace: Namespace, name: str) -> str:
    """Register one more node, which ends with the namespace; return its name once pods can run there."""
    full_name = f"{name}-{namespace.name}"
    await namespace.create(fake_nodes.node(full_name))

    def usable(node: Json) -> bool:
        return condition(node, "Ready") == "True" and all(
            taint["key"] == fake_nodes.FAKE for taint in node["spec"]["taints"]
        )

    await eventually(lambda: namespace.api.get(NODES, full_name), until=usable, saying=f"node {full_name} is usable")
    return full_name


async def lose_node(namespace: Namespace, node: str) -> None:
    """Let a node fall silent: nobody reports for it any more, and the node controller says so."""
    await namespace.api.patch(NODES, node, {"metadata": {"labels": {fake_nodes.FAKE: None}}})
    silent = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    status = {"status": {"conditions": [silent]}}
    await namespace.api.patch(NODES, node, status, subresource="status", kind="strategic-merge-patch")


async def reboot(namespace: Namespace, node: str) -> None:
    """Let a node start anew: its kubelet reports another bootID."""
    status = {"status": {"nodeInfo": {"bootID": f"next-of-{node}"}}}
    await namespace.api.patch(NODES, node, status, subresource="status", kind="strategic-merge-patch")


async def force_release(namespace: Namespace, claim: str, *, value: str | None = None) -> None:
    """Ask for a release by force, rightly unless a value says otherwise."""
    uid = (await namespace.get(CLAIMS, claim))["metadata"]["uid"]
    wish = {objects.FORCE_RELEASE: uid if value is None else value}
    await namespace.patch(CLAIMS, claim, {"metadata": {"annotations": wish}})


async def cordon(namespace: Namespace, node: str) -> None:
    """Let the scheduler put no more pods there."""
    await namespace.api.patch(NODES, node, {"spec": {"unschedulable": True}})


def in_force(history: WatchHistory, moment: str) -> Json | None:
    """Return the recorded object as it was when something else got the given resourceVersion."""
    found = None
    for version in history.versions:
        if int(revision(version.object)) > int(moment):
            break
        found = None if version.change == "DELETED" else version.object
    return found


def assert_bound_to_allocation(pod: WatchHistory, claim: WatchHistory) -> None:
    """Assert that the claim was allocated when the pod was bound, and stayed so, unchanged, until it ended."""
    with_node = [version for version in pod.versions if bound(version.object)]
    if not with_node:
        return
    first, last = with_node[0].object, with_node[-1]
    then = in_force(claim, revision(first))
    name = first["metadata"]["name"]
    assert then is not None, f"pod {name} was bound without its claim"
    assert allocated(then), f"pod {name} was bound while its claim had no allocation"
    end = int(revision(last.object)) if _over(last.object) or last.change == "DELETED" else None
    for version in claim.versions:
        at = int(revision(version.object))
        if at > int(revision(first)) and (end is None or at < end):
            now = version.object.get("status", {}).get("allocation")
            assert now == then["status"]["allocation"], f"the allocation changed under pod {name}"


def assert_bounded(history: WatchHistory) -> None:
    """Assert what holds of every claim: never more than 256 entries."""
    assert history.longest_list() <= 256


def uids(claim: Json) -> set[str]:
    """Return the uids of all entries."""
    return {each["uid"] for each in entries(claim)}


def _over(pod: Json) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")
