"""Requests for one NUMA node: one claim for CPUs and cards (koordinator-rest.md §4.4)."""

from typing import Any

import pytest

from dra.engine.translation import template_names
from dra.engine.translation.templates import template_manifest
from dra.engine.translation.translated_pods import translate, translated_pod
from tests.dra.engine.translation.examples import container, gpus, lsr, pod
from tests.violations import for_each_case

NUMA_SPEC = "scheduling.koordinator.sh/numa-topology-spec"
SIZES = (16 * 2**30, 80 * 2**30)
BEST = "BestEffort"
SINGLE = "SingleNUMANode"
RESTRICTED = "Restricted"


def aligned(given: dict[str, Any], policy: str = SINGLE, **words: str) -> dict[str, Any]:
    """Return a pod with a NUMA policy."""
    fields = ",".join(f'"{key}":"{word}"' for key, word in {"numaTopologyPolicy": policy, **words}.items())
    given["metadata"]["annotations"][NUMA_SPEC] = f"{{{fields}}}"
    return given


def training(*shares: dict[str, Any], cpus: str = "4") -> dict[str, Any]:
    """Return an LSR pod whose containers ask for GPUs and CPUs, and one more for CPUs alone."""
    made = lsr(*[cpus] * (len(shares) + 1))
    for each, share in zip(made["spec"]["containers"], shares, strict=False):
        names = gpus(**share)["resources"]["limits"]
        each["resources"] = {kind: {**amounts, **names} for kind, amounts in each["resources"].items()}
    return made


def templates(given: dict[str, Any]) -> list[str]:
    found = translate(given)
    assert found.refusals == ()
    return [template_names.name_of(each.request) for each in found.entries]


@for_each_case(
    [
        pytest.param(aligned(lsr("4")), ["koord-numa-single.cpu-4-default-lsr"], id="cpus"),
        pytest.param(aligned(lsr("4"), BEST), ["koord-cpu-4-default-lsr"], id="the-driver-prefers-one-numa-node"),
        pytest.param(aligned(lsr("4"), "None"), ["koord-cpu-4-default-lsr"], id="no-policy"),
        pytest.param(
            aligned(lsr("4"), RESTRICTED, singleNUMANodeExclusive="Preferred"),
            ["koord-numa-restricted.cpu-4-default-lsr"],
            id="preferred-exclusiveness-has-no-effect",
        ),
        pytest.param(aligned(pod(gpus(gpu="200"))), ["koord-numa-single.gpu-0-c200-r200-s2"], id="cards"),
        pytest.param(
            aligned(pod(gpus(gpu="50"), container("other"), init=(gpus("first", memory="8Gi"),))),
            ["koord-numa-single.gpu-0-c50-r50-s1.gpu-init-0-m8192-s1"],
            id="cards-of-two-containers",
        ),
        pytest.param(
            aligned(pod(gpus(gpu="100"), container("other"), init=(gpus("first", gpu="50"),))),
            ["koord-numa-single.gpu-0-c100-r100-s1"],
            id="cards-that-an-init-container-uses-first",
        ),
        pytest.param(aligned(pod(gpus(gpu="200")), BEST), ["koord-gpu-c200-r200-s2"], id="cards-prefer-one-numa-node"),
        pytest.param(
            aligned(training({"gpu": "50"}), BEST),
            ["koord-numa-best.cpu-8-default-lsr.gpu-0-c50-r50-s1"],
            id="cpus-and-cards-as-far-as-possible",
        ),
        pytest.param(
            aligned(training({"gpu": "50"}, {"gpu": "100"})),
            ["koord-numa-single.cpu-12-default-lsr.gpu-0-c50-r50-s1.gpu-1-c100-r100-s1"],
            id="cpus-and-cards",
        ),
        pytest.param(aligned(pod(container(cpu="4"), qos="LS", priority=9500)), [], id="shared-cpus-have-no-claim"),
        pytest.param(aligned(pod(container("a", {"nvidia.com/gpu": "2"})), BEST), [], id="whole-cards-are-left-alone"),
        pytest.param(aligned(lsr("4", resourceClaims=[{"name": "koord-numa"}])), [], id="translated-before"),
    ]
)
def test_a_pod_for_one_numa_node_has_one_claim(given: dict[str, Any], expected: list[str]) -> None:
    assert templates(given) == expected


def test_each_container_refers_to_its_own_request() -> None:
    given = aligned(training({"gpu": "50"}, {"gpu": "100"}))
    made = translated_pod(given, translate(given).entries)
    assert [each["name"] for each in made["spec"]["resourceClaims"]] == ["koord-numa"]
    assert [each["resources"]["claims"] for each in made["spec"]["containers"]] == [
        [{"name": "koord-numa", "request": name}] for name in ("gpu-0", "gpu-1", "cpus")
    ]
    assert translate(made).entries == ()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            aligned(lsr("4"), singleNUMANodeExclusive="Required"),
            f"metadata.annotations[{NUMA_SPEC}].singleNUMANodeExclusive: must be Preferred",
            id="exclusive-numa-node",
        ),
        pytest.param(
            aligned(pod(*[gpus(f"c{number}", gpu="50") for number in range(6)])),
            f"metadata.annotations[{NUMA_SPEC}].numaTopologyPolicy: at most 5 containers with GPUs can be on one NUMA "
            "node; remove the policy, or ask for GPUs in fewer containers",
            id="more-containers-than-a-name-spells",
        ),
        pytest.param(
            aligned(pod(gpus(gpu="50"), resourceClaims=[{"name": "koord-numa"}])),
            "spec.resourceClaims[koord-numa]: is the name of the entry for the GPUs that a container asks for; "
            "rename this one",
            id="taken-name",
        ),
        pytest.param(
            aligned(pod(container("a"), container("b", {"nvidia.com/gpu": "2"}))),
            "spec.containers[1].resources.limits[nvidia.com/gpu]: whole cards by this name have a claim of Kubernetes' "
            "own, which no policy can align; ask for koordinator.sh/gpu: 100 for each card, "
            "or for the policy BestEffort",
            id="whole-cards-by-a-vendors-name",
        ),
    ],
)
def test_refusals(given: dict[str, Any], expected: str) -> None:
    assert [str(each) for each in translate(given).refusals] == [expected]


def devices(name: str) -> dict[str, Any]:
    request = template_names.parse(name)
    assert request is not None
    made = template_manifest(name, "ml", request, card_sizes=SIZES)
    assert made is not None
    found: dict[str, Any] = made["spec"]["spec"]["devices"]
    return found


def test_cpus_and_cards_share_a_numa_node() -> None:
    found = devices("koord-numa-single.cpu-4-default-lsr.gpu-0-c50-r50-s1.gpu-1-m8192-s2")
    assert [each["name"] for each in found["requests"]] == ["cpus", "numa", "gpu-0", "gpu-1"]
    assert found["constraints"] == [
        {"requests": ["gpu-1"], "distinctAttribute": "gpu.reserve.dra/uuid"},
        {"requests": ["numa", "gpu-0", "gpu-1"], "matchAttribute": "resource.kubernetes.io/numaNode"},
    ]
    assert found["config"][0]["requests"] == ["cpus"]
    cpus, numa = (each["exactly"] for each in found["requests"][:2])
    assert (cpus["capacity"], numa["capacity"]) == ({"requests": {"dra.cpu/cpu": "4"}}, {"requests": {"numaCPUs": "4"}})
    assert numa["tolerations"] == [{"key": "cpu.reserve.dra/numa-node", "operator": "Exists", "effect": "NoSchedule"}]
    assert "'bindPolicy' in" in cpus["selectors"][0]["cel"]["expression"]
    assert "'numaBindPolicy' in" in numa["selectors"][0]["cel"]["expression"]


def test_a_restricted_pod_may_have_cpus_of_several_numa_nodes_if_none_is_large_enough() -> None:
    found = devices("koord-numa-restricted.cpu-10-default-lsr.gpu-0-c50-r50-s1")
    near, far = found["requests"][1]["firstAvailable"]
    assert (near["name"], far["name"]) == ("near", "far")
    assert "capacity" not in far
    assert "numaNodeCPUs < 10" in far["selectors"][0]["cel"]["expression"]
    assert found["constraints"][-1]["requests"] == ["numa/near", "gpu-0"]


def test_alignment_as_far_as_possible_constrains_the_first_alternatives() -> None:
    found = devices("koord-numa-best.cpu-4-default-lsr.gpu-0-c50-r50-s1.gpu-1-m8192-s1")
    names = [[each["name"] for each in request["firstAvailable"]] for request in found["requests"][2:]]
    assert names == [["m16384-near", "m81920-near", "m16384", "m81920"], ["near", "far"]]
    assert found["constraints"] == [
        {
            "requests": ["numa/near", "gpu-0/m16384-near", "gpu-0/m81920-near", "gpu-1/near"],
            "matchAttribute": "resource.kubernetes.io/numaNode",
        }
    ]


def test_whole_cards_of_one_numa_node_prefer_one_pcie_root() -> None:
    found = devices("koord-numa-single.gpu-0-c200-r200-s2")
    assert [each["name"] for each in found["requests"][0]["firstAvailable"]] == [
        "m16384-pcie",
        "m16384",
        "m81920-pcie",
        "m81920",
    ]
    assert found["constraints"][-1]["requests"] == ["gpu-0"]


def test_a_single_card_needs_no_known_numa_node() -> None:
    assert "constraints" not in devices("koord-numa-single.gpu-0-c50-r50-s1")


@for_each_case(
    [
        "koord-numa-single",
        "koord-numa-none.cpu-4-default-lsr",
        "koord-numa-best.cpu-4-default-lsr",
        "koord-numa-single.gpu-1-m1-s1.gpu-0-m1-s1",
        "koord-numa-single.gpu-0-m1-s1.gpu-0-m1-s1",
        "koord-numa-single.gpu-0-m1-s1.cpu-4-default-lsr",
        "koord-numa-single.gpu-00-m1-s1",
        "koord-numa-single.gpu-0-m1-s1.",
        "numa-single.cpu-4-default-lsr",
    ]
)
def test_other_texts_are_no_names(name: str) -> None:
    assert template_names.parse(name) is None


def test_an_init_container_refers_to_the_request_of_the_container_whose_cards_it_uses() -> None:
    given = aligned(pod(gpus(gpu="100"), container("other"), init=(gpus("first", gpu="50"),)))
    made = translated_pod(given, translate(given).entries)
    reference = [{"name": "koord-numa", "request": "gpu-0"}]
    first, main = made["spec"]["initContainers"][0], made["spec"]["containers"][0]
    assert (first["resources"]["claims"], main["resources"]["claims"]) == (reference, reference)
