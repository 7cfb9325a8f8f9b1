"""Devices that get taints, and pods that use them without being in their claim's list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.scenarios import objects, steps
from tests.scenarios.claims import listed
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import DEVICE_TAINT_RULES, RESOURCE_SLICES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.scenarios.namespaces import Namespace

Json = dict[str, Any]

BROKEN: Final = {"key": "example.com/broken", "value": "ecc", "effect": "NoExecute"}

FOR_EVER: Final = {"operator": "Exists", "effect": "NoExecute"}
"""The toleration of everything."""

WORKLOAD: Final = "crew"
"""What the claims are reserved for: it has no pods, and exists as long as the scenario."""


def for_a_while(seconds: int) -> Json:
    """Return the toleration of everything for some seconds."""
    return {**FOR_EVER, "tolerationSeconds": seconds}


def rule(name: str, selector: Json | None, *, effect: str = "NoExecute") -> Json:
    """Return the rule of an administrator that the selected devices are broken."""
    return {
        "apiVersion": DEVICE_TAINT_RULES.api_version,
        "kind": DEVICE_TAINT_RULES.kind,
        "metadata": {"name": name},
        "spec": {"deviceSelector": selector, "taint": {**BROKEN, "effect": effect}},
    }


async def offer(namespace: Namespace, count: int) -> str:
    """Offer devices that every node reaches, in a pool that `put` knows; return their class."""
    await namespace.create(objects.deployment(WORKLOAD, PodShape(), replicas=0))
    return await namespace.offer_devices(count)


async def reserve(namespace: Namespace, name: str, *, devices: str, tolerations: Iterable[Json] = ()) -> None:
    """Create a claim that is reserved for the workload, so that its pods leave the list."""
    reserved_for = f"deployments.apps/{WORKLOAD}"
    await namespace.create(
        objects.claim(name, device_class=devices, reserved_for=reserved_for, tolerations=tolerations)
    )


async def run_unlisted(namespace: Namespace, claim: str, count: int = 1) -> list[str]:
    """Let pods start and leave the claim's list; return their names."""
    pods = objects.pods(f"{claim}-unlisted", count, PodShape(claim=claim, gated=True))
    await namespace.create_all(pods)
    names = [pod["metadata"]["name"] for pod in pods]
    await steps.pods_run(namespace, *names, within=60)
    await steps.claim_is(
        namespace, claim, lambda found: listed(found).isdisjoint(names), within=60, saying="lists none of its pods"
    )
    return names


async def device_of(namespace: Namespace, claim: str) -> str:
    """Return the one device that the claim has."""
    found = await steps.claim_is(namespace, claim, lambda c: c["status"].get("allocation"), saying="is allocated")
    device: str = found["status"]["allocation"]["devices"]["results"][0]["device"]
    return device


async def put(namespace: Namespace, *devices: str, taints: Iterable[Json]) -> None:
    """Let the driver give some devices these taints and no others; without taints, none."""

    def reported(device: Json) -> Json:
        return {**device, "taints": [*taints]} if device["name"] in devices else device

    pool = f"{namespace.name}-shared"
    published = await namespace.api.get(RESOURCE_SLICES, pool)
    spec = {"devices": [reported(device) for device in published["spec"]["devices"]]}
    await namespace.api.patch(RESOURCE_SLICES, pool, {"spec": spec})
