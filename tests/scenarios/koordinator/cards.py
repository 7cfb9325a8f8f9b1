"""Cards as the driver publishes them, and pods that ask for shares of them by the templates for such requests.

node-000 has two cards of 16 GiB, node-001 one of 81559 MiB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from dra.engine.translation import template_names
from dra.engine.translation.templates import template_manifest
from kubeletplugin.drivers.gpu.devices import DRIVER_NAME, GpuPublishOptions, build_gpu_devices
from kubeletplugin.inventory.gpus import Gpu
from tests.scenarios import objects
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIM_TEMPLATES, CLAIMS, PODS

if TYPE_CHECKING:
    from dra.engine.translation.requests import GpuShare
    from tests.scenarios.api import Json
    from tests.scenarios.namespaces import Namespace

MEBI: Final = 2**20
SMALL: Final = 16 * 2**10
LARGE: Final = 81559
SIZES: Final = (SMALL * MEBI, LARGE * MEBI)
NODES: Final = {"node-000": (SMALL, SMALL), "node-001": (LARGE,)}

Card = tuple[str, str, str, str]
"""Node, device, memory and core of one result."""


def resource_slice(node: str, sizes: tuple[int, ...]) -> Json:
    """Return what the driver publishes for a node with cards of these MiB."""
    cards = [
        Gpu(minor=minor, index=minor, uuid=f"GPU-{node}-{minor}", memory=size * MEBI)
        for minor, size in enumerate(sizes)
    ]
    devices = [msgspec.to_builtins(each) for each in build_gpu_devices(cards, GpuPublishOptions(shares=True))]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpu"},
        "spec": {"driver": DRIVER_NAME, "nodeName": node, "pool": pool, "devices": devices},
    }


class Cards:
    """The cards of the cluster, and pods that ask for shares of them."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace: Final = namespace

    async def ask(self, name: str, share: GpuShare, *, node: str = "") -> None:
        """Create a pod that asks for a share, with the template for it unless there is one."""
        template = template_names.name_of(share)
        manifest = template_manifest(template, self.namespace.name, share, card_sizes=SIZES)
        if manifest is not None and await self.namespace.find(CLAIM_TEMPLATES, template) is None:
            await self.namespace.create(manifest)
        on = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
        await self.namespace.create(objects.pod(name, PodShape(claim_template=template, spec=on)))

    async def given(self, name: str) -> list[Card]:
        """Return the cards that a pod was given, in the order of their names."""
        pod = await eventually(
            lambda: self.namespace.get(PODS, name),
            until=lambda found: found["spec"].get("nodeName"),
            saying=f"pod {name} is bound",
        )
        claim = await self.namespace.get(CLAIMS, claim_of(pod))
        results = claim["status"]["allocation"]["devices"]["results"]
        assert {each["pool"] for each in results} == {pod["spec"]["nodeName"]}
        return sorted(card(each) for each in results)

    async def waits(self, name: str) -> None:
        """Check that a pod finds no cards, and that this stays so."""
        await eventually(
            lambda: self.namespace.get(PODS, name), until=unschedulable, saying=f"pod {name} was not scheduled"
        )
        await steadily(lambda: self.is_unbound(name), saying=f"pod {name} waits", lasting=1.0)

    async def is_unbound(self, name: str) -> bool:
        return "nodeName" not in (await self.namespace.get(PODS, name))["spec"]


def claim_of(pod: Json) -> str:
    status = pod["status"]
    if extended := status.get("extendedResourceClaimStatus"):
        return str(extended["resourceClaimName"])
    (found,) = status["resourceClaimStatuses"]
    return str(found["resourceClaimName"])


def card(result: Json) -> Card:
    consumed = result["consumedCapacity"]
    return (result["pool"], result["device"], consumed["memory"], consumed["core"])


def unschedulable(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)
