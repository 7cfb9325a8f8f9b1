"""Koordinator's rules for the choice of devices: a required scope is translated, what cannot be is refused by name."""

from typing import Any

import pytest

from dra.engine.translation import template_names
from dra.engine.translation.device_rules import HINT_TEXT, PROVIDER_TEXT, RULE_TEXT, SCOPE_TEXT
from dra.engine.translation.translated_pods import translate
from tests.dra.engine.translation.examples import container, gpus, pod, sidecar
from tests.violations import combinations, for_each_case, named

HINT, JOINT, PARTITION = (
    f"scheduling.koordinator.sh/{name}"
    for name in ("device-allocate-hint", "device-joint-allocate", "gpu-partition-spec")
)
PROVIDER = "koordinator.sh/gpu-isolation-provider"


def refusals(given: dict[str, Any]) -> list[str]:
    return [str(each) for each in translate(given).refusals]


@pytest.mark.parametrize(
    "asked", [gpus(gpu="100"), container("main", {"nvidia.com/gpu": "2"})], ids=["share", "vendor"]
)
@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        pytest.param(JOINT, '{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}', id="beside-a-network-card"),
        pytest.param(PARTITION, '{"allocatePolicy":"Restricted","ringBusBandwidth":"400Gi"}', id="partition"),
    ],
)
def test_a_rule_for_gpus_is_refused_with_its_annotation(asked: dict[str, Any], annotation: str, text: str) -> None:
    assert refusals(pod(asked, annotations={annotation: text})) == [f"metadata.annotations[{annotation}]: {RULE_TEXT}"]


@for_each_case(
    combinations(
        named([gpus(gpu="100"), container("main", {"nvidia.com/gpu": "2"})], ["share", "vendor"]),
        [
            pytest.param("not json", id="unreadable"),
            pytest.param('{"gpu":{"requiredTopologyScope":"Rack"}}', id="unknown-scope"),
            pytest.param('{"gpu":{"requiredTopologyScope":"PCIe"},"rdma":{}}', id="another-type-of-device"),
            pytest.param('{"rdma":{"requiredTopologyScope":"PCIe"}}', id="only-another-type-of-device"),
            pytest.param('{"gpu":{"exclusivePolicy":"PCIeLevel"}}', id="exclusive"),
            pytest.param(
                '{"gpu":{"requiredTopologyScope":"PCIe","selector":{"matchLabels":{"a":"b"}}}}', id="selector"
            ),
            pytest.param('{"gpu":{"requiredTopologyScope":"PCIe"}}' + " " * 1024, id="too-long"),
        ],
    )
)
def test_a_hint_with_another_rule_than_a_scope_of_gpus_is_refused(asked: dict[str, Any], text: str) -> None:
    assert refusals(pod(asked, annotations={HINT: text})) == [f"metadata.annotations[{HINT}]: {HINT_TEXT}"]


def hint(scope: str) -> dict[str, str]:
    return {HINT: f'{{"gpu":{{"requiredTopologyScope":"{scope}"}}}}'}


NUMA = "scheduling.koordinator.sh/numa-topology-spec"


@for_each_case(
    [
        pytest.param(
            pod(gpus(gpu="200"), annotations=hint("PCIe")), ["koord-gpu-c200-r200-s2-pcie"], id="one-pcie-root"
        ),
        pytest.param(
            pod(gpus(ratio="400"), annotations=hint("NUMANode")), ["koord-gpu-r400-s4-numa"], id="one-numa-node"
        ),
        pytest.param(
            pod(gpus(ratio="200", shared="2"), annotations={HINT: f" {hint('PCIe')[HINT]}\n"}),
            ["koord-gpu-r200-s2-pcie"],
            id="cards-by-number",
        ),
        pytest.param(pod(gpus(gpu="200"), annotations=hint("Node")), ["koord-gpu-c200-r200-s2"], id="any-of-the-node"),
        pytest.param(
            pod(gpus(gpu="200"), annotations={HINT: '{"gpu":{"requiredTopologyScope":null}}'}),
            ["koord-gpu-c200-r200-s2"],
            id="no-scope",
        ),
        pytest.param(pod(gpus(gpu="200"), annotations={HINT: "{}"}), ["koord-gpu-c200-r200-s2"], id="empty-object"),
        pytest.param(pod(gpus(gpu="100"), annotations=hint("PCIe")), ["koord-gpu-c100-r100-s1"], id="one-card"),
        pytest.param(pod(gpus(gpu="50"), annotations=hint("Device")), ["koord-gpu-c50-r50-s1"], id="part-of-a-card"),
        pytest.param(
            pod(gpus(gpu="400"), init=(gpus("i", gpu="200"),), annotations=hint("PCIe")),
            ["koord-gpu-c400-r400-s4-pcie"],
            id="an-init-container-uses-the-cards-of-a-container",
        ),
        pytest.param(
            pod(gpus(gpu="200"), annotations=hint("PCIe") | {NUMA: '{"numaTopologyPolicy":"SingleNUMANode"}'}),
            ["koord-numa-single.gpu-0-c200-r200-s2-pcie"],
            id="with-a-numa-policy",
        ),
    ]
)
def test_a_required_scope_is_translated(given: dict[str, Any], templates: list[str]) -> None:
    translation = translate(given)
    assert not translation.refusals
    assert [template_names.name_of(each.request) for each in translation.entries] == templates


@for_each_case(
    [
        pytest.param(pod(gpus("a", gpu="100"), gpus("b", gpu="100"), annotations=hint("PCIe")), id="two-containers"),
        pytest.param(pod(gpus(ratio="100", shared="2"), annotations=hint("NUMANode")), id="parts-of-two-cards"),
        pytest.param(pod(gpus(memory="8Gi", shared="2"), annotations=hint("NUMANode")), id="bytes-of-two-cards"),
        pytest.param(pod(gpus(gpu="200"), annotations=hint("Device")), id="two-cards-of-one-device"),
        pytest.param(pod(container("main", {"nvidia.com/gpu": "2"}), annotations=hint("PCIe")), id="vendor"),
        pytest.param(
            pod(gpus(gpu="100"), init=(gpus("i", gpu="200"),), annotations=hint("PCIe")),
            id="an-init-container-with-cards-of-its-own",
        ),
        pytest.param(
            pod(gpus(gpu="200"), annotations=hint("PCIe") | {NUMA: '{"numaTopologyPolicy":"BestEffort"}'}),
            id="best-effort",
        ),
    ]
)
def test_a_scope_that_no_claim_can_hold_is_refused(given: dict[str, Any]) -> None:
    expected = [f"metadata.annotations[{HINT}].gpu.requiredTopologyScope: {SCOPE_TEXT}"]
    assert refusals(given) == expected


def test_an_isolation_that_nothing_provides_is_refused() -> None:
    given = pod(gpus(ratio="20"), labels={PROVIDER: "HAMi-core"})
    assert refusals(given) == [f"metadata.labels[{PROVIDER}]: {PROVIDER_TEXT}"]


def test_the_rules_of_a_sidecar_with_gpus_count_too() -> None:
    assert refusals(pod(container(cpu="1"), init=({**gpus("s", gpu="50"), "restartPolicy": "Always"},))) == []
    given = pod(
        container(cpu="1"), init=({**gpus("s", gpu="50"), "restartPolicy": "Always"},), annotations={JOINT: "{}"}
    )
    assert refusals(given) == [f"metadata.annotations[{JOINT}]: {RULE_TEXT}"]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(pod(container(cpu="1"), annotations={HINT: "{}"}, labels={PROVIDER: "x"}), id="no-gpus"),
        pytest.param(pod(gpus(gpu="0"), annotations={HINT: "{}"}), id="an-amount-of-0"),
        pytest.param(pod(gpus(gpu="100"), annotations={HINT: ""}, labels={PROVIDER: ""}), id="empty-values"),
        pytest.param(pod(container(), init=(sidecar("s", cpu="1"),), annotations={PARTITION: "{}"}), id="cpus-alone"),
    ],
)
def test_other_pods_are_left_alone(given: dict[str, Any]) -> None:
    assert refusals(given) == []
