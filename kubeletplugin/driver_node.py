"""The parts of a node that the calls of one driver change: devices, checkpoint, CDI specs."""

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

from dra.model.meta import Uid
from kubeletplugin.claim_specs import ClaimSpecs
from kubeletplugin.claim_store import ClaimStore
from kubeletplugin.contract import ClaimIdentity, PreparedClaim, PrepareError
from kubeletplugin.driver_calls import DriverCalls
from kubeletplugin.prepared_claims import PreparedClaims
from kubeletplugin.refused_claims import RefusedClaims

log = logging.getLogger(__name__)


class DriverNode(NamedTuple):
    """The parts that the steps of one driver's calls share."""

    driver: DriverCalls
    store: ClaimStore
    specs: ClaimSpecs
    refused: RefusedClaims
    orphan_warning: Callable[[Uid], str]
    """Returns the warning about a claim that the kubelet seems to have forgotten, or an empty string."""

    def recheck_all(
        self, preparations: Iterable[PreparedClaim]
    ) -> tuple[list[PreparedClaim], dict[ClaimIdentity, PrepareError]]:
        """Return the claims that containers can use, as they are now, and the reasons why they cannot use others."""
        usable, unusable = [], {}
        for known in preparations:
            try:
                usable.append(self.driver.recheck(known))
            except PrepareError as refusal:
                unusable[known.claim] = refusal
        return usable, unusable

    async def enforce_or_log(self, prepared: PreparedClaims, *, when: str) -> None:
        """Enforce what prepared claims need; a failure is logged, and the next reconciliation tries again."""
        try:
            await self.driver.enforce(prepared.all)
        except PrepareError as refusal:
            log.warning("driver %s: %s: %s", self.driver.name, when, refusal)
