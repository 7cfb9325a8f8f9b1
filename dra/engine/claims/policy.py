"""Controller modes, expressed as values of a policy instead of branches of the rules."""

from typing import Final

import msgspec

from dra.model.meta import Struct


class Policy(Struct, frozen=True):
    """The switches that rules consult."""

    prune_started: bool = True
    """Remove started pods from the list to make room. The stock controller would put them back within 3 ms."""

    list_consuming: bool = True
    """List bound pods that are missing from the list, started or not, while there is room: the stock controller's
    duty."""

    tombstones: bool = False
    """Replace a finished pod's entry with a tombstone: the stock controller would list the pod again and again."""

    generate_claims: bool = True
    """Generate claims from templates, and delete them early: the stock controller's duty."""

    release_finished: bool = True
    """Release a finished workload's claims; otherwise only its owner releases them (or the owner's deletion does)."""

    release_suspended: bool = False
    """Release the claims of suspended workloads, unless the annotation of a claim says otherwise."""

    evict: bool = True
    """Evict consuming pods from tainted devices where upstream's eviction cannot see them because they are not
    listed."""


REPLACE: Final = Policy()
"""Policy for clusters in which the stock resourceclaim-controller is switched off."""


def alongside_stock(policy: Policy) -> Policy:
    """Return the policy changed for a running stock controller; the switches that users set stay."""
    return msgspec.structs.replace(
        policy, prune_started=False, list_consuming=False, tombstones=True, generate_claims=False
    )


ALONGSIDE: Final = alongside_stock(REPLACE)
"""Policy for clusters in which the stock resourceclaim-controller runs as well, such as managed control planes."""
