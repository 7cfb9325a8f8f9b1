"""``kubectl dra explain``, also called ``why``."""

from collections.abc import Iterable
from typing import Any, Final

import click

from dra.cli.kubectl.connection import FailedError
from dra.cli.kubectl.kinds import Kind, Name, meant, target
from dra.cli.kubectl.options import Style, style_options
from dra.cli.kubectl.output import Format, folded_lines
from dra.cli.kubectl.reading.live import Parts
from dra.cli.kubectl.reading.source import Source, source_options
from dra.cli.kubectl.why import meanings, places, words
from dra.engine.diagnosis import claims, pods
from dra.engine.diagnosis.claims import ClaimDiagnosis
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.devices import devices
from dra.engine.diagnosis.pods import PodDiagnosis
from dra.engine.diagnosis.snapshot import Snapshot
from dra.model.meta import Key

KINDS: Final = ("claim", "pod", "node", "device", "reservation", "reason")


@click.command()
@click.argument("kind", metavar="KIND", type=Kind(KINDS))
@click.argument("name", required=False, type=Name())
@source_options
@style_options
def explain(*, kind: str, name: str | None, source: Source, style: Style) -> None:
    """Say who holds a claim, pod, node or device, by which rule, and what would release it.

    KIND NAME or KIND/NAME. Reads only, on any cluster, whether or not our controller runs. Of a reason that an Event, a
    condition or a metric tells (reason WorkloadNotFound) it says what it means, and asks no cluster. Exit code: 0
    nothing is wrong, 1 something is and the text says what to do, 2 it could not be looked at.
    """
    kind, name = target(kind, name, among=KINDS)
    assert name  # noqa: S101 - for mypy: it was asked for
    if kind == "reason":
        _tell_meaning(name, style)
        return
    if kind == "reservation":
        _tell_reservation(source, name, style)
        return
    snapshot = source.read(Parts.ALL | Parts.RESERVATIONS)
    scene = ClusterState(snapshot)
    if kind in {"node", "device"}:
        if not places.tell(scene, kind, name, style):
            known = scene.nodes if kind == "node" else (each.item.device for each in devices(scene))
            raise FailedError(f"{kind} {name}: not found{meant(name, known)}")
        return
    facts = _facts(scene, kind, _key(source, scene, kind, name))
    more, content = _of_reservations(snapshot, facts)
    if style.output is Format.TABLE:
        lines = (
            words.claim_lines(facts, snapshot)
            if isinstance(facts, ClaimDiagnosis)
            else words.pod_lines(facts, snapshot)
        )
        click.echo("\n".join(folded_lines([*lines, *more])))
    else:
        style.write({**words.data(facts, snapshot), **content})
    if any(problem.grade != "info" for problem in facts.problems):
        raise SystemExit(1)


def _tell_reservation(source: Source, name: str, style: Style) -> None:
    from dra.cli.kubectl.reservations import telling  # noqa: PLC0415 - only who asks for it waits for it

    snapshot = source.read(Parts.RESERVATIONS | Parts.PODS | Parts.NODES)
    telling.tell(snapshot, name, style, now=source.now(snapshot))


def _of_reservations(snapshot: Snapshot, facts: ClaimDiagnosis | PodDiagnosis) -> tuple[list[str], dict[str, Any]]:
    """Return what reservations mean to a pod."""
    if not isinstance(facts, PodDiagnosis) or not snapshot.reservations or facts.stage == "finished":
        return [], {}
    from dra.cli.kubectl.reservations import telling  # noqa: PLC0415 - as above

    return telling.about_pod(snapshot, facts.key)


def _tell_meaning(name: str, style: Style) -> None:
    """Print what is said of a reason."""
    told = meanings.found(name)
    if told is None:
        raise FailedError(f"reason {name}: there is none of that name{meant(name, meanings.names())}")
    reason, guidance = told
    if style.output is Format.TABLE:
        lines = (
            f"reason {reason}: {meanings.plain(guidance.meaning)}",
            f"  cause     {meanings.plain(guidance.cause)}",
            f"  do        {meanings.plain(guidance.remedy)}",
        )
        click.echo("\n".join(folded_lines(lines)))
        return
    content = {"reason": reason, "meaning": guidance.meaning, "cause": guidance.cause, "remedy": guidance.remedy}
    style.write(content)


def _key(source: Source, scene: ClusterState, kind: str, name: str) -> Key:
    """Return the key that is meant; a bundle has no context, but often only one object of a name."""
    if source.bundle is None or source.given:
        return (source.namespace, name)
    found = [key for key in _keys(scene, kind) if key[1] == name]
    if len(found) > 1:
        raise FailedError(
            f"{kind} {name}: there are several, in {', '.join(key[0] for key in found)}; which? -n NAMESPACE"
        )
    return found[0] if found else (source.namespace, name)


def _facts(scene: ClusterState, kind: str, key: Key) -> ClaimDiagnosis | PodDiagnosis:
    found = claims.explain(scene, key) if kind == "claim" else pods.explain(scene, key)
    if found is None:
        raise FailedError(f"{kind} {'/'.join(key)}: not found{_elsewhere(_keys(scene, kind), key)}")
    return found


def _keys(scene: ClusterState, kind: str) -> Iterable[Key]:
    return scene.pods if kind == "pod" else (each.metadata.key for each in scene.snapshot.claims)


def _elsewhere(keys: Iterable[Key], wanted: Key) -> str:
    """Return where that name is, or what is almost that name: most often the namespace is missing."""
    known = list(keys)
    others = sorted({key[0] for key in known if key[1] == wanted[1]})[:3]
    if others:
        return f"; it is in {' and in '.join(others)}: -n {others[0]}"
    return meant(wanted[1], (key[1] for key in known if key[0] == wanted[0]))
