"""What evaluations lose for good is counted: the evaluator frees nothing that passes through functions of ours."""

from pathlib import Path

import pytest

from dra.cel import memory_leaks
from dra.cel.device_selectors import CompiledSelector

TIMES = 4_000
PAGE = 4096


def memory():
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE


LOSING = [
    "quantity('2Gi').compareTo(quantity('1Gi')) > 0",
    "semver('1.2.3').isLessThan(semver('2.0.0'))",
    f"!isQuantity('{'x' * 5_000}')",
    "quantity('1Gi').add(quantity('2Gi')).isInteger()",
    "ip('10.0.0.1').family() == 4",
]


@pytest.mark.parametrize("expression", LOSING)
def test_what_is_counted_is_what_the_process_grows_by(expression):
    selector, device = CompiledSelector(expression), {"driver": "d", "attributes": {}, "capacity": {}}
    for _ in range(100):
        assert selector.evaluate(device)
    grown, lost = memory(), memory_leaks.leaked_bytes()
    for _ in range(TIMES):
        selector.evaluate(device)
    grown, lost = (memory() - grown) / TIMES, (memory_leaks.leaked_bytes() - lost) / TIMES
    assert grown <= 1.3 * lost + 100, f"{grown:.0f} bytes an evaluation, and {lost:.0f} are counted"


@pytest.mark.parametrize("expression", LOSING)
def test_such_expressions_are_known(expression):
    assert memory_leaks.may_leak(expression)


@pytest.mark.parametrize(
    "expression", ["device.driver == 'd'", "device.attributes['d'].family == 'a'", "[1, 2].exists(a, a > 1)"]
)
def test_others_lose_nothing(expression):
    assert not memory_leaks.may_leak(expression)
