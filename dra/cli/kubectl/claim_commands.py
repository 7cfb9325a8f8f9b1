"""Implements ``kubectl dra release``."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Final

import click
import msgspec

from dra.api.rbac import LEASE_NAME
from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl.connection import Connection, run
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.printers import print_to_stderr
from dra.cli.kubectl.resource_args import parse_resource_args
from dra.cli.kubectl.snapshots.cluster_reader import SnapshotReader
from dra.cli.kubectl.snapshots.snapshot_scope import SnapshotScope
from dra.cli.kubectl.snapshots.snapshot_source import DEFAULT_NAMESPACE, SnapshotSource
from dra.engine.claims.actions import ClaimPlan, Deallocate, LookUpNode
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.codes import Code
from dra.engine.claims.deallocation_check import BoundMeanwhileError
from dra.engine.claims.decide import decide
from dra.engine.claims.policy import ALONGSIDE
from dra.engine.diagnosis import claims
from dra.engine.diagnosis.cluster_state import AllocationHold, ClusterState
from dra.engine.diagnosis.snapshot import ControllerPresence, Snapshot
from dra.engine.instants import NEVER
from dra.kube.client import WRITE_TIMEOUT
from dra.kube.errors import Conflict, NotFound
from dra.kube.rate_limiter import RequestPriority
from dra.kube.resources import CLAIMS
from dra.model.claims import ResourceClaim
from dra.model.meta import Key
from dra.model.workload_reservations import FORCE_RELEASE
from dra.requests.claim_patcher import ClaimPatcher
from dra.requests.deallocation_check import DeallocationReader

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
    timeout: float
    dry_run: bool = False
    if_unused: bool = False
    """Whether to refuse where anything keeps the claim: without a confirmation, the command may be an old one."""


async def release_claim(connection: Connection, options: ReleaseOptions, *, report: Callable[[str], None]) -> str:
    """Release a claim and return what was done.

    Raises ReleaseRefusedError if the rules forbid it, and FailedError if the time is up.
    """
    name = "/".join(options.key)
    reader = partial(SnapshotReader, connection, namespace=options.key[0], lease=options.lease)
    snapshot = await reader().read(SnapshotScope.ALL)
    claim = _find_claim(snapshot, options.key)
    if claim is None:
        raise FailedError(f"claim {name}: not found")
    if claim.status.allocation is None:
        return f"claim {name}: has no devices"
    if options.if_unused and (kept := _keeping_text(snapshot, options.key)):
        raise ReleaseRefusedError(
            f"claim {name}: not unused: {kept}. See: kubectl dra explain claim {options.key[1]} -n {options.key[0]}"
        )
    if snapshot.leader.presence is ControllerPresence.RUNNING:
        return await _release_by_controller(connection, options, claim, snapshot)
    return await _release_directly(connection, options, reader=reader, first=snapshot, report=report)


def _find_claim(snapshot: Snapshot, key: Key) -> ResourceClaim | None:
    return next((claim for claim in snapshot.claims if claim.metadata.key == key), None)


def _keeping_text(snapshot: Snapshot, key: Key) -> str:
    """Return what keeps a claim, apart from time that must pass; empty if nothing does.

    Vanished pods do not count here: `decide` reports when their wait is over.
    """
    cluster_state = ClusterState(snapshot)
    view = cluster_state.view(key)
    if view is None:
        return ""
    holds = set(claims.holds_of(cluster_state, view))
    if AllocationHold.NOTHING in holds and view.unfinished:
        return "pending pods reference it"
    return ", ".join(sorted(holds - {AllocationHold.NOTHING, AllocationHold.TIME, AllocationHold.VANISHED}))


async def _release_by_controller(
    connection: Connection, options: ReleaseOptions, claim: ResourceClaim, snapshot: Snapshot
) -> str:
    """Request the release from the controller and wait for it.

    A request that the controller would certainly refuse is not made.
    """
    name = "/".join(options.key)
    plan = _decide(snapshot, ClaimCache(), options, now=connection.clock.now())
    if plan is not None and any(reason.code is Code.FORCE_RELEASE_BLOCKED for reason in plan.reasons):
        raise ReleaseRefusedError(_unmet_reasons(plan, name))
    if options.dry_run:
        return f"claim {name}: would be annotated with reserve.dra/force-release; the controller then releases it"
    uid = claim.metadata.uid
    try:
        await connection.client.merge_patch(
            CLAIMS,
            options.key,
            {"metadata": {"annotations": {FORCE_RELEASE: uid}}},
            model=ResourceClaim,
            uid=uid,
            resource_version=claim.metadata.resource_version if options.if_unused else None,  # it was seen unused
        )
    except Conflict as error:
        raise ReleaseRefusedError(
            f"claim {name}: has changed since it was read; nothing was done, try again"
        ) from error
    until = connection.clock.now() + options.timeout
    while connection.clock.now() < until:
        try:
            claim = await connection.client.get(CLAIMS, options.key, ResourceClaim)
        except NotFound:
            return f"claim {name}: released and deleted"
        if claim.status.allocation is None or claim.metadata.uid != uid:
            return f"claim {name}: released by the controller"
        await asyncio.sleep(POLL_INTERVAL)
    note = "annotation reserve.dra/force-release stays on the claim"
    # The user has confirmed nothing: when a controller reads the annotation, the claim may be in use again.
    if options.if_unused:
        remove_annotation = {"metadata": {"annotations": {FORCE_RELEASE: None}}}
        await connection.client.merge_patch(CLAIMS, options.key, remove_annotation, model=ResourceClaim, uid=uid)
        note = "annotation reserve.dra/force-release was removed"
    raise FailedError(
        f"claim {name}: not released within {options.timeout:.0f} s; {note}. "
        f"See: kubectl dra explain claim {options.key[1]} -n {options.key[0]}"
    )


async def _release_directly(
    connection: Connection,
    options: ReleaseOptions,
    *,
    reader: Callable[[], SnapshotReader],
    first: Snapshot,
    report: Callable[[str], None],
) -> str:
    """Decide and write as the controller would, again after each write, each conflict and each wait.

    A release may take several writes: the entries of what is over leave the list behind a guard before the time begins
    after which no pod can be bound to the claim. Each write follows from the present state alone, so a command that
    ends in between leaves the claim reserved, and can be run again.
    """
    name, claim_cache, snapshot = "/".join(options.key), ClaimCache(), first
    until = connection.clock.now() + options.timeout
    printed, attempts = "", 0
    while True:
        plan = _decide(snapshot, claim_cache, options, now=connection.clock.now())
        if plan is None:
            return f"claim {name}: was released meanwhile"
        lookups = [action for action in plan.actions if isinstance(action, LookUpNode)]
        if not plan.claim_writes and not lookups and plan.wake_at > until:
            raise ReleaseRefusedError(_refusal_text(plan, options, now=connection.clock.now()))
        if options.dry_run:
            return f"claim {name}: would be released by this command: no dra-reserve controller is known to run"
        failure = await _apply_plan(connection, claim_cache, snapshot, options.key, plan)
        if failure is None and any(isinstance(write, Deallocate) for write in plan.claim_writes):
            return f"claim {name}: released"
        attempts = attempts + 1 if failure is not None else 0
        if attempts >= ATTEMPTS_MAX:
            raise ReleaseRefusedError(f"claim {name}: {failure}")
        if (text := _unmet_reasons(plan, name)) != printed:
            report(text)
            printed = text
        await asyncio.sleep(POLL_INTERVAL)
        if connection.clock.now() > until:
            raise ReleaseRefusedError(_refusal_text(plan, options, now=connection.clock.now()))
        snapshot = await _read_again(snapshot, claim_cache, reader(), now=connection.clock.now)
        for asked in lookups:
            claim_cache.lookups.observe_node_read(asked.claim, asked.node, now=connection.clock.now())


async def _read_again(
    before: Snapshot, claim_cache: ClaimCache, reader: SnapshotReader, *, now: Callable[[], float]
) -> Snapshot:
    """Read the snapshot again; update the cache with its nodes, and forget the pods that have vanished."""
    snapshot = await reader.read(SnapshotScope.ALL)
    for node in snapshot.nodes:
        claim_cache.observe_node(node, now=now())
    present_pods = {pod.metadata.uid for pod in snapshot.pods}
    for pod in before.pods:
        if pod.metadata.uid not in present_pods:
            claim_cache.forget_pod(pod.metadata.uid)
    return snapshot


def _decide(snapshot: Snapshot, claim_cache: ClaimCache, options: ReleaseOptions, *, now: float) -> ClaimPlan | None:
    """Return the plan for the claim as if it carried the annotation; None if the claim has no allocation."""
    confirmed = msgspec.structs.replace(
        snapshot, claims=tuple(_with_force_release(c) if c.metadata.key == options.key else c for c in snapshot.claims)
    )
    cluster_state = ClusterState(confirmed, claim_cache=claim_cache, now=now)
    view = cluster_state.view(options.key, now=now)
    if view is None or view.allocation is None:
        return None
    return decide(view, policy=ALONGSIDE, now=now)


def _with_force_release(claim: ResourceClaim) -> ResourceClaim:
    annotations = {**(claim.metadata.annotations or {}), FORCE_RELEASE: claim.metadata.uid}
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, annotations=annotations))


async def _apply_plan(
    connection: Connection, claim_cache: ClaimCache, snapshot: Snapshot, key: Key, plan: ClaimPlan
) -> Exception | None:
    """Apply a plan; return the error after which the release may be tried again, or None."""
    patching = ClaimPatcher(connection.client)
    claim = _find_claim(snapshot, key)
    assert claim is not None  # noqa: S101 - it was decided about
    try:
        for write in plan.claim_writes:
            if isinstance(write, Deallocate):
                await DeallocationReader(connection.client, cache=claim_cache, clock=connection.clock).check(write)
            claim = await patching.patch(write, claim, priority=RequestPriority.NORMAL, write_timeout=_write_timeout)
    except (Conflict, BoundMeanwhileError) as error:
        return error
    return None


def _write_timeout() -> float:
    return WRITE_TIMEOUT


def _unmet_reasons(plan: ClaimPlan, name: str) -> str:
    """Return the reasons of a plan that report no success."""
    texts = [reason.text for reason in plan.reasons if not reason.done and reason.subject.kind == "ResourceClaim"]
    return "; ".join(texts) or f"claim {name}: cannot be released now"


def _refusal_text(plan: ClaimPlan, options: ReleaseOptions, *, now: float) -> str:
    """Return why a claim is not released in time, and what helps."""
    namespace, name = options.key
    needed = plan.wake_at - now
    helps = f"allow more time with --timeout={ceil(needed + options.timeout)}s" if needed < NEVER else ""
    see = f"see: kubectl dra explain claim {name} -n {namespace}"
    reasons = _unmet_reasons(plan, f"{namespace}/{name}")
    return f"{reasons}. Not released within {options.timeout:.0f} s; {helps or see}"


def _claim_name(what: str, name: str | None) -> str:
    """Return the name of the claim on the command line."""
    return str(parse_resource_args(what, name, among=("claim",))[1])


def run_release(  # noqa: PLR0913 - one for each option
    *,
    what: str,
    name: str | None,
    cluster_flags: ClusterFlags,
    namespace: str | None,
    timeout: float,
    dry_run: str,
    if_unused: bool,
    lease_namespace: str,
) -> None:
    """Run ``kubectl dra release``; the declaration describes the options."""
    selected_namespace = (
        SnapshotSource(cluster_flags=cluster_flags, requested_namespace=namespace).namespace or DEFAULT_NAMESPACE
    )
    options = ReleaseOptions(
        key=(selected_namespace, _claim_name(what, name)),
        lease=(lease_namespace, LEASE_NAME),
        timeout=timeout,
        dry_run=dry_run != "none",
        if_unused=if_unused,
    )
    try:
        click.echo(run(cluster_flags, lambda connection: release_claim(connection, options, report=print_to_stderr)))
    except ReleaseRefusedError as error:
        print_to_stderr(f"{error}")
        raise SystemExit(1) from error
