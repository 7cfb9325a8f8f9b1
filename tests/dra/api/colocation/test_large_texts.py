"""Large texts cost little time: whoever may write a Node may annotate it with 256 KiB, each of which is parsed."""

import time

import pytest

from dra.api.colocation.node_strategy import ANNOTATION_MAX, node_strategy
from dra.api.colocation.slo_configuration import OFF, read_slo_configuration
from dra.api.colocation.well_known import ANNOTATION_COLOCATION_STRATEGY, KEY_COLOCATION

SECONDS_MAX = 2.0
"""CPU time for a text; without limits, a field that is given twice cost 13 s, and a number of many digits 30 s."""


def fields(count, more=""):
    return "{" + ",".join(f'"{number:x}":1' for number in range(count)) + more + "}"


TEXTS = {  # made by the tests: other tests of the same process need no memory for them
    "unknown-fields": lambda: fields(60_000),
    "unknown-fields-that-are-nearly-known": lambda: (
        "{" + ",".join(f'"cpuReclaimThresholdPerc{number:x}":1' for number in range(25_000)) + "}"
    ),
    "a-field-that-is-given-twice-at-the-end": lambda: fields(60_000, ',"ea5f":1'),
    "a-number-of-many-decimals": lambda: '{"resourceDiffThreshold":0.' + "7" * 900_000 + "}",
    "a-number-of-many-digits": lambda: '{"cpuReclaimThresholdPercent":' + "7" * 900_000 + "}",
    "a-number-with-a-large-exponent": lambda: '{"resourceDiffThreshold":1e-999999999}',
    "many-brackets": lambda: '{"enable":' + "[" * 900_000,
}


@pytest.mark.parametrize("make", TEXTS.values(), ids=TEXTS.keys())
def test_a_large_configuration_costs_little_time_and_few_words(make):
    text = make()
    began = time.process_time()
    found = read_slo_configuration({KEY_COLOCATION: text})
    assert time.process_time() - began < SECONDS_MAX
    assert found.problems
    assert sum(len(str(problem)) for problem in found.problems) < 10_000


@pytest.mark.parametrize("make", TEXTS.values(), ids=TEXTS.keys())
def test_a_large_annotation_is_not_read(make):
    large = make().ljust(ANNOTATION_MAX + 1)
    found = node_strategy(OFF, labels={}, annotations={ANNOTATION_COLOCATION_STRATEGY: large})
    assert [layer for layer, _ in found.layers] == ["cluster"]
    assert len(found.problems) == 1
    assert f"at most {ANNOTATION_MAX} are read; it has no effect" in found.problems[0]


def test_an_annotation_of_the_greatest_length_is_read():
    text = '{"enable": true}'.ljust(ANNOTATION_MAX)
    found = node_strategy(OFF, labels={}, annotations={ANNOTATION_COLOCATION_STRATEGY: text})
    assert found.strategy.enable
    assert found.problems == ()
