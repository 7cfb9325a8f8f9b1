"""Koordinator's classes by label and by priority."""

import msgspec
import pytest

from dra.model.koordinator_classes import (
    PriorityClass,
    QosClass,
    effective_priority_class,
    effective_qos_class,
    priority_class,
    qos_class,
)
from dra.model.pods import Pod
from tests.violations import for_each_case


def pod(priority=0, **labels):
    return msgspec.convert({"metadata": {"labels": labels}, "spec": {"priority": priority}}, Pod)


@for_each_case(
    [
        *((each, PriorityClass.PROD) for each in (9000, 9999)),
        *((each, PriorityClass.MID) for each in (7000, 7999)),
        *((each, PriorityClass.BATCH) for each in (5000, 5999)),
        *((each, PriorityClass.FREE) for each in (3000, 3999)),
        *((each, PriorityClass.NONE) for each in (0, 2999, 4000, 6500, 8000, 10000, -1)),
    ],
)
def test_the_priority_gives_the_class(priority, wanted):
    assert priority_class(pod(priority)) is wanted


def test_the_label_gives_the_class_first():
    assert priority_class(pod(9500, **{"koordinator.sh/priority-class": "koord-free"})) is PriorityClass.FREE
    assert priority_class(pod(9500, **{"koordinator.sh/priority-class": "gold"})) is PriorityClass.PROD


@for_each_case(
    [
        ("BE", QosClass.BE),
        ("LS", QosClass.LS),
        ("LSR", QosClass.LSR),
        ("LSE", QosClass.LSE),
        ("SYSTEM", QosClass.LSE),
        ("ls", QosClass.NONE),
        ("", QosClass.NONE),
    ]
)
def test_qos_classes(label, wanted):
    assert qos_class(pod(**{"koordinator.sh/qosClass": label})) is wanted


@pytest.mark.parametrize(
    ("label", "kubernetes_qos", "qos", "priority"),
    [
        pytest.param("", "Guaranteed", QosClass.LSR, PriorityClass.PROD, id="guaranteed"),
        pytest.param("", "Burstable", QosClass.LS, PriorityClass.PROD, id="burstable"),
        pytest.param("", "BestEffort", QosClass.BE, PriorityClass.BATCH, id="best-effort"),
        pytest.param("BE", "Burstable", QosClass.BE, PriorityClass.BATCH, id="label-first"),
        pytest.param("LSE", "Guaranteed", QosClass.LSE, PriorityClass.PROD, id="exclusive"),
        pytest.param("", "", QosClass.NONE, PriorityClass.NONE, id="unknown"),
    ],
)
def test_classes_by_default(label, kubernetes_qos, qos, priority):
    found = pod(**{"koordinator.sh/qosClass": label})
    assert effective_qos_class(found, kubernetes_qos=kubernetes_qos) is qos
    assert effective_priority_class(found, kubernetes_qos=kubernetes_qos) is priority


def test_a_class_of_the_pod_takes_precedence_over_the_default():
    assert effective_priority_class(pod(7500), kubernetes_qos="BestEffort") is PriorityClass.MID
