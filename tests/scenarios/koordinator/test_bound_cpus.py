"""Pods that are bound to CPUs, from admission to a node: koordinator-rest.md 3.4 by id, with policies and templates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from dra.engine.cpus.node_policies import NodeCpuBindPolicy, NodeCpuPolicies
from dra.engine.translation import template_names
from dra.engine.translation.device_requests import MEBI
from dra.engine.translation.templates import template_manifest
from dra.engine.translation.translated_pods import translate
from kubeletplugin.drivers.cpu.driver import DRIVER_NAME
from kubeletplugin.drivers.cpu.node_device import HeldCpus, build_node_device
from tests.cluster import fake_nodes
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.dra.engine.translation.examples import RESOURCE_SPEC, lsr
from tests.scenarios import objects
from tests.scenarios.api import Json
from tests.scenarios.eventually import eventually
from tests.scenarios.features import Feature
from tests.scenarios.koordinator import agreement
from tests.scenarios.koordinator.conftest import create_class, create_once
from tests.scenarios.resources import CLAIMS, PODS
from tests.scenarios.target import Capability, Mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.scenarios.namespaces import Namespace

pytestmark = [
    pytest.mark.modes(Mode.ALONGSIDE),
    pytest.mark.needs(Capability.RIGHTS, Feature.GATE_POLICY),
]

FIRST, SECOND, *_ = fake_nodes.names(2)
CAPACITY = "dra.cpu/cpu"


def resource_slice(node: str, *, cores: int, policy: NodeCpuBindPolicy) -> Json:
    """Return what the driver publishes for a node of cores with two threads."""
    topology = uniform_topology(cores=cores, threads=2)
    published = build_node_device(
        topology, allocatable=topology.online, policies=NodeCpuPolicies(bind_policy=policy), held=HeldCpus()
    )
    made = objects.resource_slice(f"{node}-cpus", driver=DRIVER_NAME, devices=[], node=node)
    made["spec"]["devices"] = [msgspec.to_builtins(each) for each in published]
    return made


@pytest.fixture
async def bound(place: Namespace) -> Namespace:
    """A node that gives whole cores alone, with 14 CPUs, and one with 6 CPUs and no policy."""
    await create_class(place, objects.device_class(DRIVER_NAME, driver=DRIVER_NAME))
    await place.create(resource_slice(FIRST, cores=7, policy=NodeCpuBindPolicy.FULL_PCPUS_ONLY))
    await place.create(resource_slice(SECOND, cores=3, policy=NodeCpuBindPolicy.NONE))
    return place


async def run(
    place: Namespace, name: str, asked: Json, *, card_sizes: Sequence[int] = (), node: str | None = None
) -> None:
    """Create the templates that a pod will name, and the pod, for one node if given."""
    for entry in translate(asked).entries:
        template = template_names.name_of(entry.request)
        made = template_manifest(template, place.name, entry.request, card_sizes=card_sizes)
        assert made is not None
        await create_once(place, made)
    sent = agreement.sent(asked)
    sent["metadata"]["name"] = name
    sent["spec"]["tolerations"] = [{"operator": "Exists"}]
    if node is not None:
        sent["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    await place.create(sent)


async def scheduled(place: Namespace, name: str) -> str:
    """Return the node of a pod once it has one."""

    async def node() -> str:
        found: str = (await place.get(PODS, name))["spec"].get("nodeName", "")
        return found

    return await eventually(node, saying=f"{name} is scheduled")


async def waits(place: Namespace, name: str) -> None:
    """Wait until the scheduler has found no node for a pod."""

    async def message() -> str:
        conditions = (await place.get(PODS, name))["status"].get("conditions", [])
        return next((each.get("message", "") for each in conditions if each.get("reason") == "Unschedulable"), "")

    await eventually(message, saying=f"{name} fits nowhere")


async def given(place: Namespace) -> dict[str, str]:
    """Return the CPUs that claims have of each node."""
    claims = await place.all(CLAIMS)
    results = [
        each
        for claim in claims
        for each in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    ]
    return {each["pool"]: each["consumedCapacity"][CAPACITY] for each in results}


async def test_13_cpus_are_given_by_amount_and_policy(bound: Namespace) -> None:
    spread = {RESOURCE_SPEC: '{"preferredCPUBindPolicy":"SpreadByPCPUs"}'}
    await run(bound, "odd", lsr("1", "2"))
    assert await scheduled(bound, "odd") == SECOND
    await run(bound, "four", lsr("4", qos="LSE", annotations=spread))
    assert await scheduled(bound, "four") == FIRST
    await run(bound, "twelve", lsr("12"))
    await waits(bound, "twelve")
    assert await given(bound) == {f"{SECOND}-cpus": "3", f"{FIRST}-cpus": "4"}


async def test_7_required_whole_cores_take_no_odd_number(bound: Namespace) -> None:
    full, spread = ({RESOURCE_SPEC: f'{{"requiredCPUBindPolicy":"{word}"}}'} for word in ("FullPCPUs", "SpreadByPCPUs"))
    await run(bound, "odd", lsr("3", annotations=full))
    await waits(bound, "odd")
    await run(bound, "even", lsr("2", annotations=full))
    await scheduled(bound, "even")
    await run(bound, "spread", lsr("2", annotations=spread))
    assert await scheduled(bound, "spread") == SECOND


async def test_the_api_server_accepts_each_template(place: Namespace) -> None:
    sizes = [number * 1024 * MEBI for number in (16, 24, 32, 40, 48, 64, 80, 96, 141)]
    names = [f"koord-cpu-9999-{policy}-lsr" for policy in ("default", "full", "spread-numa", "full-required-pcpu")]
    names += ["koord-cpu-1-spread-required-lse"]
    made = [(name, template_names.parse(name), sizes) for name in names]
    for name in ("koord-gpu-c3200-r3200-s32", "koord-gpu-c30-r30-s1", "koord-gpu-m64-s2"):
        made += [(name, template_names.parse(name), sizes[:count]) for count in range(1, len(sizes) + 1)]
    for number, (name, request, card_sizes) in enumerate(made):
        assert request is not None, name
        manifest = template_manifest(f"{name}-{number}", place.name, request, card_sizes=card_sizes)
        assert manifest is not None
        await place.create(manifest)
