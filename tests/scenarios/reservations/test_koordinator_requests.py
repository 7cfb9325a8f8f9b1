"""Reservations of pods that ask in Koordinator's form: their CPUs and shares of GPUs are held and handed over."""

from __future__ import annotations

from typing import Final

import msgspec
import pytest

from dra.cli.translation_policies import POLICIES_FILE
from dra.engine.cpus.node_policies import NodeCpuPolicies
from dra.engine.translation import template_names
from dra.engine.translation.templates import template_manifest
from dra.engine.translation.translated_pods import translate
from kubeletplugin.drivers.cpu.driver import DRIVER_NAME as CPUS
from kubeletplugin.drivers.cpu.node_device import HeldCpus, build_node_device
from kubeletplugin.drivers.gpu.devices import DRIVER_NAME as GPUS
from tests.cluster.kubectl import kubectl
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.dra.engine.translation.examples import gpus, lsr, pod
from tests.scenarios import objects
from tests.scenarios.api import Api, Json
from tests.scenarios.claims import entries
from tests.scenarios.eventually import eventually
from tests.scenarios.koordinator import agreement
from tests.scenarios.koordinator.cards import SMALL, resource_slice
from tests.scenarios.namespaces import Namespace
from tests.scenarios.reservations.test_devices import rsv, runs, waits
from tests.scenarios.resources import CLAIMS, NAMESPACES, PODS, RESERVATIONS
from tests.scenarios.target import Target

NODE: Final = "node-1"
CORES: Final = 4


@pytest.fixture
async def place(target: Target, emptied: Api, namespace: Namespace) -> Namespace:
    """A namespace whose pods are translated, with the CPUs and a GPU of one node."""
    if target.own is not None:  # a plane of ours translates without policies
        kubectl("apply", "--validate=strict", f"--filename={POLICIES_FILE}", kubeconfig=target.admin)
    await emptied.patch(NAMESPACES, namespace.name, {"metadata": {"labels": agreement.LABEL}})
    for value in (0, 9500):
        await namespace.create(agreement.priority_class(value))
    for driver in (CPUS, GPUS):
        await namespace.create(objects.device_class(driver, driver=driver))
    topology = uniform_topology(cores=CORES)
    device = build_node_device(topology, allocatable=topology.online, policies=NodeCpuPolicies(), held=HeldCpus())
    cpus = objects.resource_slice(f"{NODE}-cpus", driver=CPUS, devices=[], node=NODE)
    cpus["spec"]["devices"] = [msgspec.to_builtins(each) for each in device]
    await namespace.create(cpus)
    await namespace.create(resource_slice(NODE, (SMALL,)))

    async def translates() -> bool:
        found = await agreement.by_the_policies(emptied, pod(gpus(gpu="50")), namespace=namespace.name)
        return bool(found.claims)

    await eventually(translates, saying="pods are translated")
    return namespace


async def make_templates(place: Namespace, *asked: Json) -> None:
    """Create the templates that pods will name, as the controller does with ``koordinator: true``."""
    wanted = {template_names.name_of(each.request): each.request for one in asked for each in translate(one).entries}
    for name, request in wanted.items():
        made = template_manifest(name, place.name, request, card_sizes=[SMALL * 2**20])
        assert made is not None
        await place.create(made)


def named(asked: Json, name: str, *, app: str) -> Json:
    """Return a pod as it is created."""
    made = agreement.sent(asked)
    made["metadata"]["name"] = name
    made["metadata"]["labels"]["app"] = app
    made["spec"]["schedulerName"] = "koord-scheduler"
    for container in made["spec"]["containers"]:
        container["image"] = objects.IMAGE
    return made


async def reserve(place: Namespace, asked: Json) -> None:
    """Reserve what a pod asks for."""
    made = named(asked, "", app="template")
    labels = {key: value for key, value in made["metadata"]["labels"].items() if key != "app"}
    template = {
        "metadata": {"namespace": place.name, "labels": labels, "annotations": made["metadata"]["annotations"]},
        "spec": made["spec"],
    }
    spec = {
        "template": template,
        "owners": [{"labelSelector": {"matchLabels": {"app": "owner"}}}],
        "allocateOnce": False,
        "ttl": "1h",
    }
    kind = {"apiVersion": RESERVATIONS.api_version, "kind": RESERVATIONS.kind}
    await place.api.create({**kind, "metadata": {"name": rsv(place, "held")}, "spec": spec})
    await eventually(
        lambda: place.api.get(RESERVATIONS, rsv(place, "held")),
        until=lambda found: found.get("status", {}).get("phase") == "Available",
        saying="the reservation is Available",
    )


async def held(place: Namespace) -> set[str]:
    """Return the claims that the reservation alone keeps."""
    found = await place.all(CLAIMS)
    return {
        each["metadata"]["name"] for each in found if [one["name"] for one in entries(each)] == [rsv(place, "held")]
    }


async def shown_shares(place: Namespace, field: str) -> dict[str, str]:
    """Return the shares of GPUs in a field of the reservation's status."""
    found = await place.api.get(RESERVATIONS, rsv(place, "held"))
    return {name: text for name, text in found["status"].get(field, {}).items() if "/gpu" in name}


async def claims_of(place: Namespace, name: str) -> set[str]:
    """Return the claims of a pod that runs."""
    found = await runs(place, name)
    return {each["resourceClaimName"] for each in found["status"]["resourceClaimStatuses"]}


@pytest.mark.parametrize(
    ("asked", "stranger", "claims", "shares"),
    [
        pytest.param(lsr("1", "2"), lsr("2"), 1, {}, id="bound-cpus"),
        pytest.param(
            pod(gpus("a", gpu="50"), gpus("b", gpu="25")),
            pod(gpus(gpu="50")),
            2,
            {"koordinator.sh/gpu-core": "75", "koordinator.sh/gpu-memory-ratio": "75"},
            id="shares-of-a-card",
        ),
    ],
)
async def test_what_is_held_goes_from_owner_to_owner_and_comes_back(
    place: Namespace, asked: Json, stranger: Json, claims: int, shares: dict[str, str]
) -> None:
    await make_templates(place, asked, stranger)
    await reserve(place, asked)
    assert await shown_shares(place, "allocatable") == shares
    kept = await eventually(lambda: held(place), until=lambda found: len(found) == claims, saying="the claims are held")
    await place.create(named(stranger, "stranger", app="stranger"))
    await waits(place, "stranger")
    for owner in ("owner-0", "owner-1"):
        await place.create(named(asked, owner, app="owner"))
        assert await claims_of(place, owner) == kept
        assert await shown_shares(place, "allocated") == shares
        await place.delete(PODS, owner, grace_seconds=1)
        await eventually(lambda: held(place), until=lambda found: found == kept, saying="the claims are held again")
    await waits(place, "stranger")
    await place.api.delete(RESERVATIONS, rsv(place, "held"))
    assert await claims_of(place, "stranger")
