"""Koordinator's rules for the choice of devices, which no driver follows: refused, never dropped in silence."""

from typing import Any

import pytest

from dra.engine.translation.device_rules import PROVIDER_TEXT, RULE_TEXT
from dra.engine.translation.translated_pods import translate
from tests.dra.engine.translation.examples import container, gpus, pod, sidecar

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
        pytest.param(HINT, '{"gpu":{"requiredTopologyScope":"PCIe"}}', id="required-scope"),
        pytest.param(HINT, "not json", id="unreadable"),
        pytest.param(JOINT, '{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}', id="beside-a-network-card"),
        pytest.param(PARTITION, '{"allocatePolicy":"Restricted","ringBusBandwidth":"400Gi"}', id="partition"),
    ],
)
def test_a_rule_for_gpus_is_refused_with_its_annotation(asked: dict[str, Any], annotation: str, text: str) -> None:
    assert refusals(pod(asked, annotations={annotation: text})) == [f"metadata.annotations[{annotation}]: {RULE_TEXT}"]


def test_an_isolation_that_nothing_provides_is_refused() -> None:
    given = pod(gpus(ratio="20"), labels={PROVIDER: "HAMi-core"})
    assert refusals(given) == [f"metadata.labels[{PROVIDER}]: {PROVIDER_TEXT}"]


def test_the_rules_of_a_sidecar_with_gpus_count_too() -> None:
    assert refusals(pod(container(cpu="1"), init=({**gpus("s", gpu="50"), "restartPolicy": "Always"},))) == []
    given = pod(
        container(cpu="1"), init=({**gpus("s", gpu="50"), "restartPolicy": "Always"},), annotations={HINT: "{}"}
    )
    assert refusals(given) == [f"metadata.annotations[{HINT}]: {RULE_TEXT}"]


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
