"""Requests that are accepted without an effect: the words that tell the user."""

import msgspec
import pytest

from dra.engine.claims.reasons import Code
from dra.engine.translation.notices import notices
from dra.engine.translation.translated_pods import translate
from dra.model.meta import ObjectMeta
from tests.dra.engine.translation.examples import RESOURCE_SPEC, lsr

BURST = {RESOURCE_SPEC: '{"preferredCPUBindPolicy": "ConstrainedBurst"}'}


def codes(pod):
    metadata = {**pod["metadata"], "namespace": "ml", "uid": "u"}
    return [each.code for each in notices(msgspec.convert(metadata, ObjectMeta))]


@pytest.mark.parametrize(
    ("pod", "expected"),
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
    ],
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
