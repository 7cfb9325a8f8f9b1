"""CPU lists: what is read and written, and what is refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.cpus.cpusets import MAX_CPU, NO_CPUS, CpuSet, MalformedCpuListError, parse
from tests.violations import for_each_case

CPUS = st.sets(st.integers(0, 300) | st.integers(0, MAX_CPU), max_size=60)


@for_each_case(
    [
        pytest.param("0-3,8", {0, 1, 2, 3, 8}, "0-3,8", id="ranges-and-numbers"),
        pytest.param("", set(), "", id="empty"),
        pytest.param("\n", set(), "", id="a-kernel-file-without-cpus"),
        pytest.param("0-1\n", {0, 1}, "0-1", id="a-kernel-file"),
        pytest.param("8,0-1,1-2,8", {0, 1, 2, 8}, "0-2,8", id="unsorted-and-overlapping"),
        pytest.param("5-5", {5}, "5", id="a-range-of-one"),
        pytest.param("007", {7}, "7", id="leading-zeros"),
        pytest.param(str(MAX_CPU), {MAX_CPU}, str(MAX_CPU), id="the-greatest"),
    ]
)
def test_a_list_is_read_and_written_sorted_and_joined(text, cpus, written):
    assert parse(text) == cpus
    assert str(parse(text)) == written


@for_each_case(
    [
        pytest.param("3-1", "'3-1' runs backwards", id="backwards"),
        pytest.param("0-", "'0-' is neither", id="open-end"),
        pytest.param("-1", "'-1' is neither", id="negative"),
        pytest.param("0,,1", "'' is neither", id="nothing-between-commas"),
        pytest.param("0, 1", "' 1' is neither", id="inner-space"),
        pytest.param("0-2-4", "'0-2-4' is neither", id="two-dashes"),
        pytest.param("0-31:2/4", "'0-31:2/4' is neither", id="strides"),
        pytest.param("a", "'a' is neither", id="letters"),
        pytest.param("²", "'²' is neither", id="digits-that-int-does-not-take"),
        pytest.param("8192", "'8192' is beyond the greatest CPU number, 8191", id="too-great"),
        pytest.param("0-999999999", "beyond", id="a-range-that-would-fill-memory"),
        pytest.param("9" * 5000, "beyond", id="a-number-that-int-refuses"),
    ]
)
def test_what_is_no_list_is_refused_by_name(text, problem):
    with pytest.raises(MalformedCpuListError, match=re.escape(problem)):
        parse(text)


@given(CPUS)
def test_what_is_written_is_read_again(cpus):
    assert parse(str(CpuSet(cpus))) == CpuSet(cpus)
    assert list(CpuSet(cpus)) == sorted(cpus)


@given(CPUS, CPUS)
def test_it_behaves_as_a_set(a, b):
    x, y = CpuSet(a), CpuSet(b)
    assert (x | y, x & y, x - y, x ^ y) == (a | b, a & b, a - b, a ^ b)
    assert all(isinstance(result, CpuSet) for result in (x | y, x & y, x - y, x ^ y))
    assert ((x <= y), (x < y), x.isdisjoint(y)) == (a <= b, a < b, a.isdisjoint(b))
    assert (x == y) == (a == b)
    assert x == frozenset(a)
    assert hash(x) == hash(frozenset(a))


@pytest.mark.parametrize("cpu", [-1, MAX_CPU + 1])
def test_a_number_that_no_cpu_has_is_refused(cpu):
    with pytest.raises(ValueError, match=f"CPU {cpu}: CPUs have numbers from 0 to 8191"):
        CpuSet([cpu])


def test_shown_as_a_list():
    assert repr(CpuSet([2, 0, 1])) == "CpuSet('0-2')"
    assert not NO_CPUS
