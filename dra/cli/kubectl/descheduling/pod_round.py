"""Says why a pod would be moved by the next round of descheduling, or what keeps the pod where it is."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dra.cli.kubectl.connection import run
from dra.cli.kubectl.descheduling.configuration_reader import (
    AssumedConfiguration,
    read_configuration,
    read_configuration_file,
)
from dra.cli.kubectl.descheduling.dry_round import RoundPlan, plan_round, run_dry_round
from dra.cli.kubectl.descheduling.round_table import RoundReport, decision_data
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource
from dra.engine.descheduling.snapshot import Snapshot
from dra.engine.diagnosis import descheduling
from dra.model.meta import Key, Uid


def describe_pod_round(
    source: SnapshotSource, key: Key, config: Path | None, *, has_migrations: bool
) -> tuple[list[str], dict[str, Any]]:
    """Return what a round would do with a pod, as lines and as data.

    Without profiles, the lines say which configuration was looked at; there are none where nobody deschedules: no file
    is given, no descheduler is installed, and the cluster has no migrations. Raises FailedError for a file that no
    descheduler accepts.
    """
    plan = _plan(source, config, has_migrations=has_migrations)
    if not isinstance(plan, RoundPlan):
        return ([f"  round     no profiles are known, by which a round would move pods: {plan}"] if plan else []), {}
    try:
        snapshot = source.read_for_descheduling()
    except FailedError as error:
        return [f"  round     not known: {error.message}"], {}
    report, cluster = run_dry_round(plan, snapshot, now=source.now(snapshot), bundled=source.bundle_path is not None)
    pod = next((candidate for candidate in snapshot.pods if candidate.metadata.key == key), None)
    if pod is None:
        return [], {}
    uid = pod.metadata.uid
    lines = [*_lines(report, cluster, uid), f"            ({report.configuration})"]
    decisions = [decision_data(decision) for decision in descheduling.decisions_on(report.result, uid)]
    protections = dict(descheduling.protections(report.profiles, pod, cluster))
    content = {"decisions": decisions, "protections": protections, "configuration": report.configuration}
    return lines, {"round": content}


def _plan(source: SnapshotSource, config: Path | None, *, has_migrations: bool) -> RoundPlan | str:
    """Return the rounds of the given or of the installed configuration, or which configuration has none."""
    if config is None and source.bundle_path is not None:
        return "a bundle has no configuration; name the descheduler's with --config" if has_migrations else ""
    try:
        assumed = read_configuration_file(config) if config is not None else _installed(source)
    except FailedError:
        if config is not None:
            raise
        return ""
    is_of_interest = assumed.is_somebodys or has_migrations
    return plan_round(assumed) or (assumed.text if is_of_interest else "")


def _installed(source: SnapshotSource) -> AssumedConfiguration:
    return run(source.cluster_flags, lambda connection: read_configuration(connection, source.lease_namespace))


def _lines(report: RoundReport, cluster: Snapshot, uid: Uid) -> Iterator[str]:
    decisions = descheduling.decisions_on(report.result, uid)
    going = next((decision for decision in decisions if decision.verdict.accepted), None)
    if going is not None:
        where = f"to node {going.verdict.node}" if going.verdict.node else "without a place that is held"
        yield f"  round     would move the pod {where}: {going.plugin} of profile {going.profile}: {going.reason}"
        return
    for decision in decisions:
        who = f"{decision.plugin} of profile {decision.profile}"
        yield f"  round     {who} would move the pod ({decision.reason}), but it stays: {decision.verdict.message}"
    if decisions:
        return
    pod = next(candidate for candidate in cluster.objects.pods if candidate.metadata.uid == uid)
    names = ", ".join(profile.name for profile in report.profiles)
    yield f"  round     the pod stays: no plugin of profile {names} names it"
    for profile, text in descheduling.protections(report.profiles, pod, cluster):
        yield f"  round     profile {profile} would keep the pod in any case: {text}"
