"""CPUs and cards of one NUMA node on the stock scheduler: koordinator-rest.md §4.4, with policies and templates.

node-1 has two NUMA nodes with eight CPUs each, and a card of 16 GiB on each; node-2 has the same CPUs and no cards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec
import pytest

from dra.engine.cpus.node_policies import NodeCpuPolicies
from dra.model.koordinator_classes import NumaTopologyPolicy
from kubeletplugin.drivers.cpu.driver import DRIVER_NAME as CPUS
from kubeletplugin.drivers.cpu.node_device import HeldCpus, build_node_device
from kubeletplugin.drivers.cpu.numa_devices import build_numa_devices
from kubeletplugin.drivers.gpu.devices import DRIVER_NAME as GPUS
from kubeletplugin.drivers.gpu.devices import GpuPublishOptions, build_gpu_devices
from kubeletplugin.inventory.gpus import Gpu
from tests.cluster import fake_nodes
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.dra.engine.translation.examples import gpus, lsr, pod
from tests.dra.engine.translation.test_aligned_requests import BEST, RESTRICTED, SINGLE, aligned, training
from tests.dra.engine.translation.test_device_rules import hint
from tests.scenarios import objects
from tests.scenarios.api import Json
from tests.scenarios.features import Feature
from tests.scenarios.koordinator import test_bound_cpus
from tests.scenarios.koordinator.conftest import create_class
from tests.scenarios.koordinator.test_bound_cpus import scheduled, waits
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, PODS, RESOURCE_SLICES
from tests.scenarios.target import Capability, Mode

if TYPE_CHECKING:
    from tests.scenarios.namespaces import Namespace

pytestmark = [
    pytest.mark.modes(Mode.ALONGSIDE),
    pytest.mark.needs(Capability.RIGHTS, Feature.GATE_POLICY),
]

FIRST, SECOND, *_ = fake_nodes.names(2)
GIBI: Final = 2**30
CARD: Final = 16 * GIBI
TOPOLOGY: Final = uniform_topology(sockets=2, cores=4, threads=2)


def cpu_slice(node: str, *, policy: NumaTopologyPolicy = NumaTopologyPolicy.NONE) -> Json:
    """Return what the CPU driver publishes for a node without claims."""
    policies, held = NodeCpuPolicies(numa_policy=policy), HeldCpus()
    found = build_node_device(TOPOLOGY, allocatable=TOPOLOGY.online, policies=policies, held=held)
    found += build_numa_devices(TOPOLOGY, allocatable=TOPOLOGY.online, policies=policies, held=held)
    made = objects.resource_slice(f"{node}-cpus", driver=CPUS, devices=[], node=node)
    made["spec"]["devices"] = [msgspec.to_builtins(each) for each in found]
    return made


def card_slice(node: str, *numa_nodes: int, roots: Sequence[int] = ()) -> Json:
    """Return what the GPU driver publishes for cards on these NUMA nodes; of one PCIe root each, unless given."""
    cards = [
        Gpu(
            minor=minor,
            index=minor,
            uuid=f"GPU-{node}-{minor}",
            memory=CARD,
            numa_node=at,
            pcie_root=f"pci0000:{at}{root}",
        )
        for minor, (at, root) in enumerate(zip(numa_nodes, roots or [0] * len(numa_nodes), strict=True))
    ]
    made = objects.resource_slice(f"{node}-cards", driver=GPUS, devices=[], node=node)
    published = build_gpu_devices(cards, GpuPublishOptions(shares=True))
    made["spec"]["devices"] = [msgspec.to_builtins(each) for each in published]
    return made


@pytest.fixture
async def machines(place: Namespace) -> Namespace:
    """The two nodes."""
    for driver in (CPUS, GPUS):
        await create_class(place, objects.device_class(driver, driver=driver))
    for node in (FIRST, SECOND):
        await place.create(cpu_slice(node))
    await place.create(card_slice(FIRST, 0, 1))
    return place


async def run(place: Namespace, name: str, asked: Json, *, node: str = FIRST) -> None:
    """Create the templates that a pod will name, and the pod, for one node."""
    await test_bound_cpus.run(place, name, asked, card_sizes=[CARD], node=node)


async def given(place: Namespace, name: str) -> dict[str, str]:
    """Return request → devices of the claims of a pod that is scheduled."""
    await scheduled(place, name)
    statuses = (await place.get(PODS, name))["status"]["resourceClaimStatuses"]
    claims = [await place.get(CLAIMS, each["resourceClaimName"]) for each in statuses]
    results = [each for claim in claims for each in claim["status"]["allocation"]["devices"]["results"]]
    found: dict[str, list[str]] = {}
    for each in results:
        found.setdefault(each["request"], []).append(each["device"])
    return {request: ",".join(sorted(devices)) for request, devices in found.items()}


async def test_cpus_and_card_are_on_one_numa_node(machines: Namespace) -> None:
    await run(machines, "filler", aligned(lsr("6")))
    assert await given(machines, "filler") == {"cpus": "cpus", "numa": "numa-0"}
    await run(machines, "training", aligned(training({"gpu": "50"}, cpus="2")))
    assert await given(machines, "training") == {"cpus": "cpus", "numa": "numa-1", "gpu-0/m16384": "gpu-1"}
    made = await machines.get(PODS, "training")
    references = [each["resources"]["claims"] for each in made["spec"]["containers"]]
    assert references == [[{"name": "koord-numa", "request": name}] for name in ("gpu-0", "cpus")]


async def test_a_pod_waits_if_no_numa_node_has_both(machines: Namespace) -> None:
    await run(machines, "card", aligned(training({"gpu": "100"}, cpus="1")))
    assert await given(machines, "card") == {"cpus": "cpus", "numa": "numa-0", "gpu-0/m16384": "gpu-0"}
    await run(machines, "cpus", aligned(lsr("7")))
    assert await given(machines, "cpus") == {"cpus": "cpus", "numa": "numa-1"}
    asked = training({"gpu": "50"}, cpus="2")
    await run(machines, "single", aligned(asked, SINGLE))
    await waits(machines, "single")
    await run(machines, "restricted", aligned(asked, RESTRICTED))
    await waits(machines, "restricted")
    await run(machines, "best", aligned(asked, BEST))
    found = await given(machines, "best")
    assert (found["numa/near"], found["gpu-0/m16384"]) == ("numa-0", "gpu-1"), "as far as possible"


async def test_cards_of_all_containers_are_on_one_numa_node(machines: Namespace) -> None:
    await machines.api.patch(RESOURCE_SLICES, f"{FIRST}-cards", {"spec": card_slice(FIRST, 0, 1, 1, 0)["spec"]})
    half = {"core": "50", "ratio": "50"}
    await run(machines, "one", aligned(pod(gpus("a", gpu="200"))))
    assert await given(machines, "one") == {"gpu-0/m16384-pcie": "gpu-0,gpu-3"}
    await run(machines, "two", aligned(pod(gpus("a", gpu="100"), gpus("b", **half))))
    found = await given(machines, "two")
    assert set(found.values()) == {"gpu-1", "gpu-2"}


@pytest.mark.parametrize(
    ("scope", "numa_nodes", "cards"),
    [
        pytest.param("Node", (0, 1), "gpu-0,gpu-1", id="any-of-the-node"),
        pytest.param("NUMANode", (0, 1, 1), "gpu-1,gpu-2", id="of-one-numa-node"),
    ],
)
async def test_whole_cards_have_the_required_scope(
    machines: Namespace, scope: str, numa_nodes: tuple[int, ...], cards: str
) -> None:
    published = card_slice(FIRST, *numa_nodes, roots=range(len(numa_nodes)))
    await machines.api.patch(RESOURCE_SLICES, f"{FIRST}-cards", {"spec": published["spec"]})
    await run(machines, "pair", pod(gpus("a", gpu="200"), annotations=hint(scope)))
    assert set((await given(machines, "pair")).values()) == {cards}


async def test_a_pod_waits_until_one_pcie_root_has_as_many_cards(machines: Namespace) -> None:
    published = card_slice(FIRST, 0, 1, 1, roots=(0, 0, 1))
    await machines.api.patch(RESOURCE_SLICES, f"{FIRST}-cards", {"spec": published["spec"]})
    await run(machines, "pair", pod(gpus("a", gpu="200"), annotations=hint("PCIe")))
    await waits(machines, "pair")
    published = card_slice(FIRST, 0, 1, 1, roots=(0, 1, 1))
    await machines.api.patch(RESOURCE_SLICES, f"{FIRST}-cards", {"spec": published["spec"]})
    assert await given(machines, "pair") == {"gpu/m16384-pcie": "gpu-1,gpu-2"}


async def test_restricted_cpus_may_exceed_a_numa_node_and_single_ones_not(machines: Namespace) -> None:
    await run(machines, "single", aligned(lsr("10"), SINGLE))
    await waits(machines, "single")
    await run(machines, "restricted", aligned(lsr("10"), RESTRICTED))
    assert set(await given(machines, "restricted")) == {"cpus", "numa/far"}


async def test_the_label_of_a_node_refuses_pods_with_another_policy(machines: Namespace) -> None:
    labelled = cpu_slice(SECOND, policy=NumaTopologyPolicy.SINGLE_NUMA_NODE)
    await machines.api.patch(RESOURCE_SLICES, f"{SECOND}-cpus", {"spec": labelled["spec"]})
    await run(machines, "restricted", aligned(lsr("2"), RESTRICTED), node=SECOND)
    await waits(machines, "restricted")
    await run(machines, "large", lsr("10"), node=SECOND)
    await waits(machines, "large")
    await run(machines, "single", aligned(lsr("2"), SINGLE), node=SECOND)
    assert await given(machines, "single") == {"cpus": "cpus", "numa": "numa-0"}
    await run(machines, "plain", lsr("8"), node=SECOND)
    assert await given(machines, "plain") == {"cpus": "cpus"}


@pytest.mark.parametrize("amount", [{}, {"capacity": {"requests": {"dra.cpu/cpu": "1"}}}], ids=["any", "one"])
async def test_claims_of_others_take_no_cpus_of_a_numa_node(machines: Namespace, amount: Json) -> None:
    await run(machines, "all", lsr("16"))
    await scheduled(machines, "all")
    template = objects.claim_template("mine", device_class=CPUS)
    template["spec"]["spec"]["devices"]["requests"][0]["exactly"] |= amount
    await machines.create(template)
    on = {"nodeSelector": {"kubernetes.io/hostname": FIRST}}
    await machines.create(objects.pod("other", PodShape(claim_template="mine", spec=on)))
    await waits(machines, "other")
