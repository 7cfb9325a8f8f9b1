"""Requests that are accepted without an effect: the words that tell the user."""

from datetime import UTC, datetime

import msgspec
import pytest

from dra.engine.claims.codes import Code
from dra.engine.translation.notices import MAX_AGE, NoticeHistory, has_notices, notices
from dra.engine.translation.translated_pods import translate
from dra.model.koordinator_classes import LABEL_QOS_CLASS
from dra.model.meta import ObjectMeta, PartialObjectMetadata
from tests.dra.engine.translation.examples import RESOURCE_SPEC, lsr
from tests.violations import for_each_case

BURST = {RESOURCE_SPEC: '{"preferredCPUBindPolicy": "ConstrainedBurst"}'}


def codes(pod):
    metadata = {**pod["metadata"], "namespace": "ml", "uid": "u"}
    return [each.code for each in notices(msgspec.convert(metadata, ObjectMeta))]


@for_each_case(
    [
        pytest.param(lsr("2", annotations=BURST), [Code.NO_BOUND_CPUS], id="constrained-burst"),
        pytest.param(lsr("2", qos="LSE", annotations=BURST), [Code.NO_BOUND_CPUS], id="of-an-exclusive-pod"),
        pytest.param(
            lsr("2", annotations={RESOURCE_SPEC: '{"requiredCPUBindPolicy": "ConstrainedBurst"}'}),
            [Code.NO_BOUND_CPUS],
            id="required",
        ),
        pytest.param(lsr("2"), [], id="bound"),
        pytest.param(lsr("2", annotations={RESOURCE_SPEC: "{}"}), [], id="no-word"),
        pytest.param(lsr("2", qos="LS", annotations=BURST), [], id="never-bound"),
        pytest.param(lsr("2", annotations=BURST | {"reserve.dra/cpus": "own"}), [], id="claims-of-its-own"),
        pytest.param(lsr("2", annotations={RESOURCE_SPEC: "x"}), [], id="older-than-the-policies"),
        pytest.param(lsr("2", qos="lsr"), [Code.UNKNOWN_QOS_CLASS], id="lower-case"),
        pytest.param(lsr("2", qos="SYSTEM"), [], id="system"),
        pytest.param(lsr("2", qos=""), [], id="no-class"),
    ]
)
def test_notices(pod, expected):
    assert codes(pod) == expected


def test_what_is_told_gets_no_claim():
    for pod in (lsr("2", annotations=BURST), lsr("2", qos="lsr")):
        assert translate(pod).entries == ()


def test_the_texts_name_the_field_and_the_word():
    metadata = ObjectMeta(name="p", namespace="ml", uid="u", labels={"koordinator.sh/qosClass": "lsr"})
    (reason,) = notices(metadata)
    assert reason.text.startswith("pod ml/p: gets no CPUs of its own: label koordinator.sh/qosClass is lsr, and known")
    assert "LSE, LSR, LS, BE, SYSTEM" in reason.text


NOON = datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("qos", "age", "expected"),
    [
        pytest.param("lsr", 0.0, [Code.UNKNOWN_QOS_CLASS], id="new"),
        pytest.param("lsr", MAX_AGE, [Code.UNKNOWN_QOS_CLASS], id="as-old-as-events"),
        pytest.param("lsr", MAX_AGE + 1.0, [], id="older-than-events"),
        pytest.param("LSR", 0.0, [], id="nothing-to-tell"),
    ],
)
def test_a_pod_is_told_once(qos, age, expected):
    history, created = NoticeHistory(), datetime.fromtimestamp(NOON - age, tz=UTC).isoformat()
    pod = PartialObjectMetadata(
        metadata=ObjectMeta(name="p", uid="u", labels={LABEL_QOS_CLASS: qos}, creation_timestamp=created)
    )
    assert has_notices(pod) is (qos == "lsr")
    assert [reason.code for reason in history.new_notices(pod, now=NOON)] == expected
    assert list(history.new_notices(pod, now=NOON)) == []
    history.forget(pod)
    assert [reason.code for reason in history.new_notices(pod, now=NOON)] == expected
