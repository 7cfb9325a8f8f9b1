from itertools import pairwise

import pytest

from dra.engine.usage.rates import CpuReading, NodeCpuReading, cpu_milli, node_cpu_milli
from tests.dra.engine.usage.readings import ticks

SECOND = 10**9


def test_a_counter_that_was_set_back_has_no_rate_and_the_next_one_has():
    """cpuacct.usage may be written with 0, and a cgroup may be created anew."""
    seconds = [(0.0, 1000.0), (10.0, 1003.0), (20.0, 2.0), (30.0, 2.5)]
    readings = [CpuReading(at=at, nanos=round(used * SECOND)) for at, used in seconds]
    rates = [cpu_milli(before, after) for before, after in pairwise(readings)]
    assert rates == [pytest.approx(300), None, pytest.approx(50)]


def test_two_readings_at_one_time_have_no_rate():
    assert cpu_milli(CpuReading(at=1.0, nanos=0), CpuReading(at=1.0, nanos=5)) is None


def test_a_node_uses_what_is_neither_idle_nor_waiting_nor_stolen():
    """2 CPUs in 2.5 s at 100 Hz: user 120, of which 40 for a guest, nice 60, system 30, softirq 10."""
    before = NodeCpuReading(at=5.0, ticks=ticks())
    after = NodeCpuReading(at=7.5, ticks=ticks(user=120, nice=60, system=30, softirq=10))
    assert node_cpu_milli(before, after) == pytest.approx(880)


def test_a_time_that_steps_back_drops_the_sample_even_if_the_sum_grows():
    """As when a CPU is unplugged."""
    before = NodeCpuReading(at=0.0, ticks=ticks(user=100, system=50))
    assert node_cpu_milli(before, NodeCpuReading(at=1.0, ticks=ticks(user=500, system=49))) is None
