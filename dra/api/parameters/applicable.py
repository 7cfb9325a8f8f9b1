"""The choice of the opaque parameters that apply to a request.

Upstream's rule decides which entry applies: the last one for the request, in the order in which the allocation lists
the entries (first those of the class, then those of the claim). The entry applies as a whole; fields of several entries
are not merged.
"""

from collections.abc import Collection, Iterable
from typing import TypeVar

T = TypeVar("T")


def applies_to_request(requests: Collection[str], request: str) -> bool:
    """Report whether an entry for some requests (none: all requests) applies to a request; ``a`` covers ``a/first``."""
    return not requests or request in requests or request.partition("/")[0] in requests


def last_applicable(entries: Iterable[tuple[Collection[str], T]], request: str) -> T | None:
    """Return the last entry that applies to a request, of entries in upstream's order; None if no entry does."""
    newest = None
    for requests, value in entries:
        if applies_to_request(requests, request):
            newest = value
    return newest
