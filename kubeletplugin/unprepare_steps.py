"""The steps of an unprepare, in an order that survives a crash behind each.

The CDI spec goes first and the device last: no container may start with a device that another claim can get. The
kubelet's call needs nothing but the checkpoint, so that pods end while the API server is away or the claim is deleted.
"""

import asyncio
import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from dra.model.meta import Uid
from kubeletplugin.checkpoint import CheckpointError
from kubeletplugin.contract import ClaimIdentity, PreparedClaim, PrepareError
from kubeletplugin.driver_node import DriverNode
from kubeletplugin.prepared_claims import PreparedClaims
from kubeletplugin.steps import Failures, FileStep, Leftover, LoopStep, Step, failures_of


@dataclass(kw_only=True)
class UnprepareBatch:
    """The claims of unprepare calls that wait at the same time; a claim that is not prepared succeeds."""

    node: DriverNode
    prepared: PreparedClaims
    claims: Mapping[Uid, ClaimIdentity]
    answers: dict[Uid, PrepareError | None]
    """None for each claim that no step has refused."""
    released: bool = False

    @property
    def leaving(self) -> list[PreparedClaim]:
        """The prepared claims that no step has refused to unprepare."""
        leaving = (self.prepared.get(uid) for uid in self.claims if self.answers[uid] is None)
        return [preparation for preparation in leaving if preparation is not None]


def remove_specs(batch: UnprepareBatch) -> Failures:
    """Remove the CDI specs: no container may start with devices that are about to be released."""
    return failures_of(batch.node.specs.remove(batch.claims.values()))


async def restore_specs(batch: UnprepareBatch, failed: Collection[Uid]) -> None:
    """Write the CDI specs of claims that stay prepared, and are possibly in use."""
    prepared = batch.prepared
    with contextlib.suppress(CheckpointError):  # in doubt they are prepared
        prepared = await batch.node.store.load()  # not those whose record is gone, and only the sync has failed
    usable, _ = batch.node.recheck_all(p for p in prepared.all if p.claim.uid in failed)
    await asyncio.to_thread(batch.node.specs.write, usable)


def record_unprepared_claims(batch: UnprepareBatch) -> Failures:
    """Write the checkpoint without the claims."""
    leaving = {preparation.claim.uid: preparation.claim for preparation in batch.leaving}
    if not leaving:
        return {}
    try:
        batch.node.store.write(tuple(p for p in batch.prepared.all if p.claim.uid not in leaving))
    except CheckpointError as error:
        return {uid: PrepareError(f"{claim}: not unprepared: {error}") for uid, claim in leaving.items()}
    return {}


async def release_devices(batch: UnprepareBatch) -> Failures:
    """Release the devices in memory, and wake the calls that wait for devices."""
    for preparation in batch.leaving:
        batch.prepared.release(preparation.claim.uid)
        batch.released = True
    if batch.released:
        batch.node.store.announce_release()
    return {}


async def enforce_remaining_claims(batch: UnprepareBatch) -> Failures:
    """Enforce what the other claims need; a failure is no reason to keep the pod from terminating."""
    if batch.released:
        await batch.node.enforce_or_log(batch.prepared, when="after unprepare")
    return {}


UNPREPARE: Final[tuple[Step[UnprepareBatch], ...]] = (
    FileStep(name="remove specs", do=remove_specs, undo=restore_specs, leaves=Leftover.RECORD),
    FileStep(name="record claims", do=record_unprepared_claims, leaves=Leftover.NOTHING),
    LoopStep(name="release devices", do=release_devices, leaves=Leftover.NOTHING),
    LoopStep(name="enforce", do=enforce_remaining_claims, leaves=Leftover.NOTHING),
)
