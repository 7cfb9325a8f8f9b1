"""Shares of GPUs: koordinator-rest.md 4.6, koordinator.md D.2 and D.3, by their ids."""

from typing import Any

import pytest

from dra.engine.translation import template_names
from dra.engine.translation.gpu_requests import CARDS_TEXT, SET_TEXT, TWICE_TEXT, UNEQUAL_TEXT, UNIT_TEXT
from dra.engine.translation.translated_pods import translate, translated_pod
from tests.dra.engine.translation.examples import container, gpus, lsr, pod
from tests.violations import for_each_case

LIMITS = "spec.containers[0].resources.limits"
UNSUPPORTED = "no driver here has such devices; remove the request"
CARDS = "must be a whole number of cards, from 1 to 32"
BYTES = "must be a whole number of bytes, from 1 to 64Ti"
PERCENT = "must be a whole number of percent, from 1 to 3200"


def limit(suffix: str) -> str:
    return f"{LIMITS}[koordinator.sh/{suffix}]"


@for_each_case(
    [
        pytest.param(gpus(gpu="50"), "koord-gpu-c50-r50-s1", id="1-half-a-card"),
        pytest.param(gpus(gpu="200"), "koord-gpu-c200-r200-s2", id="2-two-cards"),
        pytest.param(gpus(core="50", ratio="50", shared="2"), "koord-gpu-c50-r50-s2", id="3-a-quarter-of-two"),
        pytest.param(gpus(memory="8Gi"), "koord-gpu-m8192-s1", id="4-bytes"),
        pytest.param(gpus(shared="2", ratio="100"), "koord-gpu-r100-s2", id="7-half-of-two"),
        pytest.param(gpus(shared="1", core="100", memory="64Gi"), "koord-gpu-c100-m65536-s1", id="7-whole-core"),
        pytest.param(gpus(core="200", memory="64Gi"), "koord-gpu-c200-m65536-s2", id="9-cards-by-core"),
        pytest.param(gpus(core="200", ratio="200"), "koord-gpu-c200-r200-s2", id="D.2-core-and-ratio"),
        pytest.param(gpus(ratio="200"), "koord-gpu-r200-s2", id="D.2-ratio"),
        pytest.param(gpus(memory="64Gi"), "koord-gpu-m65536-s1", id="D.2-memory"),
        pytest.param(gpus(shared="2", ratio="200"), "koord-gpu-r200-s2", id="D.2-whole-cards-shared"),
        pytest.param(gpus(shared="2", core="100", memory="64Gi"), "koord-gpu-c100-m65536-s2", id="D.2-shared-2"),
        pytest.param(gpus(shared="2", core="100", ratio="100"), "koord-gpu-c100-r100-s2", id="D.3-half-of-two"),
        pytest.param(gpus(shared="1", core="50", ratio="50"), "koord-gpu-c50-r50-s1", id="D.3-half-of-one"),
        pytest.param(gpus(memory=1024, core=100), "koord-gpu-c100-m1-s1", id="D.3-bytes-rounded-up"),
        pytest.param(gpus(memory="3Mi", shared="2"), "koord-gpu-m4-s2", id="bytes-rounded-up-for-each-card"),
        pytest.param(gpus(core="200", ratio="100"), "koord-gpu-c200-r100-s2", id="cards-by-core-with-a-ratio"),
        pytest.param(gpus(core="100", ratio="200"), "koord-gpu-c100-r200-s2", id="cards-by-ratio-before-core"),
        pytest.param(gpus(core="1k", ratio="1e3"), "koord-gpu-c1000-r1000-s10", id="other-forms-of-numbers"),
        pytest.param(container("main", {"kubernetes.io/gpu": "50"}), "koord-gpu-c50-r50-s1", id="4.1-deprecated-name"),
        pytest.param(
            container("main", {"kubernetes.io/gpu-core": "50", "koordinator.sh/gpu-memory": "8Gi"}),
            "koord-gpu-c50-m8192-s1",
            id="4.1-deprecated-name-beside-the-new-prefix",
        ),
    ],
)
def test_translation(asked: dict[str, Any], expected: str) -> None:
    found = translate(pod(asked))
    assert found.refusals == ()
    (entry,) = found.entries
    assert entry.name == "koord-gpu-0"
    assert entry.containers == (("containers", 0),)
    assert template_names.name_of(entry.request) == expected


@for_each_case(
    [
        pytest.param(container("main", {"nvidia.com/gpu": "1"}), id="5-one-card"),
        pytest.param(container("main", {"nvidia.com/gpu": "2"}), id="5-two-cards"),
        pytest.param(container("main", {"dcu.com/gpu": "2"}), id="D.2-another-vendor"),
        pytest.param(container(cpu="1"), id="no-gpu"),
        pytest.param({"name": "bare"}, id="no-resources"),
        pytest.param(gpus(gpu="0"), id="no-percent"),
        pytest.param(gpus(core="0", ratio="0"), id="no-percent-of-both"),
        pytest.param(container("main", {"koordinator.sh/rdma": "0"}), id="no-rdma"),
        pytest.param(container("main", {"huawei.com/npu-core": "0", "nvidia.com/gpu": "0"}), id="no-npu"),
    ]
)
def test_what_is_left_alone(asked: dict[str, Any]) -> None:
    assert translate(pod(asked)) == translate(pod())


def test_each_container_has_a_claim_of_its_own() -> None:
    found = translate(pod(container(), gpus("b", gpu="50"), init=(gpus("i", gpu="100"),)))
    assert [(each.name, each.containers, template_names.name_of(each.request)) for each in found.entries] == [
        ("koord-gpu-1", (("containers", 1),), "koord-gpu-c50-r50-s1"),
        ("koord-gpu-init-0", (("initContainers", 0),), "koord-gpu-c100-r100-s1"),
    ]


@pytest.mark.parametrize(
    ("asked", "template"),
    [
        pytest.param(gpus(core="0", memory="8Gi"), "koord-gpu-m8192-s1", id="no-compute"),
        pytest.param(
            container("main", {"koordinator.sh/gpu": "50", "nvidia.com/gpu": "0"}),
            "koord-gpu-c50-r50-s1",
            id="no-card-of-the-vendor",
        ),
    ],
)
def test_an_amount_of_0_asks_for_nothing(asked: dict[str, Any], template: str) -> None:
    (entry,) = translate(pod(asked)).entries
    assert template_names.name_of(entry.request) == template


def _memory(name: str, amount: str, **more: str) -> dict[str, Any]:
    return gpus(name, memory=amount, **more)


@for_each_case(
    [
        pytest.param(
            pod(_memory("c", "50Gi"), init=tuple(_memory(f"i{index}", "50Gi") for index in range(3))),
            {"koord-gpu-0": ["containers 0", "initContainers 0", "initContainers 1", "initContainers 2"]},
            id="as-much-as-the-container",
        ),
        pytest.param(
            pod(_memory("c", "5Gi"), init=(_memory("a", "10Gi"), _memory("b", "30Gi"), _memory("d", "20Gi"))),
            {
                "koord-gpu-0": ["containers 0"],
                "koord-gpu-init-1": ["initContainers 1", "initContainers 0", "initContainers 2"],
            },
            id="the-greatest-of-the-init-containers",
        ),
        pytest.param(
            pod(container(), init=(_memory("a", "8Gi"), _memory("b", "8Gi"))),
            {"koord-gpu-init-0": ["initContainers 0", "initContainers 1"]},
            id="the-first-of-equal-init-containers",
        ),
        pytest.param(
            pod(gpus("c", gpu="800"), init=(gpus("a", gpu="100"),)),
            {"koord-gpu-0": ["containers 0", "initContainers 0"]},
            id="one-card-of-eight",
        ),
        pytest.param(
            pod(gpus("c", ratio="50"), init=(_memory("a", "1Gi"),)),
            {"koord-gpu-0": ["containers 0"], "koord-gpu-init-0": ["initContainers 0"]},
            id="bytes-and-percent-cannot-be-compared",
        ),
        pytest.param(
            pod(_memory("c", "8Gi"), init=(_memory("a", "8Gi", core="10"),)),
            {"koord-gpu-0": ["containers 0"], "koord-gpu-init-0": ["initContainers 0"]},
            id="compute-that-the-container-has-not",
        ),
        pytest.param(
            pod(_memory("c", "8Gi"), init=({**_memory("s", "8Gi"), "restartPolicy": "Always"}, _memory("a", "8Gi"))),
            {"koord-gpu-0": ["containers 0", "initContainers 1"], "koord-gpu-init-0": ["initContainers 0"]},
            id="a-sidecar-runs-beside-both",
        ),
    ]
)
def test_init_containers_use_the_cards_of_a_container_that_asks_for_as_much(
    given: dict[str, Any], claims: dict[str, list[str]]
) -> None:
    found = translate(given).entries
    assert {each.name: [f"{field} {index}" for field, index in each.containers] for each in found} == claims
    made = translated_pod(given, found)
    for entry in found:
        for field, index in entry.containers:
            assert made["spec"][field][index]["resources"] == {"claims": [{"name": entry.name}]}


def test_a_bound_pod_with_gpus_has_both_claims() -> None:
    given = lsr("2", "2")
    given["spec"]["containers"][1]["resources"]["limits"]["koordinator.sh/gpu"] = "100"
    assert [each.name for each in translate(given).entries] == ["koord-cpus", "koord-gpu-1"]


@for_each_case(
    [
        pytest.param(gpus(core="101"), LIMITS, SET_TEXT, id="6-core-alone"),
        pytest.param(gpus(core="100"), LIMITS, SET_TEXT, id="6-core-100-alone"),
        pytest.param(gpus(gpu="101"), limit("gpu"), UNIT_TEXT, id="6-gpu-101"),
        pytest.param(gpus(ratio="101", shared="1"), limit("gpu-memory-ratio"), CARDS_TEXT, id="6-ratio-101-of-1"),
        pytest.param(gpus(ratio="101", shared="2"), limit("gpu-memory-ratio"), CARDS_TEXT, id="6-ratio-101-of-2"),
        pytest.param(gpus(core="101", memory="1Gi", shared="1"), limit("gpu-core"), CARDS_TEXT, id="D.2-core-101-of-1"),
        pytest.param(gpus(core="101", memory="1Gi", shared="2"), limit("gpu-core"), CARDS_TEXT, id="D.2-core-101-of-2"),
        pytest.param(gpus(core="100", ratio="101"), limit("gpu-memory-ratio"), UNIT_TEXT, id="D.2-ratio-101"),
        pytest.param(
            container("main", {"nvidia.com/gpu": "2", "koordinator.sh/gpu": "200", "koordinator.sh/gpu-core": "200"}),
            LIMITS,
            SET_TEXT,
            id="6-vendor-and-percent",
        ),
        pytest.param(
            container("main", {"nvidia.com/gpu": "2", "koordinator.sh/gpu": "200"}),
            LIMITS,
            SET_TEXT,
            id="vendor-and-gpu",
        ),
        pytest.param(gpus(gpu="50", shared="2"), LIMITS, SET_TEXT, id="D.2-gpu-and-shared"),
        pytest.param(gpus(memory="8Gi", ratio="50"), LIMITS, SET_TEXT, id="D.2-bytes-and-ratio"),
        pytest.param(gpus(shared="0", ratio="50"), limit("gpu.shared"), CARDS, id="10-shared-0"),
        pytest.param(gpus(ratio="150"), limit("gpu-memory-ratio"), UNIT_TEXT, id="10-ratio-150"),
        pytest.param(gpus(core="0.5", ratio="50"), limit("gpu-core"), PERCENT, id="10-half-a-percent"),
        pytest.param(gpus(core="abc", ratio="50"), limit("gpu-core"), PERCENT, id="no-quantity"),
        pytest.param(gpus(ratio="-50"), limit("gpu-memory-ratio"), PERCENT, id="negative"),
        pytest.param(gpus(ratio="3300"), limit("gpu-memory-ratio"), PERCENT, id="more-cards-than-a-claim-has"),
        pytest.param(gpus(memory="64.1Ti"), limit("gpu-memory"), BYTES, id="too-many-bytes"),
        pytest.param(gpus(memory="500m"), limit("gpu-memory"), BYTES, id="half-a-byte"),
        pytest.param(gpus(core="300", ratio="200"), limit("gpu-core"), CARDS_TEXT, id="more-core-than-the-cards-have"),
        pytest.param(
            container("main", {"koordinator.sh/gpu": "50"}, requests={"koordinator.sh/gpu": "100"}),
            "spec.containers[0].resources.requests[koordinator.sh/gpu]",
            UNEQUAL_TEXT,
            id="10-requests-differ-from-limits",
        ),
        pytest.param(
            container(requests={"koordinator.sh/gpu": "100"}),
            "spec.containers[0].resources.requests[koordinator.sh/gpu]",
            UNEQUAL_TEXT,
            id="10-requests-without-limits",
        ),
        pytest.param(
            container("main", {"koordinator.sh/gpu": "50", "kubernetes.io/gpu": "50"}),
            f"{LIMITS}[kubernetes.io/gpu]",
            TWICE_TEXT,
            id="4.1-both-prefixes",
        ),
        *(
            pytest.param(container("main", {name: "100"}), f"{LIMITS}[{name}]", UNSUPPORTED, id=f"4.1-{name}")
            for name in ("koordinator.sh/rdma", "koordinator.sh/fpga", "huawei.com/npu-core", "kubernetes.io/rdma")
        ),
    ],
)
def test_a_bad_request_is_refused_with_its_path(asked: dict[str, Any], path: str, text: str) -> None:
    assert [(each.path, each.text) for each in translate(pod(asked)).refusals] == [(path, text)]


def test_the_name_of_the_entry_must_be_free() -> None:
    given = pod(gpus(gpu="50"), resourceClaims=[{"name": "koord-gpu-0", "resourceClaimName": "mine"}])
    assert [each.path for each in translate(given).refusals] == ["spec.resourceClaims[koord-gpu-0]"]
