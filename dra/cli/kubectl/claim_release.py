"""Releases a claim because a user vouches that no pod uses it: through the controller, or directly where none runs.

A direct release follows the same rules (`dra.engine.claims.force_release`), on live reads, with the same writes: a pod
on a node that is Ready keeps its claim, and the command waits for a pod that may be bound any moment.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from controller.claim_patcher import ClaimPatcher
from controller.deallocation_check import BoundMeanwhileError, DeallocationCheck
from dra.cli.kubectl.connection import Connection, FailedError
from dra.cli.kubectl.snapshots.cluster_reader import SnapshotReader, SnapshotScope
from dra.engine.claims.actions import ClaimPlan, Deallocate, LookUpNode
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.decide import decide
from dra.engine.claims.policy import ALONGSIDE
from dra.engine.claims.reasons import Code
from dra.engine.diagnosis import claims
from dra.engine.diagnosis.cluster_state import AllocationHold, ClusterState
from dra.engine.diagnosis.snapshot import ControllerPresence, Snapshot
from dra.kube.client import WRITE_TIMEOUT
from dra.kube.errors import Conflict, NotFound
from dra.kube.rate_limiter import RequestPriority
from dra.kube.resources import CLAIMS
from dra.model.claims import ResourceClaim
from dra.model.meta import Key
from dra.model.workload_reservations import FORCE_RELEASE

POLL_INTERVAL: Final = 1.0
"""Seconds between two reads of the cluster."""

ATTEMPTS_MAX: Final = 5
"""Maximum number of decisions in a row whose writes fail because the claim has changed."""


class ReleaseRefusedError(Exception):
    """A release was refused and nothing was changed; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOptions:
    """The checked options of ``kubectl dra release``."""

    key: Key
    lease: Key
    within: float
    dry: bool = False
    unused: bool = False
    """Whether to refuse where anything keeps the claim: the user does not vouch, and the command may be an old one."""


async def release_claim(connection: Connection, wish: ReleaseOptions, *, say: Callable[[str], None]) -> str:
    """Release a claim and return what was done.

    Raises ReleaseRefusedError if the rules forbid it, and FailedError if the time is up.
    """
    name = "/".join(wish.key)
    reader = partial(SnapshotReader, connection, namespace=wish.key[0], lease=wish.lease)
    snapshot = await reader().read(SnapshotScope.ALL)
    claim = _find_claim(snapshot, wish.key)
    if claim is None:
        raise FailedError(f"claim {name}: not found")
    if claim.status.allocation is None:
        return f"claim {name}: has no devices"
    if wish.unused and (kept := _keeping_text(snapshot, wish.key)):
        raise ReleaseRefusedError(
            f"claim {name}: is not unused, {kept}. See: kubectl dra explain claim {wish.key[1]} -n {wish.key[0]}"
        )
    if snapshot.leader.presence is ControllerPresence.RUNNING:
        return await _release_by_controller(connection, wish, claim, snapshot)
    return await _release_directly(connection, wish, reader=reader, first=snapshot, say=say)


def _find_claim(snapshot: Snapshot, key: Key) -> ResourceClaim | None:
    return next((each for each in snapshot.claims if each.metadata.key == key), None)


def _keeping_text(snapshot: Snapshot, key: Key) -> str:
    """Return what keeps a claim, apart from time that must pass; empty if nothing does.

    Vanished pods do not count here: `decide` reports when their wait is over.
    """
    scene = ClusterState(snapshot)
    view = scene.view(key)
    if view is None:
        return ""
    found = set(claims.holds_of(scene, view))
    if AllocationHold.NOTHING in found and view.unfinished:
        return "pods are about to use it"
    return ", ".join(sorted(found - {AllocationHold.NOTHING, AllocationHold.TIME, AllocationHold.VANISHED}))


async def _release_by_controller(
    connection: Connection, wish: ReleaseOptions, claim: ResourceClaim, snapshot: Snapshot
) -> str:
    """Request the release from the controller and wait for it.

    A request that the controller would certainly refuse is not made.
    """
    name = "/".join(wish.key)
    plan = _decide(snapshot, ClaimCache(), wish, now=connection.clock.now())
    if plan is not None and any(reason.code is Code.FORCE_RELEASE_BLOCKED for reason in plan.reasons):
        raise ReleaseRefusedError(_unmet_reasons(plan, name))
    if wish.dry:
        return f"claim {name}: would be annotated with reserve.dra/force-release; the controller then gives it back"
    uid = claim.metadata.uid
    await connection.client.merge_patch(
        CLAIMS, wish.key, {"metadata": {"annotations": {FORCE_RELEASE: uid}}}, model=ResourceClaim, uid=uid
    )
    until = connection.clock.now() + wish.within
    while connection.clock.now() < until:
        try:
            claim = await connection.client.get(CLAIMS, wish.key, ResourceClaim)
        except NotFound:
            return f"claim {name}: released and gone"
        if claim.status.allocation is None or claim.metadata.uid != uid:
            return f"claim {name}: released by the controller"
        await asyncio.sleep(POLL_INTERVAL)
    stays = "the wish stays on the claim"
    if wish.unused:  # the user has not vouched: when a controller reads the annotation, the claim may be in use again
        gone = {"metadata": {"annotations": {FORCE_RELEASE: None}}}
        await connection.client.merge_patch(CLAIMS, wish.key, gone, model=ResourceClaim, uid=uid)
        stays = "the wish was taken off again"
    raise FailedError(
        f"claim {name}: not released within {wish.within:.0f} s; {stays}. "
        f"See: kubectl dra explain claim {wish.key[1]} -n {wish.key[0]}"
    )


async def _release_directly(
    connection: Connection,
    wish: ReleaseOptions,
    *,
    reader: Callable[[], SnapshotReader],
    first: Snapshot,
    say: Callable[[str], None],
) -> str:
    """Decide and write as the controller would, again after each conflict."""
    name, world, snapshot = "/".join(wish.key), ClaimCache(), first
    until = connection.clock.now() + wish.within
    told, attempts = "", 0
    while True:
        plan = _decide(snapshot, world, wish, now=connection.clock.now())
        if plan is None:
            return f"claim {name}: has no devices any more"
        if any(isinstance(action, Deallocate) for action in plan.claim_writes):
            if wish.dry:
                return f"claim {name}: would be given back from here: no controller of ours is known to run"
            failure = await _apply_plan(connection, world, snapshot, wish.key, plan)
            if failure is None:
                return f"claim {name}: released"
            attempts += 1
            if attempts >= ATTEMPTS_MAX:
                raise ReleaseRefusedError(f"claim {name}: {failure}")
        elif plan.wake_at > until:
            raise ReleaseRefusedError(_unmet_reasons(plan, name))
        elif (text := _unmet_reasons(plan, name)) != told:
            say(text)
            told = text
        await asyncio.sleep(POLL_INTERVAL)
        snapshot = await _read_again(snapshot, world, reader(), now=connection.clock.now)
        for asked in (each for each in plan.actions if isinstance(each, LookUpNode)):
            world.observe_node_read(asked.claim, asked.node, now=connection.clock.now())


async def _read_again(
    before: Snapshot, world: ClaimCache, reader: SnapshotReader, *, now: Callable[[], float]
) -> Snapshot:
    """Read the snapshot again; update the cache with its nodes, and forget the pods that have vanished."""
    snapshot = await reader.read(SnapshotScope.ALL)
    for node in snapshot.nodes:
        world.observe_node(node, now=now())
    there = {pod.metadata.uid for pod in snapshot.pods}
    for pod in before.pods:
        if pod.metadata.uid not in there:
            world.forget_pod(pod.metadata.uid)
    return snapshot


def _decide(snapshot: Snapshot, world: ClaimCache, wish: ReleaseOptions, *, now: float) -> ClaimPlan | None:
    """Return the plan for the claim as if it carried the annotation; None if the claim has no allocation."""
    vouched = msgspec.structs.replace(
        snapshot, claims=tuple(_with_force_release(c) if c.metadata.key == wish.key else c for c in snapshot.claims)
    )
    scene = ClusterState(vouched, world=world, now=now)
    view = scene.view(wish.key, now=now)
    if view is None or view.allocation is None:
        return None
    return decide(view, policy=ALONGSIDE, now=now)


def _with_force_release(claim: ResourceClaim) -> ResourceClaim:
    annotations = {**(claim.metadata.annotations or {}), FORCE_RELEASE: claim.metadata.uid}
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, annotations=annotations))


async def _apply_plan(
    connection: Connection, world: ClaimCache, snapshot: Snapshot, key: Key, plan: ClaimPlan
) -> Exception | None:
    """Apply a plan; return the error after which the release may be tried again, or None."""
    patching = ClaimPatcher(connection.client)
    claim = _find_claim(snapshot, key)
    assert claim is not None  # noqa: S101 - it was decided about
    try:
        for write in plan.claim_writes:
            if isinstance(write, Deallocate):
                await DeallocationCheck(connection.client, world=world, clock=connection.clock).ask(write)
            claim = await patching.send(write, claim, priority=RequestPriority.NORMAL, within=_write_timeout)
    except (Conflict, BoundMeanwhileError) as error:
        return error
    return None


def _write_timeout() -> float:
    return WRITE_TIMEOUT


def _unmet_reasons(plan: ClaimPlan, name: str) -> str:
    """Return the reasons of a plan that report no success."""
    texts = [reason.text for reason in plan.reasons if not reason.done and reason.subject.kind == "ResourceClaim"]
    return "; ".join(texts) or f"claim {name}: is not given back now"
