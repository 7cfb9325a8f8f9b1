"""The table of koordinator-rest.md 2.2: QoS classes, priority classes, and fields that cannot be changed."""

from typing import Any

import pytest

from dra.engine.translation.translated_pods import change_refusals, translate
from tests.dra.engine.translation.examples import PRIORITY_CLASS, QOS, container, lsr, pod
from tests.violations import for_each_case

LABEL = f"metadata.labels[{QOS}]"
BATCH = "must specify koordinator QoS BE with koordinator colocation resources; set label koordinator.sh/qosClass to BE"


def refusals(given: dict[str, Any]) -> list[str]:
    found = translate(given)
    assert not (found.refusals and found.entries)
    return [f"{each.path}: {each.text}" for each in found.refusals]


def combination(qos: str, priority_class: str, *allowed: str) -> str:
    return (
        f"{LABEL}: koordinator.sh/qosClass={qos} and priorityClass={priority_class} cannot be used in combination; "
        f"set priorityClassName or label koordinator.sh/priority-class to one of: {', '.join(allowed)}"
    )


def whole(index: int, qos: str) -> str:
    text = f"the requested CPUs of {qos} Pod must be integer, from 0 to 9999"
    return f"spec.containers[{index}].resources.requests.cpu: {text}"


def unequal(qos: str) -> str:
    text = f"must equal requests.cpu: the CPUs of {qos} Pod are its own; set both to the same number"
    return f"spec.containers[0].resources.limits.cpu: {text}"


NOTHING_DECLARED = (
    "spec.containers: LSR Pod must declare the requested CPUs, 1 to 9999 altogether; set requests.cpu, or "
    "annotation reserve.dra/cpus=own if the pod has claims for CPUs"
)
LOWER = ("koord-mid", "koord-batch", "koord-free")


@for_each_case(
    [
        pytest.param(lsr("4"), [], id="lsr-prod"),
        pytest.param(lsr("4", qos="LSE"), [], id="lse-prod"),
        pytest.param(
            lsr("1500m"),
            [whole(0, "LSR")],
            id="lsr-fraction",
        ),
        pytest.param(
            lsr("500m", "500m", qos="LSE"),
            [whole(0, "LSE"), whole(1, "LSE")],
            id="lse-fractions-with-a-whole-sum",
        ),
        pytest.param(
            pod(container(memory="1Gi"), qos="LSR", priority=9500),
            [NOTHING_DECLARED],
            id="lsr-without-cpu",
        ),
        pytest.param(
            pod(container(requests={"cpu": "2"}, cpu="4"), qos="LSR", priority=9500),
            [unequal("LSR")],
            id="lsr-requests-differ-from-limits",
        ),
        pytest.param(
            pod(container(requests={"cpu": "2"}), qos="LSE", priority=9500),
            [unequal("LSE")],
            id="lse-without-limit",
        ),
        *(
            pytest.param(
                pod(container(cpu="1"), qos=qos, priority=priority),
                [combination(qos, name, "koord-prod")],
                id=f"{qos.lower()}-{name}",
            )
            for qos in ("LSR", "LSE")
            for priority, name in ((7999, "koord-mid"), (5000, "koord-batch"), (3999, "koord-free"), (0, "none"))
        ),
        pytest.param(
            pod(container(), qos="BE", priority=9000), [combination("BE", "koord-prod", *LOWER)], id="be-prod"
        ),
        pytest.param(pod(container(), qos="BE"), [combination("BE", "none", *LOWER)], id="be-none"),
        *(
            pytest.param(pod(container(), qos="BE", priority=priority), [], id=f"be-{priority}")
            for priority in (3000, 5999, 7000)
        ),
        pytest.param(
            pod(container("main", {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "1Gi"}), qos="LS"),
            [
                f"spec.containers[0].resources.requests[kubernetes.io/batch-cpu]: {BATCH}",
                f"spec.containers[0].resources.requests[kubernetes.io/batch-memory]: {BATCH}",
            ],
            id="batch-resources-of-ls",
        ),
        pytest.param(
            pod(container("main", {"kubernetes.io/batch-cpu": "500"}), qos="BE", priority=5500),
            [],
            id="batch-resources-of-be",
        ),
        pytest.param(
            pod(container(cpu="1"), qos="LSR", priority=9500, labels={PRIORITY_CLASS: "koord-batch"}),
            [combination("LSR", "koord-batch", "koord-prod")],
            id="the-label-of-the-priority-class-wins",
        ),
        pytest.param(
            pod(container(cpu="1"), qos="LSR", labels={PRIORITY_CLASS: "koord-prod"}), [], id="prod-by-label-alone"
        ),
        pytest.param(pod(container(cpu="1500m"), qos="SYSTEM"), [], id="system-is-not-bound"),
        pytest.param(pod(container(cpu="1500m"), qos="lsr"), [], id="an-unknown-class-is-none"),
        pytest.param(
            lsr("1") | {"spec": {"priorityClassName": "koord-prod", "containers": [container(cpu="1")]}},
            [],
            id="before-admission-the-name-of-the-priority-class-counts",
        ),
    ],
)
def test_classes(given: dict[str, Any], expected: list[str]) -> None:
    assert refusals(given) == expected


@pytest.mark.parametrize(
    ("old", "new", "paths"),
    [
        pytest.param(lsr("1"), lsr("1"), [], id="unchanged"),
        pytest.param(lsr("1"), lsr("1", qos="LSE"), [LABEL], id="qos-class"),
        pytest.param(lsr("1"), lsr("1", labels={PRIORITY_CLASS: "koord-prod"}), [], id="the-same-class-by-label"),
        pytest.param(
            lsr("1"),
            lsr("1", labels={PRIORITY_CLASS: "koord-mid"}),
            [f"metadata.labels[{PRIORITY_CLASS}]"],
            id="priority-class",
        ),
        pytest.param(
            pod(),
            pod(labels={"koordinator.sh/priority": "5"}),
            ["metadata.labels[koordinator.sh/priority]"],
            id="sub-priority",
        ),
    ],
)
def test_classes_are_immutable(old: dict[str, Any], new: dict[str, Any], paths: list[str]) -> None:
    assert [each.path for each in change_refusals(old, new)] == paths
