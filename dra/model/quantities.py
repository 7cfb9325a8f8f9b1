"""Exact Kubernetes quantities (apimachinery ``resource.Quantity``), and amounts of named resources.

Quantities are added and compared exactly: three times half a CPU is 1500m, never 1.4999. A ``Fraction`` holds every
quantity that the API accepts. Amounts of resources (`Amounts`) are integer billionths: a quantity of the API has at
most nine decimals (the API server itself rounds finer ones up), so billionths are exact as well, and integers are added
and compared twenty times faster than fractions. A scheduler does little else.
"""

import re
from collections.abc import Iterable, Mapping
from enum import Enum, auto
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Final, TypeAlias

Amounts: TypeAlias = Mapping[str, int]
"""Resource → billionths; a resource without an entry is 0."""
NANOS_PER_UNIT: Final = 10**9
PODS: Final = "pods"
CPU: Final = "cpu"
NO_AMOUNTS: Final[Amounts] = {}

_SUFFIXES: Final[dict[str, Fraction]] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_QUANTITY: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i)?)")

_LONGEST: Final = 128
"""Maximum number of characters. The API server writes every quantity in a tenth; annotations may hold any text."""


_DIGITS: Final = 18
"""Number of decimal digits that always fit into 64 bits."""

_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")


class MalformedQuantityError(ValueError):
    """A text that is not a quantity."""


class Format(Enum):
    """The family of suffixes with which a quantity is written (apimachinery ``resource.Format``)."""

    BINARY_SI = auto()  # 512Mi
    DECIMAL_SI = auto()  # 1500m, 2, 12k
    DECIMAL_EXPONENT = auto()  # 12e3


def parse(text: str | int) -> Fraction:
    """Return the exact amount: ``"1500m"`` → 3/2, ``"2Gi"`` → 2147483648, ``"1e3"`` → 1000.

    Raises MalformedQuantityError. Digits of other scripts, spaces and a bare sign are rejected, as upstream does.
    """
    given = str(text)
    if len(given) > _LONGEST:
        raise MalformedQuantityError(f"'{given[:16]}…' of {len(given)} characters is longer than any quantity")
    match = _QUANTITY.fullmatch(given)
    if match is None or not given.isascii():
        raise MalformedQuantityError(f"{text!r} is not a quantity; write it as in: 500m, 2, 16Gi, 1e3")
    number, exponent, suffix = match.groups()
    if exponent:
        return Fraction(number) * Fraction(10) ** int(exponent[1:])
    return Fraction(number) * _SUFFIXES[suffix or ""]


def format_of(text: str | int) -> Format:
    """Return the format of a quantity that `parse` accepts."""
    given = str(text)
    if given.endswith("i"):
        return Format.BINARY_SI
    exponent = given.lower().partition("e")[2]
    return Format.DECIMAL_EXPONENT if exponent else Format.DECIMAL_SI


def canonical(amount: Fraction, format_: Format = Format.DECIMAL_SI) -> str:
    """Return an amount as apimachinery writes a quantity of that format: an integer with the largest possible suffix.

    Binary suffixes are for integers from 1024 on; smaller amounts and fractions are written with decimal suffixes.
    Amounts are rounded up to the next billionth.
    """
    if format_ is Format.BINARY_SI and amount.denominator == 1 and abs(amount) >= 1024:  # noqa: PLR2004
        return _suffixed(amount.numerator, 1024, _BINARY)
    billionths = ceil(abs(amount) * NANOS_PER_UNIT) * (1 if amount >= 0 else -1)
    if not billionths:
        return "0"
    if format_ is not Format.DECIMAL_EXPONENT:
        return _suffixed(billionths, 1000, _DECIMAL)
    number, exponent = billionths, -9
    while number % 1000 == 0:
        number, exponent = number // 1000, exponent + 3
    return f"{number}e{exponent}" if exponent else str(number)


def reserialize(text: str | int) -> str:
    """Return a quantity as apimachinery serializes it after parsing: in canonical form, with the parser's exceptions.

    The parser keeps texts whose digits do not end in three zeros, and whose exponent is a multiple of three once the
    decimal point is moved to the end: ``1e0`` and ``1.500`` stay as they are. Raises MalformedQuantityError.
    """
    given, amount, format_ = str(text), parse(text), format_of(text)
    match = _QUANTITY.fullmatch(given)
    if match is None or format_ is Format.BINARY_SI:
        return canonical(amount, format_)
    number, exponent, suffix = match.groups()
    whole, _, decimals = number.lstrip("+-").partition(".")
    digits = (whole.lstrip("0") or "0") + decimals
    scale = (int(exponent[1:]) if exponent else 3 * _DECIMAL.index(suffix or "") - 9) - len(decimals)
    short = len(digits) <= _DIGITS and scale >= -9  # noqa: PLR2004 - billionths
    if short and scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0":
        return given
    return canonical(amount, format_)


def _suffixed(number: int, unit: int, suffixes: tuple[str, ...]) -> str:
    """Return a number, given in units of the first suffix, with the largest suffix that keeps the number whole."""
    *_, last = suffixes
    for suffix in suffixes:
        if number % unit or suffix == last:
            return f"{number}{suffix}"
        number //= unit
    raise AssertionError("unreachable: the last suffix ends the loop")


class MalformedAmountsError(ValueError):
    """A resource list cannot be parsed; the text begins with the path of the field."""


@lru_cache(maxsize=16384)
def to_nanos(text: str | int) -> int:
    """Return the billionths of a quantity. Raises MalformedQuantityError."""
    return ceil(parse(text) * NANOS_PER_UNIT)


def parse_resource_list(texts: object, *, path: str) -> dict[str, int]:
    """Return the amounts of an unvalidated resource list. Raises MalformedAmountsError, also for negative amounts."""
    if texts is None:
        return {}
    if not isinstance(texts, Mapping):
        raise MalformedAmountsError(f"{path}: must be an object as in: {{cpu: 500m, memory: 1Gi}}")
    amounts = {}
    for name, text in texts.items():
        if isinstance(text, bool) or not isinstance(text, str | int | float):
            raise MalformedAmountsError(f"{path}.{name}: must be a quantity as in: 500m, 2, 16Gi")
        try:
            amount = to_nanos(repr(text) if isinstance(text, float) else text)
        except MalformedQuantityError as error:
            raise MalformedAmountsError(f"{path}.{name}: {error}") from error
        if amount < 0:
            raise MalformedAmountsError(f"{path}.{name}: {text} is negative; write an amount of 0 or more")
        amounts[name] = amount
    return amounts


def from_resource_list(texts: Mapping[str, str | int] | None) -> dict[str, int]:
    """Return the amounts of a resource list that the API server has validated. Raises MalformedQuantityError."""
    return {name: to_nanos(text) for name, text in (texts or {}).items()}


def from_validated_list(texts: Mapping[str, str | int] | None) -> dict[str, int]:
    """Return the amounts of a resource list of a pod or a node; a text that is no quantity counts as 0.

    The API server accepts no such pod or node, so it can only come from a file.
    """
    return {name: _to_nanos_or_zero(text) for name, text in (texts or {}).items()}


@lru_cache(maxsize=16384)
def _to_nanos_or_zero(text: str | int) -> int:
    try:
        return ceil(parse(text) * NANOS_PER_UNIT)
    except MalformedQuantityError:
        return 0


def add(one: Amounts, other: Amounts) -> dict[str, int]:
    """Return the sum of two resource lists."""
    total = dict(one)
    for name, amount in other.items():
        total[name] = total.get(name, 0) + amount
    return total


def subtract(one: Amounts, other: Amounts) -> dict[str, int]:
    """Return the difference of two resource lists, without resources whose difference is 0."""
    rest = dict(one)
    for name, amount in other.items():
        rest[name] = rest.get(name, 0) - amount
        if not rest[name]:
            del rest[name]
    return rest


def maximum(one: Amounts, other: Amounts) -> dict[str, int]:
    """Return the greater amount of each resource."""
    return dict(one) | {name: amount for name, amount in other.items() if amount > one.get(name, 0)}


def total(parts: Iterable[Amounts]) -> dict[str, int]:
    """Return the sum of all given resource lists."""
    sums: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            sums[name] = sums.get(name, 0) + amount
    return sums


def format_quantity(amount: int, *, like: str | int = "") -> str:
    """Return billionths as Kubernetes prints a quantity: with binary units if `like` has binary units."""
    binary = str(like).endswith("i")
    return canonical(Fraction(amount, NANOS_PER_UNIT), Format.BINARY_SI if binary else Format.DECIMAL_SI)
