"""How a controller behaves: modes are values of a policy, not branches of the rules."""

from typing import Final

import msgspec

from dra.model.meta import Struct


class Policy(Struct, frozen=True):
    """The switches that rules consult."""

    prune_started: bool = True
    """Take started pods off the list to make room. The stock controller would put them back within 3 ms."""

    list_consuming: bool = True
    """List bound pods that are not listed, started or not, while there is room: the stock controller's duty."""

    tombstones: bool = False
    """Put a tombstone in the place of a finished pod: the stock controller would list it again and again."""

    generate_claims: bool = True
    """Make claims from templates, and delete them early: the stock controller's duty (rule 13)."""

    release_finished: bool = True
    """Release a finished workload's claims; otherwise its owner alone decides (or its disappearance)."""

    evict: bool = True
    """End consuming pods on tainted devices where upstream's eviction cannot see them, for they are not listed."""


REPLACE: Final = Policy()
"""The stock resourceclaim-controller is switched off."""


def alongside_stock(policy: Policy) -> Policy:
    """Return the same policy for where the stock controller runs as well; what people chose stays."""
    return msgspec.structs.replace(
        policy, prune_started=False, list_consuming=False, tombstones=True, generate_claims=False
    )


ALONGSIDE: Final = alongside_stock(REPLACE)
"""It runs as well: managed control planes."""
