"""What evaluations lose for good is counted: the evaluator frees nothing that passes through functions of ours."""

import json
import subprocess
import sys

import pytest

from dra.cel import memory_leaks
from tests.violations import assert_none

LOSING = [
    "quantity('2Gi').compareTo(quantity('1Gi')) > 0",
    "semver('1.2.3').isLessThan(semver('2.0.0'))",
    f"!isQuantity('{'x' * 5_000}')",
    "quantity('1Gi').add(quantity('2Gi')).isInteger()",
    "ip('10.0.0.1').family() == 4",
]


def test_what_is_counted_is_what_a_process_grows_by():
    done = subprocess.run(
        [sys.executable, "-m", "tests.dra.cel.leaking"],
        input=json.dumps(LOSING),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert_none(
        f"{expression[:60]}: {grown:.0f} bytes an evaluation, and {lost:.0f} are counted"
        for expression, (grown, lost) in zip(LOSING, json.loads(done.stdout), strict=True)
        if grown > 1.3 * lost + 100
    )


@pytest.mark.parametrize("expression", LOSING)
def test_such_expressions_are_known(expression):
    assert memory_leaks.may_leak(expression)


@pytest.mark.parametrize(
    "expression", ["device.driver == 'd'", "device.attributes['d'].family == 'a'", "[1, 2].exists(a, a > 1)"]
)
def test_others_lose_nothing(expression):
    assert not memory_leaks.may_leak(expression)
