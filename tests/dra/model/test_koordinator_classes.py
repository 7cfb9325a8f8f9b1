"""Koordinator's classes by label and by priority."""

import msgspec
import pytest

from dra.model.koordinator_classes import PriorityClass, QosClass, priority_class, qos_class
from dra.model.pods import Pod


def pod(priority=0, **labels):
    return msgspec.convert({"metadata": {"labels": labels}, "spec": {"priority": priority}}, Pod)


@pytest.mark.parametrize(
    ("priority", "wanted"),
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


@pytest.mark.parametrize(
    ("label", "wanted"),
    [
        ("BE", QosClass.BE),
        ("LS", QosClass.LS),
        ("LSR", QosClass.LSR),
        ("LSE", QosClass.LSE),
        ("SYSTEM", QosClass.LSE),
        ("ls", QosClass.NONE),
        ("", QosClass.NONE),
    ],
)
def test_qos_classes(label, wanted):
    assert qos_class(pod(**{"koordinator.sh/qosClass": label})) is wanted
