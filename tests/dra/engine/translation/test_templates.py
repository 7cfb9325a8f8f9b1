"""Templates: capacities, selectors and constraints that a request in Koordinator's form becomes."""

from collections.abc import Sequence
from typing import Any

import pytest

from dra.api.parameters.cpu_policies import CpuBindPolicy
from dra.engine.translation import template_names
from dra.engine.translation.device_requests import MEBI
from dra.engine.translation.templates import template_manifest

GIBI = 2**30
CARDS = (16 * GIBI, 81559 * MEBI)
"""Sizes of koordinator-rest.md 4.6: two cards of 16Gi, one of 81559Mi."""


def devices(name: str, *, card_sizes: Sequence[int] = CARDS) -> dict[str, Any]:
    request = template_names.parse(name)
    assert request is not None, name
    manifest = template_manifest(name, "ml", request, card_sizes=card_sizes)
    assert manifest is not None, name
    found: dict[str, Any] = manifest["spec"]["spec"]["devices"]
    return found


def capacities(name: str, *, card_sizes: Sequence[int] = CARDS) -> list[tuple[str, dict[str, str], int]]:
    """Return name, capacity and count of each subrequest."""
    (request,) = devices(name, card_sizes=card_sizes)["requests"]
    found = request["firstAvailable"] if "firstAvailable" in request else [{"name": "", **request["exactly"]}]
    return [(each["name"], each["capacity"]["requests"], each["count"]) for each in found]


def test_a_template_has_the_label_by_which_the_controller_finds_it() -> None:
    request = template_names.parse("koord-gpu-m8192-s1")
    assert request is not None
    made = template_manifest("koord-gpu-m8192-s1", "ml", request, card_sizes=())
    assert made is not None
    assert made["metadata"] == {
        "name": "koord-gpu-m8192-s1",
        "namespace": "ml",
        "labels": {"reserve.dra/made-from": "koordinator"},
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param(
            "koord-gpu-c50-r50-s1",
            [
                ("m16384", {"memory": "8Gi", "core": "50"}, 1),
                ("m81559", {"memory": "40779Mi", "core": "50"}, 1),
            ],
            id="1-half-a-card",
        ),
        pytest.param(
            "koord-gpu-c50-r50-s2",
            [
                ("m16384", {"memory": "4Gi", "core": "25"}, 2),
                ("m81559", {"memory": "20389Mi", "core": "25"}, 2),
            ],
            id="3-a-quarter-of-two-cards",
        ),
        pytest.param("koord-gpu-m8192-s1", [("", {"memory": "8Gi"}, 1)], id="4-bytes-and-no-core"),
        pytest.param(
            "koord-gpu-c200-m65536-s2", [("", {"memory": "32Gi", "core": "100"}, 2)], id="9-bytes-of-two-cards"
        ),
    ],
)
def test_capacity_of_each_card(name: str, expected: list[tuple[str, dict[str, str], int]]) -> None:
    assert capacities(name) == expected


@pytest.mark.parametrize(
    ("ratio", "memory"),
    [(25, "20389Mi"), (33, "26914Mi"), (1, "815Mi"), (50, "40779Mi"), (100, "81559Mi")],
    ids=lambda each: f"8-{each}",
)
def test_a_ratio_is_rounded_down_to_mebibytes(ratio: int, memory: str) -> None:
    ((_, capacity, _),) = capacities(f"koord-gpu-r{ratio}-s1", card_sizes=CARDS[1:])
    assert capacity == {"memory": memory}


def test_a_small_ratio_of_a_small_card_is_one_mebibyte() -> None:
    ((_, capacity, _),) = capacities("koord-gpu-r1-s1", card_sizes=[50 * MEBI])
    assert capacity == {"memory": "1Mi"}


def test_a_card_without_whole_mebibytes_is_given_completely() -> None:
    ((name, capacity, _),) = capacities("koord-gpu-r100-s1", card_sizes=[GIBI + 1])
    assert (name, capacity) == ("b1073741825", {"memory": "1073741825"})


def test_an_alternative_selects_cards_of_its_size() -> None:
    (request,) = devices("koord-gpu-r50-s1")["requests"]
    first, *_ = request["firstAvailable"]
    assert first["selectors"] == [
        {"cel": {"expression": "device.capacity['gpu.reserve.dra'].memory.compareTo(quantity('16Gi')) == 0"}}
    ]


def test_several_cards_are_distinct() -> None:
    assert devices("koord-gpu-c50-r50-s2")["constraints"] == [
        {"requests": ["gpu"], "distinctAttribute": "gpu.reserve.dra/uuid"}
    ]
    assert "constraints" not in devices("koord-gpu-c50-r50-s1")


def test_whole_cards_prefer_one_pcie_root_then_one_numa_node() -> None:
    made = devices("koord-gpu-c200-r200-s2", card_sizes=CARDS[:1])
    (request,) = made["requests"]
    assert [each["name"] for each in request["firstAvailable"]] == ["m16384-pcie", "m16384-numa", "m16384"]
    assert made["constraints"] == [
        {"requests": ["gpu"], "distinctAttribute": "gpu.reserve.dra/uuid"},
        {"requests": ["gpu/m16384-pcie"], "matchAttribute": "resource.kubernetes.io/pcieRoot"},
        {"requests": ["gpu/m16384-numa"], "matchAttribute": "resource.kubernetes.io/numaNode"},
    ]
    assert {each["capacity"]["requests"]["memory"] for each in request["firstAvailable"]} == {"16Gi"}


@pytest.mark.parametrize(
    ("name", "sizes", "alternatives", "attributes"),
    [
        pytest.param("koord-gpu-r200-s2-pcie", CARDS[:1], ["m16384-pcie"], ["pcieRoot"], id="pcie"),
        pytest.param(
            "koord-gpu-r200-s2-numa",
            CARDS[:1],
            ["m16384-pcie", "m16384-numa"],
            ["pcieRoot", "numaNode"],
            id="numa-prefers-pcie",
        ),
        pytest.param(
            "koord-gpu-r200-s2-numa",
            [number * GIBI for number in range(1, 10)],
            [f"m{number * 1024}-numa" for number in range(1, 9)],
            ["numaNode"] * 8,
            id="of-many-sizes-without-preference",
        ),
        pytest.param(
            "koord-numa-single.gpu-0-r200-s2-pcie",
            CARDS[:1],
            ["m16384-pcie"],
            ["pcieRoot", "numaNode"],
            id="pcie-with-a-numa-policy",
        ),
        pytest.param(
            "koord-numa-restricted.gpu-0-r200-s2-numa",
            CARDS[:1],
            ["m16384-pcie", "m16384"],
            ["pcieRoot", "numaNode"],
            id="numa-as-the-policy-says-already",
        ),
    ],
)
def test_a_required_scope_binds_the_cards_of_each_size(
    name: str, sizes: Sequence[int], alternatives: list[str], attributes: list[str]
) -> None:
    made = devices(name, card_sizes=sizes)
    (request,) = made["requests"]
    assert [each["name"] for each in request["firstAvailable"]] == alternatives
    matched = [each for each in made["constraints"] if "matchAttribute" in each]
    assert [each["matchAttribute"].split("/")[1] for each in matched] == attributes
    bound = {text for each in matched for text in each["requests"]}
    assert request["name"] in bound or bound == {f"{request['name']}/{each}" for each in alternatives}


def test_whole_cards_of_many_sizes_have_no_preferred_scope() -> None:
    sizes = [number * GIBI for number in (24, 16, 80)]
    assert [name for name, _, _ in capacities("koord-gpu-r200-s2", card_sizes=sizes)] == ["m16384", "m24576", "m81920"]


def test_a_template_has_alternatives_for_the_eight_most_frequent_sizes() -> None:
    sizes = [number * GIBI for number in (80, 10, 20, 30, 40, 50, 60, 70, 5, 6)]
    assert [name for name, _, _ in capacities("koord-gpu-r50-s1", card_sizes=sizes)] == [
        f"m{number * 1024}" for number in (10, 20, 30, 40, 50, 60, 70, 80)
    ]


def test_a_ratio_has_no_template_until_a_card_is_published() -> None:
    request = template_names.parse("koord-gpu-r50-s1")
    assert request is not None
    assert template_manifest("koord-gpu-r50-s1", "ml", request, card_sizes=()) is None


ATTRIBUTES = "device.attributes['cpu.reserve.dra']"


@pytest.mark.parametrize(
    ("name", "condition", "config"),
    [
        pytest.param(
            "koord-cpu-3-default-lsr",
            f"({ATTRIBUTES}.bindPolicy != 'FullPCPUsOnly' || 3 % {ATTRIBUTES}.threadsPerCore == 0)"
            f" && ({ATTRIBUTES}.bindPolicy != 'SpreadByPCPUs' || {ATTRIBUTES}.freeCores >= 3)",
            {"sharedWith": "BestEffort"},
            id="13-default-policy",
        ),
        pytest.param(
            "koord-cpu-4-spread-numa-lse",
            f"({ATTRIBUTES}.bindPolicy != 'FullPCPUsOnly' || 4 % {ATTRIBUTES}.threadsPerCore == 0)"
            f" && ({ATTRIBUTES}.bindPolicy != 'SpreadByPCPUs' || {ATTRIBUTES}.freeCores >= 4)",
            {"preferredCPUBindPolicy": "SpreadByPCPUs", "preferredCPUExclusivePolicy": "NUMANodeLevel"},
            id="preferred-spread-for-lse",
        ),
        pytest.param(
            "koord-cpu-3-full-required-lse",
            f"{ATTRIBUTES}.bindPolicy != 'SpreadByPCPUs' && 3 % {ATTRIBUTES}.threadsPerCore == 0",
            {"requiredCPUBindPolicy": "FullPCPUs"},
            id="7-required-whole-cores",
        ),
        pytest.param(
            "koord-cpu-5-spread-required-lsr",
            f"{ATTRIBUTES}.bindPolicy != 'FullPCPUsOnly' && {ATTRIBUTES}.freeCores >= 5",
            {"requiredCPUBindPolicy": "SpreadByPCPUs", "sharedWith": "BestEffort"},
            id="8-required-spread",
        ),
    ],
)
def test_bound_cpus(name: str, condition: str, config: dict[str, str]) -> None:
    made = devices(name)
    (request,) = made["requests"]
    cpus = name.split("-")[2]
    numa = f"!('numaTopologyPolicy' in {ATTRIBUTES}) || {ATTRIBUTES}.numaTopologyPolicy in ['None', 'BestEffort']"
    numa += f" || {ATTRIBUTES}.freeNUMANodeCPUs >= {cpus}"
    numa += f" || {ATTRIBUTES}.numaTopologyPolicy == 'Restricted' && {ATTRIBUTES}.numaNodeCPUs < {cpus}"
    cores = {"wholeCoreCPUs": cpus} if "full-required" in name else {}
    cores |= {"distinctCoreCPUs": cpus} if "spread-required" in name else {}
    assert request["exactly"] == {
        "deviceClassName": "cpu.reserve.dra",
        "selectors": [{"cel": {"expression": f"'bindPolicy' in {ATTRIBUTES} && {condition} && ({numa})"}}],
        "capacity": {"requests": {"dra.cpu/cpu": cpus} | cores},
    }
    assert made["config"] == [
        {
            "requests": ["cpus"],
            "opaque": {
                "driver": "cpu.reserve.dra",
                "parameters": {"apiVersion": "reserve.dra/v1alpha1", "kind": "CpuConfig", **config},
            },
        }
    ]


@pytest.mark.parametrize(
    ("name", "config", "cores"),
    [
        pytest.param("koord-cpu-4-default-lsr", {"preferredCPUBindPolicy": "SpreadByPCPUs"}, {}, id="no-policy"),
        pytest.param(
            "koord-cpu-4-default-required-lsr",
            {"requiredCPUBindPolicy": "SpreadByPCPUs"},
            {"distinctCoreCPUs": "4"},
            id="the-word-default-required",
        ),
        pytest.param("koord-cpu-4-full-lsr", {"preferredCPUBindPolicy": "FullPCPUs"}, {}, id="a-policy-of-its-own"),
        pytest.param(
            "koord-numa-single.cpu-4-default-lsr", {"preferredCPUBindPolicy": "SpreadByPCPUs"}, {}, id="aligned"
        ),
    ],
)
def test_the_default_policy_of_the_cluster_is_that_of_pods_without_one(
    name: str, config: dict[str, str], cores: dict[str, str]
) -> None:
    request = template_names.parse(name)
    assert request is not None
    made = template_manifest(name, "ns", request, default_policy=CpuBindPolicy.SPREAD_BY_PCPUS)
    assert made is not None
    found = made["spec"]["spec"]["devices"]
    parameters = found["config"][0]["opaque"]["parameters"]
    assert {key: word for key, word in parameters.items() if key.endswith("BindPolicy")} == config
    assert found["requests"][0]["exactly"]["capacity"]["requests"] == {"dra.cpu/cpu": "4", **cores}


def test_the_word_default_can_require_whole_cores_where_these_are_the_default() -> None:
    required, full = (devices(f"koord-cpu-4-{word}-required-lsr") for word in ("default", "full"))
    assert required == full
