import pytest

from dra.engine.usage.kernel_files import (
    CpuPressure,
    CpuTicks,
    MalformedKernelFileError,
    parse_amount,
    parse_cpu_stat_nanos,
    parse_inactive_file_bytes,
    parse_meminfo,
    parse_pressure,
    parse_stat,
    working_set_bytes,
)
from tests.violations import for_each_case

STAT = b"""cpu  1756784 2036779 443297 5050505 777 12 24530 999 40 30
cpu0 878392 1018389 221648 2525252 388 6 12265 499 20 15
intr 1 2 3
"""
MEMINFO = b"""MemTotal:       24684096 kB
MemFree:        14022336 kB
MemAvailable:   23071604 kB
HugePages_Total:       0
"""
V1_STAT = b"""cache 104857600
rss 1048576
inactive_file 4096
total_cache 104857600
total_inactive_file 83886080
total_active_file 0
"""
V2_STAT = b"anon 1048576\nfile 104857600\ninactive_anon 8192\ninactive_file 83886080\nactive_file 0\n"
PRESSURE = b"some avg10=1.50 avg60=0.25 avg300=0.00 total=123456\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"


def test_busy_time_is_neither_idle_nor_waiting_nor_stolen_and_guests_count_once():
    parsed = parse_stat(STAT)
    assert parsed == CpuTicks(user=1756784, nice=2036779, system=443297, irq=12, softirq=24530)
    assert parsed.busy == 1756784 + 2036779 + 443297 + 12 + 24530


def test_memory_of_a_node_is_in_bytes_though_the_file_counts_kib():
    memory = parse_meminfo(MEMINFO)
    assert memory.total_bytes == 25_276_514_304
    assert memory.used_bytes == (24684096 - 23071604) * 1024


def test_more_available_memory_than_there_is_leaves_none_used():
    assert parse_meminfo(b"MemTotal: 1 kB\nMemAvailable: 2 kB\n").used_bytes == 0


@pytest.mark.parametrize(
    ("content", "unified"), [pytest.param(V1_STAT, False, id="v1-with-the-cgroups-below"), (V2_STAT, True)]
)
def test_inactive_page_cache_is_that_of_the_whole_pod(content, unified):
    assert parse_inactive_file_bytes(content, unified=unified) == 83886080


@pytest.mark.parametrize(
    ("usage", "inactive", "wanted"),
    [
        pytest.param(107950080, 83886080, 24064000, id="tmpfs-stays-counted"),
        pytest.param(585728, 1572753409, 0, id="more-inactive-than-used-is-zero"),
    ],
)
def test_working_set(usage, inactive, wanted):
    assert working_set_bytes(usage, inactive) == wanted


def test_counters_of_cgroups_are_read_in_their_own_units():
    assert parse_amount(b"1003000000000\n") == 1003 * 10**9
    assert parse_cpu_stat_nanos(b"usage_usec 1003\nuser_usec 900\n") == 1003 * 1000
    assert parse_pressure(PRESSURE) == CpuPressure(
        avg10_percent=1.5, avg60_percent=0.25, avg300_percent=0.0, total_micros=123456
    )


@for_each_case(
    [
        (parse_stat, b"", "first line"),
        (parse_stat, b"cpu0 1 2 3 4 5 6 7 8\n", "first line"),
        (parse_stat, b"cpu 1 2 x 4 5 6 7 8\n", "'x'"),
        (parse_meminfo, b"MemTotal: 1 kB\n", "MemAvailable"),
        (parse_meminfo, b"MemTotal: 1 kB\nMemAvailable:\n", "not a number|no field"),
        (parse_amount, b"", "not a number"),
        (parse_cpu_stat_nanos, b"user_usec 1\n", "usage_usec"),
        (parse_cpu_stat_nanos, b"nr_usage_usec 1\n", "usage_usec"),
        (parse_pressure, b"full total=1\n", "some"),
    ]
)
def test_a_file_without_its_field_is_refused_by_name(parse, content, text):
    with pytest.raises(MalformedKernelFileError, match=text):
        parse(content)


def test_a_memory_stat_of_v1_is_not_read_as_one_of_v2():
    with pytest.raises(MalformedKernelFileError, match="no field total_inactive_file"):
        parse_inactive_file_bytes(V2_STAT, unified=False)
