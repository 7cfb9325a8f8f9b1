"""Implements ``kubectl dra explain`` and its alias ``why``."""

from collections.abc import Iterable
from typing import Any, Final

import click

from dra.cli.kubectl.connection import FailedError
from dra.cli.kubectl.diagnosis import describer, device_describer, reason_guidance
from dra.cli.kubectl.options import PrintOptions, print_options
from dra.cli.kubectl.printers import OutputFormat, wrap_lines
from dra.cli.kubectl.resource_args import KindParam, NameParam, did_you_mean, parse_resource_args
from dra.cli.kubectl.snapshots.cluster_reader import SnapshotScope
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource, source_options
from dra.engine.diagnosis import claims, pods
from dra.engine.diagnosis.claims import ClaimDiagnosis
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.devices import devices
from dra.engine.diagnosis.pods import PodDiagnosis
from dra.engine.diagnosis.snapshot import Snapshot
from dra.model.meta import Key

EXPLAINED_KINDS: Final = ("claim", "pod", "node", "device", "reservation", "reason")


@click.command()
@click.argument("kind", metavar="KIND", type=KindParam(EXPLAINED_KINDS))
@click.argument("name", required=False, type=NameParam())
@source_options
@print_options
def explain(*, kind: str, name: str | None, source: SnapshotSource, style: PrintOptions) -> None:
    """Say who holds a claim, pod, node or device, by which rule, and what would release it.

    KIND NAME or KIND/NAME. Reads only, on any cluster, whether or not our controller runs. Of a reason that an Event, a
    condition or a metric tells (reason WorkloadNotFound) it says what it means, and asks no cluster. Exit code: 0
    nothing is wrong, 1 something is and the text says what to do, 2 it could not be looked at.
    """
    kind, name = parse_resource_args(kind, name, among=EXPLAINED_KINDS)
    assert name  # noqa: S101 - for mypy: it was asked for
    if kind == "reason":
        _print_reason(name, style)
        return
    if kind == "reservation":
        _print_reservation(source, name, style)
        return
    snapshot = source.read(SnapshotScope.ALL | SnapshotScope.RESERVATIONS)
    scene = ClusterState(snapshot)
    if kind in {"node", "device"}:
        if not device_describer.print_devices(scene, kind, name, style):
            known = scene.nodes if kind == "node" else (each.item.device for each in devices(scene))
            raise FailedError(f"{kind} {name}: not found{did_you_mean(name, known)}")
        return
    facts = _diagnose(scene, kind, _resolve_key(source, scene, kind, name))
    more, content = _describe_pod_reservations(snapshot, facts)
    if style.output is OutputFormat.TABLE:
        lines = (
            describer.describe_claim(facts, snapshot)
            if isinstance(facts, ClaimDiagnosis)
            else describer.describe_pod(facts, snapshot)
        )
        click.echo("\n".join(wrap_lines([*lines, *more])))
    else:
        style.write({**describer.diagnosis_data(facts, snapshot), **content})
    if any(problem.grade != "info" for problem in facts.problems):
        raise SystemExit(1)


def _print_reservation(source: SnapshotSource, name: str, style: PrintOptions) -> None:
    from dra.cli.kubectl.reservations import reservation_describer  # noqa: PLC0415 - only who asks for it waits for it

    snapshot = source.read(SnapshotScope.RESERVATIONS | SnapshotScope.PODS | SnapshotScope.NODES)
    reservation_describer.print_reservation(snapshot, name, style, now=source.now(snapshot))


def _describe_pod_reservations(
    snapshot: Snapshot, facts: ClaimDiagnosis | PodDiagnosis
) -> tuple[list[str], dict[str, Any]]:
    """Return what reservations mean for a pod, as lines and as data; empty for claims and finished pods."""
    if not isinstance(facts, PodDiagnosis) or not snapshot.reservations or facts.stage == "finished":
        return [], {}
    from dra.cli.kubectl.reservations import reservation_describer  # noqa: PLC0415 - as above

    return reservation_describer.describe_pod_reservations(snapshot, facts.key)


def _print_reason(name: str, style: PrintOptions) -> None:
    """Print the guidance for a reason; raise FailedError for an unknown reason."""
    told = reason_guidance.find_guidance(name)
    if told is None:
        raise FailedError(
            f"reason {name}: there is none of that name{did_you_mean(name, reason_guidance.reason_names())}"
        )
    reason, guidance = told
    if style.output is OutputFormat.TABLE:
        lines = (
            f"reason {reason}: {reason_guidance.without_code_marks(guidance.meaning)}",
            f"  cause     {reason_guidance.without_code_marks(guidance.cause)}",
            f"  do        {reason_guidance.without_code_marks(guidance.remedy)}",
        )
        click.echo("\n".join(wrap_lines(lines)))
        return
    content = {"reason": reason, "meaning": guidance.meaning, "cause": guidance.cause, "remedy": guidance.remedy}
    style.write(content)


def _resolve_key(source: SnapshotSource, scene: ClusterState, kind: str, name: str) -> Key:
    """Return the key of the named object; a bundle has no context, but often only one object of a name."""
    if source.bundle is None or source.given:
        return (source.namespace, name)
    found = [key for key in _known_keys(scene, kind) if key[1] == name]
    if len(found) > 1:
        raise FailedError(
            f"{kind} {name}: there are several, in {', '.join(key[0] for key in found)}; which? -n NAMESPACE"
        )
    return found[0] if found else (source.namespace, name)


def _diagnose(scene: ClusterState, kind: str, key: Key) -> ClaimDiagnosis | PodDiagnosis:
    found = claims.explain(scene, key) if kind == "claim" else pods.explain(scene, key)
    if found is None:
        raise FailedError(
            f"{kind} {'/'.join(key)}: not found{_suggest_namespace_or_name(_known_keys(scene, kind), key)}"
        )
    return found


def _known_keys(scene: ClusterState, kind: str) -> Iterable[Key]:
    return scene.pods if kind == "pod" else (each.metadata.key for each in scene.snapshot.claims)


def _suggest_namespace_or_name(keys: Iterable[Key], wanted: Key) -> str:
    """Return the namespaces that have this name, or similar names: most often the namespace is missing."""
    known = list(keys)
    others = sorted({key[0] for key in known if key[1] == wanted[1]})[:3]
    if others:
        return f"; it is in {' and in '.join(others)}: -n {others[0]}"
    return did_you_mean(wanted[1], (key[1] for key in known if key[0] == wanted[0]))
