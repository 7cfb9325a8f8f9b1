"""Implements the ``kubectl dra simulate`` command."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import click
import msgspec

from dra.api.migration.model import KIND as MIGRATION_KIND
from dra.api.parameters.cpu_policies import CpuBindPolicy
from dra.api.reservations.model import GROUP, KIND, MalformedReservationError
from dra.cli.kubectl import resource_table
from dra.cli.kubectl.diagnosis import describer
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.manifests import MalformedManifestError, load_documents
from dra.cli.kubectl.migrations.migration_texts import KIND_NAME
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import OutputFormat, print_to_stderr, wrap_lines
from dra.cli.kubectl.reservations import reservation_describer
from dra.cli.kubectl.resource_table import ResourceTable, SelectorOptions, TableRow
from dra.cli.kubectl.simulate.applied_manifests import apply_manifests
from dra.cli.kubectl.simulate.cluster_changes import ClusterChanges, UnknownObjectError, apply_changes
from dra.cli.kubectl.simulate.equal_pods import base_name, sum_up_rows
from dra.cli.kubectl.simulate.manifest_fields import unknown_field_texts
from dra.cli.kubectl.simulate.simulated_manifests import (
    Manifests,
    UnknownPriorityClassError,
    parse_manifests,
    with_priority,
)
from dra.cli.kubectl.simulate.simulated_migrations import (
    MigrationOutcome,
    migration_outcome_text,
    simulate_migrations,
)
from dra.cli.kubectl.simulate.simulated_taints import apply_rules, eviction_rows, rule_texts
from dra.cli.kubectl.simulate.simulation import PodOutcome, SimulationResult, Verdict, simulate_scheduling
from dra.cli.kubectl.simulate.unsimulated_fields import undecided_text
from dra.cli.kubectl.snapshots.snapshot_scope import SnapshotScope
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource
from dra.engine.diagnosis import pods as explaining
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.manifest_mistakes import mistakes
from dra.engine.diagnosis.snapshot import Snapshot
from dra.engine.messages.texts import singularize
from dra.kube.resources import PRIORITY_CLASSES
from dra.model.meta import Key
from dra.model.scheduling import SchedulerPod

OUTCOME_COLUMNS: Final = ("NAMESPACE", "POD", "NODE", "DEVICES", "WHY")
SUMMED_FORMATS: Final = {OutputFormat.TABLE, OutputFormat.WIDE}
"""Formats for people, in which equal pods share a row; others have a record for each pod."""

EXIT_CODE_UNDECIDED: Final = 3
"""Exit code if no pod would stay Pending, but some have fields that the simulation does not read."""

UNDECIDED_NODE: Final = "<unknown>"
"""What the column NODE shows for a pod that may get another node, or none."""

EXPLAINED_PODS_MAX: Final = 3
"""Maximum number of groups of equal pods explained below the table."""


def print_simulation(  # noqa: PLR0913 - one for each option
    *,
    filenames: tuple[str, ...],
    source: SnapshotSource,
    added: tuple[str, ...],
    cordoned: tuple[str, ...],
    dropped: tuple[str, ...],
    default_policy: str | None,
    selectors: SelectorOptions,
    output: PrintOptions,
) -> None:
    """Run ``kubectl dra simulate``; the declaration describes the options."""
    try:
        namespace = source.namespace
        documents = [*load_documents(filenames)]
        manifests = parse_manifests(documents, namespace=namespace)
        snapshot = apply_changes(
            _with_default_policy(source.read(SnapshotScope.SIMULATED), default_policy),
            _parse_changes(added, cordoned, dropped, namespace),
        )
    except (MalformedManifestError, UnknownObjectError) as error:
        raise FailedError(str(error)) from error
    snapshot, texts = apply_manifests(snapshot, manifests)
    for text in (*unknown_field_texts(documents), *texts):
        print_to_stderr(f"note: {text}")
    existing_pods = {pod.metadata.key for pod in snapshot.pods}
    manifests.ignored += [f"pod {'/'.join(key)} already exists" for key in _pod_keys(manifests) if key in existing_pods]
    manifests.ignored += [
        f"pod {'/'.join(pod.metadata.key)}: spec.nodeName is set, so no scheduler places it or allocates its claims"
        for pod in manifests.pods
        if pod.spec.node_name and pod.metadata.key not in existing_pods
    ]
    named = {reservation.metadata.name for reservation in snapshot.reservations or ()}
    manifests.ignored += [
        f"reservation {reservation_name} already exists"
        for reservation_name in _reservation_names(manifests)
        if reservation_name in named
    ]
    manifests.reservations = [
        reservation for reservation in manifests.reservations if reservation.metadata.name not in named
    ]
    try:
        moved = simulate_migrations(snapshot, manifests.migrations)
        _set_priorities(manifests, snapshot)
        moved_snapshot = moved.final_snapshot if manifests.migrations else snapshot
        tainted, previews = apply_rules(moved_snapshot, manifests.rules, now=source.now(snapshot))
        result = simulate_scheduling(tainted, manifests)
    except (MalformedManifestError, MalformedReservationError, UnknownPriorityClassError) as error:
        raise FailedError(str(error)) from error
    _print_outcome(result, (*map(_migration_row, moved.outcomes), *eviction_rows(previews)), selectors, output)
    for text in rule_texts(previews):
        print_to_stderr(text)
    _print_counts(result, moved.outcomes, has_rules=bool(previews))
    planned = msgspec.structs.replace(result.final_snapshot, templates=(*snapshot.templates, *manifests.templates))
    for note in mistakes(ClusterState(planned), pods=manifests.pods, claims=manifests.claims):
        print_to_stderr(f"note: {note}")
    for note in result.translation_notes:
        print_to_stderr(note)
    for left_out in (*manifests.ignored, *result.unreadable_reservations):
        print_to_stderr(f"not simulated: {left_out}")
    for gap in snapshot.gaps:
        print_to_stderr(f"not read: {gap.resource}: {gap.why}")
    raise SystemExit(_exit_code(result, moved.outcomes))


def _exit_code(result: SimulationResult, migrations: Sequence[MigrationOutcome]) -> int:
    verdicts = {outcome.verdict for outcome in result.outcomes if outcome.is_from_manifests}
    stays = not all(migration.moves for migration in migrations)
    if stays or not verdicts.isdisjoint({Verdict.PENDING, Verdict.REFUSED}):
        return 1
    is_undecided = Verdict.UNDECIDED in verdicts or any(migration.unsimulated for migration in migrations)
    return EXIT_CODE_UNDECIDED if is_undecided else 0


def _with_default_policy(snapshot: Snapshot, named: str | None) -> Snapshot:
    """Return a snapshot with the bind policy that the user names, if any, as the cluster's default."""
    return msgspec.structs.replace(snapshot, default_cpu_bind_policy=CpuBindPolicy(named)) if named else snapshot


def _pod_keys(manifests: Manifests) -> list[Key]:
    return [pod.metadata.key for pod in manifests.pods]


def _reservation_names(manifests: Manifests) -> list[str]:
    return [reservation.metadata.name for reservation in manifests.reservations]


def _parse_changes(
    added: Sequence[str], cordoned: tuple[str, ...], dropped: tuple[str, ...], namespace: str
) -> ClusterChanges:
    more = []
    for addition in added:
        node, _, count = addition.rpartition("=")
        if not node or not count.isdecimal():
            raise click.UsageError(f"--add-nodes {addition}: use NODE=COUNT to add COUNT copies of NODE")
        more.append((node, int(count)))
    return ClusterChanges(cordoned=cordoned, added=tuple(more), dropped=dropped, namespace=namespace)


def _set_priorities(manifests: Manifests, snapshot: Snapshot) -> None:
    """Set the priority of the manifests' pods as admission would."""
    classes = (*snapshot.priorities, *manifests.priority_classes)
    unread = any(gap.resource == PRIORITY_CLASSES.label for gap in snapshot.gaps)
    for number, pod in enumerate(manifests.pods):
        name = manifests.priority_class_names.get(pod.metadata.key)
        if name is not None:
            manifests.pods[number] = with_priority(pod, name, classes, complete=not unread)


def _print_outcome(
    result: SimulationResult,
    more: Sequence[TableRow],
    selectors: SelectorOptions,
    output: PrintOptions,
) -> None:
    """Print the table of pods, with further rows before them, and for people what the table cannot say."""
    new = [outcome for outcome in result.outcomes if outcome.is_from_manifests]
    rows = (
        *more,
        *(
            _outcome_row(outcome)
            for outcome in new
            if outcome.placeholder_for or selectors.matches_labels(outcome.pod.metadata.labels)
        ),
    )
    table = resource_table.select_rows(ResourceTable(header=OUTCOME_COLUMNS, wide=("CLAIMS",), rows=rows), selectors)
    resource_table.print_table(sum_up_rows(table) if output.format in SUMMED_FORMATS else table, output)
    if output.format in SUMMED_FORMATS and (lines := [*_preemption_lines(result)]):
        click.echo("\n".join(["", *wrap_lines(lines)]))
    waiting = _waiting(new)
    if output.format in SUMMED_FORMATS and waiting:
        _print_waiting(result, waiting)


def _waiting(new: Iterable[PodOutcome]) -> list[PodOutcome]:
    return [outcome for outcome in new if outcome.verdict is Verdict.PENDING and not outcome.placeholder_for]


def _print_counts(result: SimulationResult, migrations: Sequence[MigrationOutcome], *, has_rules: bool) -> None:
    """Print how many pods would be moved, scheduled and refused, or would wait."""
    new = [outcome for outcome in result.outcomes if outcome.is_from_manifests]
    pods = [outcome.verdict for outcome in new if not outcome.placeholder_for]
    others = [
        outcome.verdict for outcome in result.outcomes if not outcome.is_from_manifests and not outcome.placeholder_for
    ]
    more = "".join(
        f"; {count} pods that are already Pending {verb} be scheduled"
        for verb, verdict in (("would", Verdict.SCHEDULED), ("may", Verdict.UNDECIDED))
        if (count := others.count(verdict))
    )
    if migrations:
        moving = sum(1 for migration in migrations if migration.moves and not migration.unsimulated)
        may = sum(1 for migration in migrations if migration.moves and migration.unsimulated)
        moves = f"{moving} of {len(migrations)} pods would be moved"
        moves += f", {may} may be moved: not all of their fields are simulated" if may else ""
        print_to_stderr(moves if pods else moves + more)
    if (migrations or has_rules) and not pods:
        return
    refused, undecided = pods.count(Verdict.REFUSED), pods.count(Verdict.UNDECIDED)
    more = (f", {refused} would be refused" if refused else "") + more
    more = (f", {undecided} may be scheduled: not all of their fields are simulated" if undecided else "") + more
    print_to_stderr(
        f"{pods.count(Verdict.SCHEDULED)} of {len(pods)} pods would be scheduled, "
        f"{pods.count(Verdict.PENDING)} would stay Pending{more}"
    )


def _print_waiting(result: SimulationResult, waiting: Sequence[PodOutcome]) -> None:
    """Print why pods would stay Pending; pods that are alike are explained once."""
    alike: dict[object, list[PodOutcome]] = {}
    for outcome in waiting:
        name = outcome.pod.metadata.name
        alike.setdefault((outcome.pod.metadata.namespace, base_name(name), outcome.reason), []).append(outcome)
    cluster_state = ClusterState(result.final_snapshot)
    for group in list(alike.values())[:EXPLAINED_PODS_MAX]:
        facts = explaining.explain(cluster_state, group[0].pod.metadata.key)
        if facts is None:
            continue
        holders = {holder.key: holder for holder in facts.holders}
        lines = [f"  nodes     {describer.node_group_text(nodes, holders)}" for nodes in facts.groups]
        if result.final_snapshot.reservations:
            lines += reservation_describer.describe_pod_reservations(result.final_snapshot, facts.key)[0]
        if lines:
            more = singularize(f" and {len(group) - 1:,} equal pods") if len(group) > 1 else ""
            title = f"pod {'/'.join(facts.key)}{more} would stay Pending"
            click.echo("\n".join(["", title, *wrap_lines(lines)]))


def _preemption_lines(result: SimulationResult) -> Iterator[str]:
    """Yield each pod that would be preempted, with the preemptor and the reason."""
    for outcome in result.outcomes:
        for victim in outcome.victims:
            against = ", violating its PodDisruptionBudget" if victim.metadata.uid in outcome.pdb_violations else ""
            may = "may" if outcome.verdict is Verdict.UNDECIDED else "would"
            yield (
                f"{_pod_text(victim)} {may} be preempted{against}: {_pod_text(outcome.pod)} fits on no other node and "
                f"takes its place on node {victim.spec.node_name}"
            )


def _pod_text(pod: SchedulerPod) -> str:
    return f"pod {'/'.join(pod.metadata.key)} (priority {pod.spec.priority})"


def _victim_data(outcome: PodOutcome, victim: SchedulerPod) -> dict[str, Any]:
    meta = victim.metadata
    return {
        "namespace": meta.namespace,
        "name": meta.name,
        "node": victim.spec.node_name,
        "priority": victim.spec.priority,
        "violatesBudget": meta.uid in outcome.pdb_violations,
    }


def _migration_row(outcome: MigrationOutcome) -> TableRow:
    namespace, pod = outcome.pod
    why = migration_outcome_text(outcome)
    content: dict[str, Any] = {
        "kind": MIGRATION_KIND,
        "metadata": {"name": outcome.job},
        "pod": f"{namespace}/{pod}",
        "placed": outcome.moves and not outcome.unsimulated,
        "from": outcome.from_node,
        "node": outcome.to_node,
        "devices": list(outcome.devices),
        "why": why,
    }
    cells = (namespace, pod, outcome.to_node or "<none>", ",".join(outcome.devices) or "<none>", why)
    return TableRow(name=f"{KIND_NAME}/{outcome.job}", cells=cells, wide=("<none>",), content=lambda: content)


def _outcome_row(outcome: PodOutcome) -> TableRow:
    meta, is_undecided = outcome.pod.metadata, outcome.verdict is Verdict.UNDECIDED
    node = "" if is_undecided else outcome.node
    devices = [
        f"{result.driver}/{result.pool}/{result.device}"
        for claim in outcome.claims
        if claim.status.allocation is not None and not is_undecided
        for result in claim.status.allocation.devices.results or ()
    ]
    names = [claim.metadata.name for claim in outcome.claims]
    content: dict[str, Any] = {
        "kind": KIND if outcome.placeholder_for else "Pod",
        "metadata": {"namespace": meta.namespace, "name": meta.name},
        "placed": bool(node),
        "verdict": outcome.verdict.value,
        "node": node,
        "claims": names,
        "devices": devices,
        "why": outcome.reason,
        "reservation": outcome.used_reservation,
        "translated": dict(outcome.translated),
        "preempts": [_victim_data(outcome, victim) for victim in outcome.victims],
        "unsimulated": list(outcome.unsimulated),
    }
    why = outcome.reason
    if is_undecided:
        why = content["why"] = undecided_text(outcome.node, outcome.unsimulated)
        content["possibleNode"] = outcome.node
    elif node:
        ended = f"preempts {len(outcome.victims)} pods of lower priority" if outcome.victims else ""
        why = "; ".join(
            filter(None, (f"in reservation {outcome.used_reservation}" if outcome.used_reservation else "", ended))
        )
    where, name, resource = meta.namespace, meta.name, f"pod/{meta.name}"
    if outcome.placeholder_for:
        content["metadata"] = {"name": outcome.placeholder_for}
        where, name = "<none>", f"reservation/{outcome.placeholder_for}"
        resource = f"reservation.{GROUP}/{outcome.placeholder_for}"
    shown = UNDECIDED_NODE if is_undecided else node or "<none>"
    cells = (where, name, shown, ",".join(devices) or "<none>", why)
    return TableRow(name=resource, cells=cells, wide=(",".join(names) or "<none>",), content=lambda: content)
