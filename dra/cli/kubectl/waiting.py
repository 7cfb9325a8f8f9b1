"""Implements ``kubectl dra wait`` for claims and Reservations."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

import click

from dra.api.rbac import LEASE_NAME, NAMESPACE
from dra.api.reservations.model import MalformedReservationError, Reservation, ReservationPhase, parse_reservation
from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl.connection import Connection, run
from dra.cli.kubectl.diagnosis import describer
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.printers import print_to_stderr, wrap_lines
from dra.cli.kubectl.reservations import reservation_describer
from dra.cli.kubectl.resource_args import parse_resource_args
from dra.cli.kubectl.snapshots.cluster_reader import SnapshotReader
from dra.cli.kubectl.snapshots.snapshot_scope import SnapshotScope
from dra.cli.kubectl.snapshots.snapshot_source import DEFAULT_NAMESPACE, SnapshotSource
from dra.cli.kubectl.wait_conditions import DELETED, WAITED_STATES, WaitCondition
from dra.engine.diagnosis import claims
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.reservations.phases import TERMINAL_PHASES
from dra.kube.clock import SYSTEM
from dra.kube.errors import NotFound
from dra.kube.resources import CLAIMS, RESERVATIONS
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, UnstructuredObject

POLL_INTERVAL: Final = 1.0
"""Seconds between two reads of the object."""


def run_wait(
    *,
    what: str,
    name: str | None,
    cluster_flags: ClusterFlags,
    namespace: str | None,
    condition: WaitCondition | None,
    timeout: float,
) -> None:
    """Run ``kubectl dra wait``; the declaration describes the options."""
    kind, found_name = parse_resource_args(what, name, among=tuple(WAITED_STATES))
    condition = condition or WaitCondition(WAITED_STATES[kind][0])
    if condition.state and condition.state not in WAITED_STATES[kind]:
        raise click.UsageError(f"--for={condition}: for a {kind}, use {', '.join(WAITED_STATES[kind])}")
    if kind == "claim" and condition.type:
        raise click.UsageError(f"--for={condition}: claims have no conditions; use {', '.join(WAITED_STATES[kind])}")
    if kind == "reservation":
        _wait_for_reservation(cluster_flags, str(found_name), condition, timeout)
        return
    source = SnapshotSource(cluster_flags=cluster_flags, requested_namespace=namespace)
    _wait_for_claim(cluster_flags, (source.namespace or DEFAULT_NAMESPACE, str(found_name)), condition.state, timeout)


async def _poll(connection: Connection, is_met: Callable[[], Awaitable[bool]], *, seconds: float) -> bool:
    """Ask until the answer is True, or the time is up; return the last answer."""
    until = connection.clock.now() + seconds
    while not await is_met():
        if connection.clock.now() >= until:
            return False
        await asyncio.sleep(min(POLL_INTERVAL, max(until - connection.clock.now(), 0.01)))
    return True


def _wait_for_claim(cluster_flags: ClusterFlags, key: Key, state: str, timeout: float) -> None:
    async def work(connection: Connection) -> list[str] | None:
        seen = False

        async def is_met() -> bool:
            nonlocal seen
            try:
                claim = await connection.client.get(CLAIMS, key, ResourceClaim)
                allocated, seen = claim.status.allocation is not None, True
            except NotFound as error:
                if state == "allocated" or not error.details.name:  # without a name, the API itself is missing
                    raise
                if not seen and state != DELETED:
                    print_to_stderr(f"claim {'/'.join(key)}: not found. See: kubectl dra get claims -A")
                return True
            return state != DELETED and allocated == (state == "allocated")

        if await _poll(connection, is_met, seconds=timeout):
            return None
        reader = SnapshotReader(connection, namespace=key[0], lease=(NAMESPACE, LEASE_NAME))
        snapshot = await reader.read(SnapshotScope.ALL)
        facts = claims.explain(ClusterState(snapshot), key)
        return [*describer.describe_claim(facts)] if facts is not None else []

    missed = run(cluster_flags, work)
    if missed is not None:
        _fail(f"claim {'/'.join(key)}: not {state}{_within(timeout)}", missed)
    click.echo(f"resourceclaim.resource.k8s.io/{key[1]} {state}")


def _wait_for_reservation(cluster_flags: ClusterFlags, name: str, condition: WaitCondition, timeout: float) -> None:
    last: list[ReservationPhase] = []

    async def work(connection: Connection) -> list[str] | None:
        async def is_met() -> bool:
            try:
                reservation = await connection.client.get(RESERVATIONS, ("", name), UnstructuredObject)
            except NotFound as error:
                if condition.state not in {"ended", DELETED} or not error.details.name:  # as above
                    raise
                return True
            last[:] = [_parse(reservation).status.phase]
            return _is_met(condition, reservation, last[0])

        if await _poll(connection, is_met, seconds=timeout):
            return None
        reader = SnapshotReader(connection, namespace=None, lease=(NAMESPACE, LEASE_NAME))
        snapshot = await reader.read(SnapshotScope.RESERVATIONS | SnapshotScope.PODS | SnapshotScope.NODES)
        return reservation_describer.reservation_lines(snapshot, name, now=SYSTEM.wall())

    missed = run(cluster_flags, work)
    if missed is not None:
        _fail(f"reservation {name}: not {condition}{_within(timeout)}", missed)
    if condition.state == "available" and last[0] in TERMINAL_PHASES:
        _fail(f"reservation {name}: has ended ({last[0].value}), so it will not become available", ())
    click.echo(f"reservation.{RESERVATIONS.group}/{name} {condition}{' met' if condition.type else ''}")


def _is_met(condition: WaitCondition, reservation: UnstructuredObject, phase: ReservationPhase) -> bool:
    """Report whether a Reservation need not be watched longer; one that has ended never becomes available."""
    if condition.type:
        conditions = reservation.content.get("status", {}).get("conditions") or ()
        status = next(
            (str(reported.get("status")) for reported in conditions if _has_type(reported, condition.type)), ""
        )
        return status.lower() == condition.status
    if condition.state == DELETED:
        return False
    return phase in TERMINAL_PHASES or (condition.state == "available" and phase is ReservationPhase.AVAILABLE)


def _has_type(condition: Mapping[str, object], wanted: str) -> bool:
    return str(condition.get("type")).lower() == wanted.lower()


def _within(timeout: float) -> str:
    return f" within {timeout:g} s" if timeout else ""


def _parse(reservation: UnstructuredObject) -> Reservation:
    try:
        return parse_reservation(reservation.content)
    except MalformedReservationError as error:
        raise FailedError(str(error)) from error


def _fail(text: str, lines: Iterable[str]) -> None:
    print_to_stderr("\n".join([text, *wrap_lines(lines)]))
    raise SystemExit(1)
