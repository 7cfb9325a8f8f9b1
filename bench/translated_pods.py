"""A cluster for pods that ask in Koordinator's form: nodes with CPUs and cards, the policies, and the pods."""

from __future__ import annotations

from contextlib import asynccontextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from dra.api.koordinator import well_known
from dra.cli.translation_policies import REQUESTS
from dra.engine.cpus.node_policies import NodeCpuPolicies
from dra.model.koordinator_classes import LABEL_QOS_CLASS
from kubeletplugin.drivers.cpu.driver import DRIVER_NAME as CPU_DRIVER
from kubeletplugin.drivers.cpu.node_device import HeldCpus, build_node_device
from kubeletplugin.drivers.gpu.devices import DRIVER_NAME as GPU_DRIVER
from tests.cluster import fake_nodes
from tests.cluster.kubectl import kubectl
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.scenarios import installation, namespaces, objects
from tests.scenarios.eventually import eventually
from tests.scenarios.koordinator.cards import resource_slice
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import NAMESPACES, PODS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.scenarios.api import Api, Json
    from tests.scenarios.namespaces import Namespace
    from tests.scenarios.target import Mode

NODES: Final = 50
CARDS: Final = 8
CARD_MEBIBYTES: Final = 80 * 2**10
PRIORITY_CLASS: Final = "prod"
PRIORITY: Final = 9500
LABEL: Final = {well_known.LABEL_ENABLED: well_known.ENABLED}
KUSTOMIZATION: Final = installation.DEPLOY / "koordinator"


class Asking(StrEnum):
    """What a pod asks for."""

    NOTHING = "nothing of Koordinator's"
    CPUS = "2 CPUs, LSR"
    SHARE = "half a card"


def pod(name: str, asking: Asking, *, claim_template: str | None = None) -> Json:
    """Return a pod with two CPUs that asks so, as a user writes it; it may name a claim template itself."""
    labels = {LABEL_QOS_CLASS: "LSR"} if asking is Asking.CPUS else {}
    made = objects.pod(name, PodShape(labels=labels, claim_template=claim_template))
    amounts = {"cpu": "2"} | ({"koordinator.sh/gpu": "50"} if asking is Asking.SHARE else {})
    (container,) = made["spec"]["containers"]
    container["resources"] = {**container.get("resources", {}), "requests": amounts, "limits": amounts}
    made["spec"]["priorityClassName"] = PRIORITY_CLASS
    return made


def install(admin: Path, mode: Mode) -> None:
    """Install dra-reserve for a mode, with deploy/koordinator; nothing runs yet."""
    installation.install(admin, kustomization=installation.OVERLAYS[mode])
    installation.install(admin, kustomization=KUSTOMIZATION)


def remove(admin: Path) -> None:
    """Remove everything of dra-reserve, its policies above all."""
    kubectl("delete", "--ignore-not-found", f"--kustomize={KUSTOMIZATION}", kubeconfig=admin)
    installation.remove(admin)


async def offer_devices(api: Api) -> None:
    """Publish the devices of each node, 64 CPUs and eight cards, and create what pods and claims name."""
    topology = uniform_topology(cores=32, threads=2)
    cpus = build_node_device(topology, allocatable=topology.online, policies=NodeCpuPolicies(), held=HeldCpus())
    made = [objects.priority_class(PRIORITY_CLASS, PRIORITY)]
    made += [objects.device_class(driver, driver=driver) for driver in (CPU_DRIVER, GPU_DRIVER)]
    for node in fake_nodes.names(NODES):
        cpu_slice = objects.resource_slice(f"{node}-cpus", driver=CPU_DRIVER, devices=[], node=node)
        cpu_slice["spec"]["devices"] = [msgspec.to_builtins(device) for device in cpus]
        made += [cpu_slice, resource_slice(node, (CARD_MEBIBYTES,) * CARDS)]
    await api.create_all(made)


@asynccontextmanager
async def namespace_for(api: Api, *, purpose: str, enabled: bool) -> AsyncIterator[Namespace]:
    """Yield a namespace whose pods are translated or left alone."""
    async with namespaces.temporary(api, purpose=purpose) as namespace:
        if enabled:
            await api.patch(NAMESPACES, namespace.name, {"metadata": {"labels": LABEL}})
            await in_force(namespace)
        yield namespace


async def in_force(namespace: Namespace, *, until: bool = True) -> None:
    """Wait until the pods of a namespace with the label are translated, or are no longer."""

    async def translates() -> bool:
        path = PODS.path(namespace=namespace.name)
        made = await namespace.api.request("POST", path, pod("p", Asking.CPUS), query={"dryRun": "All"})
        return "resourceClaims" in made["spec"]

    state = "in force" if until else "out of force"
    await eventually(translates, until=lambda is_translated: is_translated is until, saying=f"{REQUESTS} is {state}")
