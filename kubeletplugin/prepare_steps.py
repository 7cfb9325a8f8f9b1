"""The steps of a prepare, in an order that survives a crash behind each.

* A prepared claim gets the same devices again until it is unprepared; its CDI spec is rewritten each time.
* What a CDI spec names may be gone or be another device, above all after a reboot. So the driver rechecks a claim
  that is prepared already: its edits are made anew from what is on the node, or the CDI spec is removed, and the claim
  is refused until its devices are back.
* In doubt a device stays held: a claim that is in the checkpoint stays there when a later step fails, which is why the
  record has no undo. The kubelet retries, or unprepares the claim when the pod is deleted.
* The CDI spec is written before the claim is enforced, though no container may start in between: the kubelet starts
  none before it has the answer. So one switch to a worker thread does for record and specs.
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from dra.model.meta import Uid
from kubeletplugin.checkpoint import CheckpointError
from kubeletplugin.contract import (
    ClaimIdentity,
    DevicesInUseError,
    NotEnforcedError,
    PreparedClaim,
    PrepareError,
    PrepareRequest,
)
from kubeletplugin.driver_calls import verify_allocation_unchanged
from kubeletplugin.driver_node import DriverNode
from kubeletplugin.prepared_claims import PreparedClaims
from kubeletplugin.steps import Failures, FileStep, Leftover, LoopStep, Step, failures_of


@dataclass(kw_only=True)
class PrepareBatch:
    """The claims of prepare calls that wait at the same time."""

    node: DriverNode
    prepared: PreparedClaims
    requests: Mapping[Uid, PrepareRequest]
    answers: dict[Uid, PreparedClaim | PrepareError] = field(default_factory=dict)
    new: set[Uid] = field(default_factory=set)
    """Claims that were not prepared before."""
    unusable: list[ClaimIdentity] = field(default_factory=list)
    """Prepared claims whose devices are gone."""
    changed: bool = False
    """Whether the prepared claims differ from the checkpoint."""

    @property
    def able(self) -> list[PreparedClaim]:
        """The claims that no step has refused."""
        return [answer for answer in self.answers.values() if isinstance(answer, PreparedClaim)]


async def hold_devices(batch: PrepareBatch) -> Failures:
    """Hold the devices of new claims, and recheck those that are prepared."""
    node, prepared = batch.node, batch.prepared
    try:
        await node.driver.refresh()
    except PrepareError as unknown:
        return {uid: PrepareError(f"{request.claim}: {unknown}") for uid, request in batch.requests.items()}
    failures: dict[Uid, PrepareError] = {}
    for uid, request in batch.requests.items():
        known = prepared.get(uid)
        try:
            answer = _prepare(batch, request) if known is None else _prepare_again(batch, known, request)
            batch.answers[uid] = answer
            batch.changed |= answer is not known
            node.refused.forget(uid)
        except PrepareError as refusal:
            failures[uid] = refusal
            node.refused.record(request, refusal)
    return failures


def _prepare(batch: PrepareBatch, request: PrepareRequest) -> PreparedClaim:
    """Hold the devices of a claim and return the prepared claim; raises PrepareError, and then holds nothing."""
    claim, others = request.claim, batch.prepared.all
    conflict = batch.prepared.allocate(claim, request.items)
    if conflict is not None:
        until = batch.node.orphan_warning(conflict.holder.uid)
        until = until or "the pod starts when the pods of the other claim on this node have ended"
        raise DevicesInUseError(f"{claim}: {conflict}; {until}")
    try:
        preparation = batch.node.driver.prepare(request, others)
    except PrepareError:
        batch.prepared.release(claim.uid)
        raise
    batch.prepared.add(preparation)
    batch.new.add(claim.uid)
    return preparation


def _prepare_again(batch: PrepareBatch, known: PreparedClaim, request: PrepareRequest) -> PreparedClaim:
    verify_allocation_unchanged(known, request)
    try:
        now = batch.node.driver.recheck(known)
    except PrepareError:
        batch.unusable.append(known.claim)
        raise
    batch.prepared.add(now)
    return now


async def release_new_claims(batch: PrepareBatch, failed: Collection[Uid]) -> None:
    """Release the devices of new claims."""
    for uid in batch.new.intersection(failed):
        batch.prepared.release(uid)


def record_prepared_claims(batch: PrepareBatch) -> Failures:
    """Write the checkpoint; if that fails, claims that were prepared before keep their answer."""
    if not batch.changed:
        return {}
    try:
        batch.node.store.write(batch.prepared.all)
    except CheckpointError as error:
        return {
            uid: PrepareError(f"{batch.requests[uid].claim}: not prepared: {error}")
            for uid in batch.requests
            if uid in batch.new
        }
    return {}


def withdraw_specs(batch: PrepareBatch) -> Failures:
    """Remove the CDI specs of prepared claims whose devices are gone."""
    batch.node.specs.withdraw({claim: batch.answers[claim.uid] for claim in batch.unusable})
    return {}


def write_specs(batch: PrepareBatch) -> Failures:
    """Write the CDI specs of the claims."""
    return failures_of(batch.node.specs.write(batch.able))


async def remove_new_specs(batch: PrepareBatch, failed: Collection[Uid]) -> None:
    """Remove the CDI specs of new claims.

    Claims that were prepared before keep theirs: their containers may restart.
    """
    claims = [batch.requests[uid].claim for uid in batch.new.intersection(failed)]
    await asyncio.to_thread(batch.node.specs.remove, claims)


async def enforce_prepared_claims(batch: PrepareBatch) -> Failures:
    """Enforce what all prepared claims need."""
    able = batch.able
    if not able:
        return {}
    try:
        await batch.node.driver.enforce(batch.prepared.all)
    except NotEnforcedError as some:
        reasons = some.reasons
    except PrepareError as refusal:
        reasons = {preparation.claim.uid: str(refusal) for preparation in able}
    else:
        return {}
    claims = (preparation.claim for preparation in able)
    return {claim.uid: PrepareError(f"{claim}: {reasons[claim.uid]}") for claim in claims if claim.uid in reasons}


PREPARE: Final[tuple[Step[PrepareBatch], ...]] = (
    LoopStep(name="hold devices", do=hold_devices, undo=release_new_claims, leaves=Leftover.NOTHING),
    FileStep(name="record claims", do=record_prepared_claims, leaves=Leftover.RECORD),
    FileStep(name="withdraw specs", do=withdraw_specs, leaves=Leftover.RECORD),
    FileStep(name="write specs", do=write_specs, undo=remove_new_specs, leaves=Leftover.RECORD_AND_SPEC),
    LoopStep(name="enforce", do=enforce_prepared_claims, leaves=Leftover.RECORD_AND_SPEC),
)
