"""Exact Kubernetes quantities (apimachinery ``resource.Quantity``).

Amounts are added and compared exactly: half a CPU three times is 1500m, never 1.4999. A ``Fraction`` holds every
quantity that the API accepts, so there is one type and no rounding rule to forget.
"""

import re
from fractions import Fraction
from typing import Final

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
"""Characters. The API server writes every quantity in a tenth of that; annotations hold whatever somebody put there."""


class MalformedQuantityError(ValueError):
    """A text that is no quantity."""


def parse(text: str | int) -> Fraction:
    """Return the exact amount: ``"1500m"`` → 3/2, ``"2Gi"`` → 2147483648, ``"1e3"`` → 1000.

    Raises MalformedQuantityError. Digits of other scripts, spaces and a bare sign are refused, as upstream does.
    """
    given = str(text)
    if len(given) > _LONGEST:
        raise MalformedQuantityError(f"'{given[:16]}…' of {len(given)} characters is too long for a quantity")
    match = _QUANTITY.fullmatch(given)
    if match is None or not given.isascii():
        raise MalformedQuantityError(f"{text!r} is no quantity; write it as in: 500m, 2, 16Gi, 1e3")
    number, exponent, suffix = match.groups()
    if exponent:
        return Fraction(number) * Fraction(10) ** int(exponent[1:])
    return Fraction(number) * _SUFFIXES[suffix or ""]
