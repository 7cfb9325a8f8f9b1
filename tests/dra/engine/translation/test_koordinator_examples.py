"""The manifests of examples/koordinator, translated by the engine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from dra.engine.cpus.cpusets import parse
from dra.engine.cpus.node_policies import NO_NODE_POLICIES
from dra.engine.translation import template_names
from dra.engine.translation.templates import template_manifest
from dra.engine.translation.translated_pods import translate, translated_pod
from kubeletplugin.drivers.cpu.node_device import HeldCpus, build_node_device
from kubeletplugin.drivers.cpu.numa_devices import build_numa_devices
from kubeletplugin.drivers.gpu.devices import GpuPublishOptions, build_gpu_devices
from kubeletplugin.inventory.gpus import Gpu
from tests.dra.engine.cpus.uniform import uniform_topology

EXAMPLES = Path(__file__).parents[4] / "examples" / "koordinator"
CARD = 16 * 2**30

TEMPLATES = {
    "half-a-card.yaml": ["koord-gpu-c50-r50-s1"],
    "lsr-service.yaml": ["koord-cpu-2-full-lsr"],
    "training.yaml": ["koord-numa-single.cpu-4-default-lsr.gpu-0-m4096-s1"],
    "two-quarters.yaml": ["koord-gpu-c50-r50-s2"],
}


def documents(name: str) -> Iterator[dict[str, Any]]:
    yield from yaml.safe_load_all((EXAMPLES / name).read_text())


def example_pod(name: str) -> dict[str, Any]:
    """Return the pod of a manifest, or the pod that the workload of the manifest makes."""
    (found,) = documents(name)
    if found["kind"] == "Pod":
        return found
    template = found["spec"]["template"]
    return {"metadata": {"name": found["metadata"]["name"], **template.get("metadata", {})}, "spec": template["spec"]}


def test_all_manifests_with_requests_are_known() -> None:
    without = {"00-namespace.yaml", "classes.yaml", "slices-for-trying.yaml"}
    assert {path.name for path in EXAMPLES.glob("*.yaml")} == TEMPLATES.keys() | without


@pytest.mark.parametrize(("name", "templates"), TEMPLATES.items(), ids=TEMPLATES.keys())
def test_an_example_is_translated_and_has_templates(name: str, templates: list[str]) -> None:
    found = translate(example_pod(name))
    assert found.refusals == ()
    assert [template_names.name_of(each.request) for each in found.entries] == templates
    assert all(
        template_manifest(template_names.name_of(each.request), "shares", each.request, card_sizes=[CARD])
        for each in found.entries
    )
    translated = translated_pod(example_pod(name), found.entries)
    assert translate(translated).entries == ()
    assert [each["resourceClaimTemplateName"] for each in translated["spec"]["resourceClaims"]] == templates


def test_the_namespace_is_enabled() -> None:
    (namespace,) = documents("00-namespace.yaml")
    assert namespace["metadata"]["labels"] == {"reserve.dra/koordinator": "enabled"}


def test_the_slices_have_the_capacities_that_the_drivers_publish() -> None:
    cards, cpus = (found["spec"]["devices"] for found in documents("slices-for-trying.yaml"))
    published = build_gpu_devices(
        [Gpu(minor=minor, index=minor, uuid=f"GPU-{minor}", memory=CARD, numa_node=minor) for minor in (0, 1)],
        GpuPublishOptions(shares=True),
    )
    for shown, real in zip(cards, published, strict=True):
        wanted = msgspec.to_builtins(real)
        assert (shown["name"], shown["allowMultipleAllocations"]) == (wanted["name"], True)
        assert shown["capacity"] == wanted["capacity"]
        assert shown["attributes"].items() <= wanted["attributes"].items()
    topology = uniform_topology(sockets=2, cores=2, threads=2)
    state = {"allocatable": parse("2-7"), "policies": NO_NODE_POLICIES, "held": HeldCpus()}
    published = [*build_node_device(topology, **state), *build_numa_devices(topology, **state)]
    for shown, real in zip(cpus, published, strict=True):
        wanted = msgspec.to_builtins(real)
        assert (shown["name"], shown["capacity"]) == (wanted["name"], wanted["capacity"])
        assert shown["attributes"].items() <= wanted["attributes"].items()
        assert [{"value": "", **taint} for taint in shown.get("taints", [])] == [
            {"value": "", "key": each["key"], "effect": each["effect"]} for each in wanted.get("taints") or []
        ]
