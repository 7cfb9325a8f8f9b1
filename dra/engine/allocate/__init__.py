"""Which devices satisfy claims on a node: pure, deterministic, and complete.

`Inventory` knows what drivers offer, `prepare` reads what a claim asks for, `allocate` searches. A device is looked up
in a `Ledger`, one that is shared in `Shares`; whoever allocates enters the result there before anybody else is asked.
"""

from dra.engine.allocate.inventory import Inventory, Offer
from dra.engine.allocate.result import allocations
from dra.engine.allocate.search import Refusal, allocate
from dra.engine.allocate.shares import Shares
from dra.engine.allocate.wanted import UnsatisfiableError, Wanted, prepare

__all__ = [
    "Inventory",
    "Offer",
    "Refusal",
    "Shares",
    "UnsatisfiableError",
    "Wanted",
    "allocate",
    "allocations",
    "prepare",
]
