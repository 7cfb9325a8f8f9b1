from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.model.quantities import MalformedQuantityError, canonical, format_of, parse, reserialize
from tests.violations import for_each_case

BINARY = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


@for_each_case(
    [
        pytest.param("0", 0, id="nothing"),
        pytest.param("2", 2, id="plain"),
        pytest.param("1500m", Fraction(3, 2), id="milli"),
        pytest.param("250u", Fraction(1, 4000), id="micro"),
        pytest.param("1n", Fraction(1, 10**9), id="nano"),
        pytest.param("2Gi", 2147483648, id="binary"),
        pytest.param("2G", 2000000000, id="decimal"),
        pytest.param("1E", 10**18, id="exa-is-no-exponent"),
        pytest.param("1E3", 1000, id="exponent-is-not-exa"),
        pytest.param("1e3", 1000, id="small-exponent"),
        pytest.param("1e-3", Fraction(1, 1000), id="negative-exponent"),
        pytest.param("1.5Gi", 1610612736, id="fraction-of-a-binary-suffix"),
        pytest.param(".5", Fraction(1, 2), id="no-digit-before-the-point"),
        pytest.param("5.", 5, id="no-digit-behind-the-point"),
        pytest.param("-1.5", Fraction(-3, 2), id="negative"),
        pytest.param("+3", 3, id="signed"),
        pytest.param("007", 7, id="leading-zeros"),
        pytest.param(12, 12, id="a-number-instead-of-a-text"),
    ],
)
def test_what_a_quantity_is_worth(text, amount):
    assert parse(text) == amount


@for_each_case(
    [
        *("", " ", "m", ".", "+", "-", "1 Gi", " 1", "1\n", "1K", "1ki", "1GiB", "1e", "1ee3", "1e3m", "1,5", "0x10"),
        *("NaN", "inf", "1_000", "٣", "१m", "1..5", "--1"),
    ],
)
def test_what_is_no_quantity_is_refused_with_an_example(text):
    with pytest.raises(MalformedQuantityError) as refused:
        parse(text)
    assert repr(text) in str(refused.value)
    assert "500m" in str(refused.value)


def decimals():
    return st.decimals(min_value=-(10**12), max_value=10**12, places=9)


@given(decimals(), st.sampled_from(sorted(DECIMAL)))
def test_decimal_suffixes_shift_the_point(number, suffix):
    assert parse(f"{number:f}{suffix}") == Fraction(number.scaleb(DECIMAL[suffix]))


@given(decimals(), st.sampled_from(sorted(BINARY)))
def test_binary_suffixes_multiply_exactly(number, suffix):
    assert parse(f"{number:f}{suffix}") == Fraction(number) * BINARY[suffix]


@given(decimals(), st.integers(-99, 99))
def test_an_exponent_is_that_of_decimal_arithmetic(number, exponent):
    assert parse(f"{number:f}e{exponent}") == Fraction(Decimal(f"{number:f}e{exponent}"))


@given(st.lists(st.integers(0, 10**6), max_size=20))
def test_adding_up_never_rounds(millis):
    assert sum((parse(f"{each}m") for each in millis), Fraction(0)) == parse(f"{sum(millis)}m")


@for_each_case(
    [
        ("0Gi", "0"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("1025Ki", "1025Ki"),
        ("0.5Gi", "512Mi"),
        ("0.0005Ki", "512m"),
        ("1000.3Ki", "1024307200m"),
        ("2048Ei", "2048Ei"),
        ("1500", "1500"),
        ("12000", "12k"),
        ("0.25", "250m"),
        ("1.5G", "1500M"),
        ("7000E", "7000E"),
        ("-3000m", "-3"),
        ("0.1n", "1n"),
        ("12e3", "12e3"),
        ("0.5E0", "500e-3"),
        ("1E", "1E"),
        ("1000e0", "1e3"),
    ],
)
def test_a_quantity_is_written_in_its_canonical_form(text, written):
    assert canonical(parse(text), format_of(text)) == written


@for_each_case(
    [
        ("1e0", "1e0"),
        ("1.500", "1.500"),
        ("007", "007"),
        ("12000", "12k"),
        ("1000e0", "1e3"),
        ("2.25", "2250m"),
        ("0.750", "750m"),
        ("1024Mi", "1Gi"),
        ("0e0", "0"),
        ("1234567890123456789", "1234567890123456789"),
    ]
)
def test_a_quantity_that_was_read_is_written_as_the_api_server_does(text, written):
    assert reserialize(text) == written
