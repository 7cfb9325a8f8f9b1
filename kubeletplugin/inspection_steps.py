"""The steps of the two inspections of all prepared claims: the recovery at the start, and the reconciliation.

What a CDI spec names may be gone or be another device, above all after a reboot, and containers restart without a call
to this plugin. So the driver rechecks each prepared claim, and the specs follow.
"""

import logging
from dataclasses import dataclass, field
from typing import Final

from dra.model.meta import Uid
from kubeletplugin.checkpoint import CheckpointError
from kubeletplugin.contract import ClaimIdentity, PreparedClaim, PrepareError
from kubeletplugin.driver_node import DriverNode
from kubeletplugin.prepared_claims import PreparedClaims
from kubeletplugin.steps import Failures, FileStep, Leftover, LoopStep, Step

log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class InspectionBatch:
    """All prepared claims, to be inspected at the start and every few seconds; no claim has an answer."""

    node: DriverNode
    prepared: PreparedClaims
    answers: dict[Uid, PrepareError] = field(default_factory=dict)
    usable: list[PreparedClaim] = field(default_factory=list)
    """The claims that containers can use, as they are now."""
    changed: list[PreparedClaim] = field(default_factory=list)
    """Those of them that differ from the checkpoint."""
    unusable: dict[ClaimIdentity, PrepareError] = field(default_factory=dict)


async def recheck_devices(batch: InspectionBatch) -> Failures:
    """Let the driver look at its devices, and at each prepared claim."""
    before = {preparation.claim: preparation for preparation in batch.prepared.all}
    try:
        await batch.node.driver.refresh()
    except PrepareError as unknown:
        batch.unusable = dict.fromkeys(before, unknown)
        return {}
    batch.usable, batch.unusable = batch.node.recheck_all(before.values())
    batch.changed = [preparation for preparation in batch.usable if preparation is not before[preparation.claim]]
    for preparation in batch.changed:
        batch.prepared.add(preparation)
    return {}


def record_changed_claims(batch: InspectionBatch) -> Failures:
    """Write the checkpoint if container edits have changed."""
    if batch.changed:
        try:
            batch.node.store.write(batch.prepared.all)
        except CheckpointError as error:  # the next recheck finds the same
            log.warning("driver %s: changed container edits are not recorded: %s", batch.node.driver.name, error)
    return {}


def repair_specs(batch: InspectionBatch) -> Failures:
    """Write all CDI specs, and remove those of claims that are unusable or not prepared."""
    batch.node.specs.repair(batch.usable, batch.unusable)
    return {}


def reconcile_specs(batch: InspectionBatch) -> Failures:
    """Write the CDI specs that are missing, damaged or of changed claims, and remove those of unusable claims."""
    batch.node.specs.reconcile(batch.usable, batch.changed, batch.unusable)
    return {}


async def enforce_at_start(batch: InspectionBatch) -> Failures:
    """Enforce what all prepared claims need; a failure is logged, since claims can be unprepared in any case."""
    await batch.node.enforce_or_log(batch.prepared, when="at start")
    return {}


async def enforce_again(batch: InspectionBatch) -> Failures:
    """Enforce what all prepared claims need; raises PrepareError."""
    await batch.node.driver.enforce(batch.prepared.all)
    return {}


_RECHECK: Final = LoopStep[InspectionBatch](name="recheck devices", do=recheck_devices, leaves=Leftover.RECORD)
_RECORD: Final = FileStep[InspectionBatch](name="record claims", do=record_changed_claims, leaves=Leftover.RECORD)

RECOVER: Final[tuple[Step[InspectionBatch], ...]] = (
    _RECHECK,
    _RECORD,
    FileStep(name="repair specs", do=repair_specs, leaves=Leftover.RECORD_AND_SPEC),
    LoopStep(name="enforce", do=enforce_at_start, leaves=Leftover.RECORD_AND_SPEC),
)

RECONCILE: Final[tuple[Step[InspectionBatch], ...]] = (
    _RECHECK,
    _RECORD,
    FileStep(name="reconcile specs", do=reconcile_specs, leaves=Leftover.RECORD_AND_SPEC),
    LoopStep(name="enforce", do=enforce_again, leaves=Leftover.RECORD_AND_SPEC),
)
