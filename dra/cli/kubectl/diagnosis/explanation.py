"""Prints the explanation of one object, as ``kubectl dra explain`` shows it."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from dra.api.reservations.well_known import ANNOTATION_NODE_RESERVATION
from dra.cli.kubectl.diagnosis import colocation_describer, describer, reason_guidance
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import OutputFormat, did_you_mean, wrap_lines
from dra.cli.kubectl.resource_args import KIND_ALIASES
from dra.cli.kubectl.snapshots.controller_reader import UnknownWorkloadError
from dra.cli.kubectl.snapshots.snapshot_scope import SnapshotScope
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource
from dra.engine.claims.rule_descriptions import RULE_DESCRIPTIONS
from dra.engine.diagnosis import claims, pods, self_waits
from dra.engine.diagnosis.claims import ClaimDiagnosis
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.devices import DeviceObstacle, DeviceUsage, devices
from dra.engine.diagnosis.node_groups import format_amount
from dra.engine.diagnosis.pods import PodDiagnosis
from dra.engine.diagnosis.snapshot import PodController, Snapshot
from dra.model.meta import Key
from dra.model.references import GroupResource, MalformedReferenceError

WORKLOAD_SCOPE: Final = SnapshotScope.ALL | SnapshotScope.NAMESPACES
"""What the explanation of a workload needs, besides the controllers of pods."""


def print_explanation(
    source: SnapshotSource, kind: str, name: str, output: PrintOptions, *, config: Path | None = None
) -> None:
    """Print the explanation of one object; end with exit code 1 if it has a problem.

    ``config``: configuration of the descheduler; None: that of the installed one, if there is one.
    """
    if kind == "reason":
        _print_reason(name, output)
        return
    if kind == "rule":
        _print_rule(name, output)
        return
    if kind == "reservation":
        _print_reservation(source, name, output)
        return
    if kind == "migration":
        _print_migration(source, name, output)
        return
    snapshot = _read(source, kind, name)
    cluster_state = ClusterState(snapshot)
    if kind in {"node", "device"}:
        if not print_devices(cluster_state, kind, name, output, now=source.now(snapshot)):
            known = cluster_state.nodes if kind == "node" else (usage.item.device for usage in devices(cluster_state))
            raise FailedError(f"{kind} {name}: not found{did_you_mean(name, known)}")
        return
    facts = _diagnose(cluster_state, kind, _resolve_key(source, cluster_state, kind, name))
    more, content = _describe_pod_reservations(snapshot, facts)
    moves, data = _describe_pod_migrations(snapshot, facts, now=source.now(snapshot))
    if not moves:
        moves = _describe_eviction(source, snapshot, facts)
    rounds, decisions = _describe_pod_round(source, facts, config, has_migrations=bool(snapshot.migrations))
    more, content = [*more, *moves, *rounds], {**content, **data, **decisions}
    if output.format is OutputFormat.TABLE:
        lines = describer.describe_claim(facts) if isinstance(facts, ClaimDiagnosis) else describer.describe_pod(facts)
        unknown = describer.unknown_lines(snapshot, verbose=output.verbose)
        click.echo("\n".join(wrap_lines([*lines, *more, *unknown])))
    else:
        output.print({**describer.diagnosis_data(facts, snapshot), **content})
    if any(problem.severity != "info" for problem in facts.problems):
        raise SystemExit(1)


def _read(source: SnapshotSource, kind: str, name: str) -> Snapshot:
    scope = SnapshotScope.ALL | SnapshotScope.RESERVATIONS | SnapshotScope.MIGRATIONS | SnapshotScope.NAMESPACES
    if kind == "node":
        return source.read(scope | SnapshotScope.COLOCATION, node=name)
    if kind == "claim" and source.bundle_path is None:
        return source.read_around_claim((source.namespace, name), scope | SnapshotScope.START_FAILURES)
    return source.read(scope | SnapshotScope.START_FAILURES)


def print_workload(source: SnapshotSource, words: str, name: str, output: PrintOptions) -> None:
    """Print the explanation of a workload; `words` are the user's for its kind: ``job``, ``jobs.v1.batch``."""
    from dra.cli.kubectl.diagnosis import workload_describer  # noqa: PLC0415 - only who asks for it waits for it
    from dra.engine.diagnosis import workloads  # noqa: PLC0415 - as above

    try:
        snapshot, target = source.read_workload(WORKLOAD_SCOPE, _parse_workload_kind(words), name)
    except UnknownWorkloadError as error:
        known = (alias for aliases in KIND_ALIASES.values() for alias in aliases)
        raise FailedError(f"{error}{did_you_mean(words.lower(), known)}") from error
    facts = workloads.explain(ClusterState(snapshot), target)
    if not facts.exists and not facts.claims:
        raise FailedError(f"{words} {target.namespace}/{name}: not found{_suggest_workload(snapshot, target)}")
    if output.format is OutputFormat.TABLE:
        unknown = describer.unknown_lines(snapshot, verbose=output.verbose)
        click.echo("\n".join(wrap_lines([*workload_describer.describe_workload(facts), *unknown])))
    else:
        output.print(workload_describer.workload_data(facts, snapshot))
    if any(counted.problem.severity != "info" for counted in facts.problems):
        raise SystemExit(1)


def _parse_workload_kind(words: str) -> GroupResource:
    try:
        return GroupResource.parse(words.lower())
    except MalformedReferenceError as error:
        raise click.UsageError(str(error)) from error


def _suggest_workload(snapshot: Snapshot, target: PodController) -> str:
    """Return a question with similar names: the names of such objects that have pods."""
    return did_you_mean(
        target.name, (controller.name for controller in snapshot.controllers if controller.key.kind == target.key.kind)
    )


def _print_reservation(source: SnapshotSource, name: str, output: PrintOptions) -> None:
    from dra.cli.kubectl.reservations import reservation_describer  # noqa: PLC0415 - as above

    snapshot = source.read(SnapshotScope.RESERVATIONS | SnapshotScope.PODS | SnapshotScope.NODES)
    reservation_describer.print_reservation(snapshot, name, output, now=source.now(snapshot))


def _describe_pod_reservations(
    snapshot: Snapshot, facts: ClaimDiagnosis | PodDiagnosis
) -> tuple[list[str], dict[str, Any]]:
    """Return what reservations mean for a pod, as lines and as data; empty for claims and finished pods."""
    if not isinstance(facts, PodDiagnosis) or not snapshot.reservations or facts.stage == "finished":
        return [], {}
    from dra.cli.kubectl.reservations import reservation_describer  # noqa: PLC0415 - as above

    return reservation_describer.describe_pod_reservations(snapshot, facts.key)


def _print_migration(source: SnapshotSource, name: str, output: PrintOptions) -> None:
    from dra.cli.kubectl.diagnosis import migration_describer  # noqa: PLC0415 - as above
    from dra.cli.kubectl.migrations.migration_reader import read_migrations  # noqa: PLC0415 - as above

    snapshot = read_migrations(source, name=name)
    migration_describer.print_migration(snapshot, name, output, now=source.now(snapshot))


def _describe_pod_migrations(
    snapshot: Snapshot, facts: ClaimDiagnosis | PodDiagnosis, *, now: datetime
) -> tuple[list[str], dict[str, Any]]:
    """Return the migrations from and to a pod, as lines and as data; empty for claims."""
    if not isinstance(facts, PodDiagnosis) or not snapshot.migrations:
        return [], {}
    from dra.cli.kubectl.diagnosis import migration_describer  # noqa: PLC0415 - as above

    return migration_describer.describe_pod_migrations(snapshot, facts.key, facts.uid, now=now)


def _describe_eviction(source: SnapshotSource, snapshot: Snapshot, facts: ClaimDiagnosis | PodDiagnosis) -> list[str]:
    """Return the eviction that a young pod follows, by Events; empty for claims, and in a bundle."""
    if not isinstance(facts, PodDiagnosis) or source.bundle_path is not None:
        return []
    from dra.cli.kubectl.connection import run  # noqa: PLC0415 - as above
    from dra.cli.kubectl.migrations import descheduled_events  # noqa: PLC0415 - as above

    created = next((pod.metadata.creation_timestamp for pod in snapshot.pods if pod.metadata.key == facts.key), "")
    if not descheduled_events.is_recent(created, now=source.now(snapshot)):
        return []
    namespace = facts.key[0]
    events = run(source.cluster_flags, lambda connection: descheduled_events.read_evictions(connection, namespace))
    eviction = descheduled_events.eviction_before(events, facts.key, facts.uid)
    return [] if eviction is None else [f"  moved     {descheduled_events.eviction_text(eviction)}"]


def _describe_pod_round(
    source: SnapshotSource, facts: ClaimDiagnosis | PodDiagnosis, config: Path | None, *, has_migrations: bool
) -> tuple[list[str], dict[str, Any]]:
    """Return what a round of descheduling would do with a running pod, as lines and as data."""
    if not isinstance(facts, PodDiagnosis) or not facts.node or facts.stage == "finished":
        return [], {}
    from dra.cli.kubectl.descheduling.pod_round import describe_pod_round  # noqa: PLC0415 - as above

    return describe_pod_round(source, facts.key, config, has_migrations=has_migrations)


def _print_reason(name: str, output: PrintOptions) -> None:
    """Print the guidance for a reason; raise FailedError for an unknown reason."""
    match = reason_guidance.find_guidance(name)
    if match is None:
        raise FailedError(f"reason {name}: not found{did_you_mean(name, reason_guidance.reason_names())}")
    reason, guidance = match
    if output.format is OutputFormat.TABLE:
        lines = (
            f"reason {reason}: {reason_guidance.without_code_marks(guidance.meaning)}",
            f"  cause     {reason_guidance.without_code_marks(guidance.cause)}",
            f"  do        {reason_guidance.without_code_marks(guidance.remedy)}",
        )
        click.echo("\n".join(wrap_lines(lines)))
        return
    content = {"reason": reason, "meaning": guidance.meaning, "cause": guidance.cause, "remedy": guidance.remedy}
    output.print(content)


def _print_rule(words: str, output: PrintOptions) -> None:
    """Print a rule by its number or name; raise FailedError for an unknown rule."""
    rules = {str(number): number for number in RULE_DESCRIPTIONS}
    rules |= {rule.name.lower(): number for number, rule in RULE_DESCRIPTIONS.items()}
    number = rules.get(words.lower().lstrip("0"))
    if number is None:
        known = ", ".join(f"{known_number} {rule.name}" for known_number, rule in RULE_DESCRIPTIONS.items())
        raise FailedError(f"rule {words}: not found; the rules are {known}")
    rule = RULE_DESCRIPTIONS[number]
    modules = reason_guidance.without_code_marks(rule.modules)
    if output.format is OutputFormat.TABLE:
        lines = (
            f"rule {number} {rule.name}: {reason_guidance.without_code_marks(rule.sentence)}",
            f"  code      {modules}",
        )
        click.echo("\n".join(wrap_lines(lines)))
        return
    output.print({"rule": number, "name": rule.name, "text": rule.sentence, "code": modules})


def _resolve_key(source: SnapshotSource, cluster_state: ClusterState, kind: str, name: str) -> Key:
    """Return the key of the named object; a bundle has no context, but often only one object of a name."""
    if source.bundle_path is None or source.requested_namespace:
        return (source.namespace, name)
    keys = [key for key in _known_keys(cluster_state, kind) if key[1] == name]
    if len(keys) > 1:
        raise FailedError(
            f"{kind} {name}: found in namespaces {', '.join(key[0] for key in keys)}; select one with -n NAMESPACE"
        )
    return keys[0] if keys else (source.namespace, name)


def _diagnose(cluster_state: ClusterState, kind: str, key: Key) -> ClaimDiagnosis | PodDiagnosis:
    diagnosis = claims.explain(cluster_state, key) if kind == "claim" else pods.explain(cluster_state, key)
    if diagnosis is None:
        raise FailedError(
            f"{kind} {'/'.join(key)}: not found{_suggest_namespace_or_name(_known_keys(cluster_state, kind), key)}"
        )
    return self_waits.with_self_wait(cluster_state, diagnosis) if isinstance(diagnosis, ClaimDiagnosis) else diagnosis


def _known_keys(cluster_state: ClusterState, kind: str) -> Iterable[Key]:
    return cluster_state.pods if kind == "pod" else (claim.metadata.key for claim in cluster_state.snapshot.claims)


def _suggest_namespace_or_name(keys: Iterable[Key], wanted: Key) -> str:
    """Return the namespaces that have this name, or similar names: most often the namespace is missing."""
    known = list(keys)
    others = sorted({key[0] for key in known if key[1] == wanted[1]})[:3]
    if others:
        return f"; found in namespace {' and '.join(others)}: use -n {others[0]}"
    return did_you_mean(wanted[1], (key[1] for key in known if key[0] == wanted[0]))


def print_devices(cluster_state: ClusterState, kind: str, name: str, output: PrintOptions, *, now: datetime) -> bool:
    """Print the holders of a device, or all devices of a node; return whether the device or node exists."""
    if output.format is not OutputFormat.TABLE:
        usages = _find_devices(cluster_state, kind, name)
        if usages is not None:
            node = cluster_state.nodes.get(name) if kind == "node" else None
            more = colocation_describer.colocation_data(cluster_state, node, now=now) if node is not None else {}
            output.print({**_devices_data(cluster_state, kind, name, usages), **more})
        return usages is not None
    lines = [*describe_devices(cluster_state, kind, name, verbose=output.verbose, now=now)]
    if lines:
        click.echo("\n".join(wrap_lines(lines)))
    return bool(lines)


def describe_devices(
    cluster_state: ClusterState, kind: str, name: str, *, verbose: bool, now: datetime
) -> Iterator[str]:
    """Yield the description of a device, or of all devices of a node; nothing if it does not exist."""
    usages = _find_devices(cluster_state, kind, name)
    if usages is None:
        return
    yield _headline(cluster_state, kind, name, usages)
    if kind == "node":
        yield from _node_reservation_lines(cluster_state, name)
        if (node := cluster_state.nodes.get(name)) is not None:
            yield from colocation_describer.describe_colocation(cluster_state, node, now=now)
    for usage in usages:
        yield f"  device    {usage.item}: {_device_usage_text(usage)}"
    for key in dict.fromkeys(key for usage in usages for key in usage.holders):
        facts = claims.explain(cluster_state, key)
        if facts is not None:
            until = f"; released when {describer.release_condition(facts)}" if facts.holds else ""
            yield f"  claim     {'/'.join(key)}: {describer.claim_state_text(facts)}{until}"
            yield from describer.problem_lines(facts.problems, within="")
    yield from describer.unknown_lines(cluster_state.snapshot, verbose=verbose)


def _find_devices(cluster_state: ClusterState, kind: str, name: str) -> list[DeviceUsage] | None:
    """Return the named device, or the devices of a node; None if the device or node does not exist."""
    usages = [usage for usage in devices(cluster_state) if _is_selected(usage, kind, name)]
    return usages if usages or (kind == "node" and name in cluster_state.nodes) else None


def _is_selected(usage: DeviceUsage, kind: str, name: str) -> bool:
    """Report whether a device is on the node, or is named as DEVICE, POOL/DEVICE or DRIVER/POOL/DEVICE."""
    item = usage.item
    if kind == "node":
        return usage.node == name
    return name in {item.device, f"{item.pool}/{item.device}", str(item.whole)}


def _headline(cluster_state: ClusterState, kind: str, name: str, usages: list[DeviceUsage]) -> str:
    if kind == "device":
        return f"device {name}: {len(usages)} of that name" if len(usages) > 1 else f"device {usages[0].item}"
    node = cluster_state.nodes.get(name)
    if node is None:
        return f"node {name}: not found, but ResourceSlices offer devices of it"
    ready = "Ready" if node.ready else "NotReady"
    cordoned = ", cordoned" if node.spec.unschedulable else ""
    held = sum(1 for usage in usages if usage.holders)
    return f"node {name}: {ready}{cordoned}; {len(usages)} devices of its own, {held} held"


def _node_reservation_lines(cluster_state: ClusterState, name: str) -> Iterator[str]:
    """Yield the resources that the node keeps from pods, and faults of its annotation."""
    node_info = cluster_state.node_infos.get(name)
    if node_info is None:
        return
    if node_info.reserved:
        amounts = ", ".join(
            f"{resource} {format_amount(resource, amount)}" for resource, amount in sorted(node_info.reserved.items())
        )
        yield f"  keeps     {amounts} from pods (annotation {ANNOTATION_NODE_RESERVATION})"
    if node_info.reservation_error:
        yield f"  problem   {node_info.reservation_error}; correct it: kubectl edit node {name}"


_UNHELD_TEXTS: Final = {
    DeviceObstacle.NONE: "free",
    DeviceObstacle.POOL_INCOMPLETE: "cannot be allocated, since slices of its pool are missing",
    DeviceObstacle.POOL_INVALID: "cannot be allocated, since its pool contradicts itself",
    DeviceObstacle.NODE_NOT_READY: "not held, but its node is not Ready",
    DeviceObstacle.NODE_CORDONED: "not held, but its node is cordoned",
    DeviceObstacle.COUNTERS_USED: "not held, but held devices of its pool use up the counters that it shares with them",
}


def _device_usage_text(usage: DeviceUsage) -> str:
    where = f" on node {usage.node}" if usage.node else ""
    taints = f", tainted {', '.join(usage.taints)}" if usage.taints else ""
    state = usage.obstacle.value.lower()
    absent = f", not offered while its pool is {state}" if state else ", no longer offered by a driver"
    gone = "" if usage.offered else absent
    if not usage.holders:
        held = _UNHELD_TEXTS[usage.obstacle] if usage.known else "held by a claim that you cannot read"
        return f"{held}{where}{taints}{gone}"
    names = ", ".join("/".join(key) for key in usage.holders)
    return f"held by claim {names}{where}, used by {usage.consumers} pods{taints}{gone}"


def _node_reservation_data(cluster_state: ClusterState, kind: str, name: str) -> dict[str, Any]:
    node_info = cluster_state.node_infos.get(name) if kind == "node" else None
    if node_info is None:
        return {}
    return {
        "kept": {r: format_amount(r, amount) for r, amount in sorted(node_info.reserved.items())},
        "problem": node_info.reservation_error,
    }


def _devices_data(cluster_state: ClusterState, kind: str, name: str, usages: list[DeviceUsage]) -> dict[str, Any]:
    keys = dict.fromkeys(key for usage in usages for key in usage.holders)
    facts = (claims.explain(cluster_state, key) for key in keys)
    return {
        "kind": kind,
        "name": name,
        **_node_reservation_data(cluster_state, kind, name),
        "devices": [{**msgspec.to_builtins(usage), "name": str(usage.item)} for usage in usages],
        "claims": [
            describer.diagnosis_data(diagnosis, cluster_state.snapshot) for diagnosis in facts if diagnosis is not None
        ],
    }
