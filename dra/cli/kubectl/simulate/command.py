"""``kubectl dra simulate``."""

from collections.abc import Iterator, Sequence
from typing import Final

import click
import msgspec

from dra.cli.kubectl import listings
from dra.cli.kubectl.connection import Connection, FailedError, run
from dra.cli.kubectl.listings import Listing, Row
from dra.cli.kubectl.manifests import MalformedManifestError, documents
from dra.cli.kubectl.options import Style, manifests_option, rows_options
from dra.cli.kubectl.output import Format, folded_lines, say
from dra.cli.kubectl.reading.live import Parts
from dra.cli.kubectl.reading.source import Source, source_options
from dra.cli.kubectl.selecting import Chosen, choice_options
from dra.cli.kubectl.simulate.playing import Fate, Outcome, play
from dra.cli.kubectl.simulate.whatif import Change, UnknownError, changed
from dra.cli.kubectl.simulate.wishes import Wishes, read
from dra.cli.kubectl.why import words
from dra.engine.explain import pods as explaining
from dra.engine.explain.scene import Scene
from dra.engine.explain.snapshot import Snapshot
from dra.kube.errors import NotFound
from dra.kube.resources import TEMPLATES
from dra.model.meta import Key, Struct
from dra.model.placement import PlacedPod
from dra.model.templates import ResourceClaimTemplate

HEADER: Final = ("NAMESPACE", "POD", "NODE", "DEVICES", "WHY")
EXPLAINED: Final = 3
"""Pods that wait and are explained below the table; more of them wait for the same, as a rule."""

_BUILT_IN: Final = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}


class _PriorityClass(Struct, frozen=True):
    value: int = 0


@click.command()
@manifests_option
@source_options
@click.option(
    "--add-nodes", "added", multiple=True, metavar="NODE=COUNT", help="So many more nodes like that one, with devices."
)
@click.option("--cordon", "cordoned", multiple=True, metavar="NODE", help="As if that node were cordoned.")
@click.option(
    "--drop-reservation",
    "dropped",
    multiple=True,
    metavar="[NAMESPACE/]CLAIM|WORKLOAD",
    help="As if that claim, or those reserved for jobs.batch/train, were released, and the pods that use them gone.",
)
@choice_options
@rows_options
def simulate(  # noqa: PLR0913 - one for each option
    *,
    paths: tuple[str, ...],
    source: Source,
    added: tuple[str, ...],
    cordoned: tuple[str, ...],
    dropped: tuple[str, ...],
    choice: Chosen,
    style: Style,
) -> None:
    """Say where the pods of manifests would be placed, with which devices, and what would wait and why.

    Reads only, and changes nothing: a scheduler is played on the cluster as it is now. Pods that wait already have
    their turn as well. Exit code: 0 all would be placed, 1 something would wait, 2 it could not be looked at.
    """
    try:
        namespace = source.namespace
        wishes = read(documents(paths), namespace=namespace)
        snapshot = changed(source.read(Parts.ALL), _change(added, cordoned, dropped, namespace))
    except (MalformedManifestError, UnknownError) as error:
        raise FailedError(str(error)) from error
    there = {pod.metadata.key for pod in snapshot.pods}
    wishes.ignored += [f"pod {'/'.join(key)} is there already" for key in _keys(wishes) if key in there]
    _complete(wishes, snapshot, source)
    outcome = play(snapshot, wishes)
    _tell(outcome, choice, style)
    for each in wishes.ignored:
        say(f"not simulated: {each}")
    for gap in snapshot.gaps:
        say(f"not looked at: {gap.resource}: {gap.why}")
    if any(fate.new and not fate.node for fate in outcome.fates):
        raise SystemExit(1)


def _keys(wishes: Wishes) -> list[Key]:
    return [pod.metadata.key for pod in wishes.pods]


def _change(added: Sequence[str], cordoned: tuple[str, ...], dropped: tuple[str, ...], namespace: str) -> Change:
    more = []
    for each in added:
        node, _, count = each.rpartition("=")
        if not node or not count.isdecimal():
            raise click.UsageError(f"--add-nodes {each}: write it as NODE=COUNT, so many more nodes like NODE")
        more.append((node, int(count)))
    return Change(cordoned=cordoned, added=tuple(more), dropped=dropped, namespace=namespace)


def _complete(wishes: Wishes, snapshot: Snapshot, source: Source) -> None:
    """Look up what the pods name and no manifest brings: templates, priorities."""
    known = {each.metadata.key for each in wishes.templates}
    templates = {key for pod in wishes.pods for key in _templates(pod)} - known
    wanted = sorted(templates & set(snapshot.templates))
    if source.bundle is None and (wanted or wishes.priorities):
        run(source.place, lambda connection: _look_up(connection, wishes, wanted))
        return
    for key in wanted:
        say(f"not known: template {'/'.join(key)}: a bundle has no templates; name its manifest with -f")
    for key, name in wishes.priorities.items():
        _prioritize(wishes, key, _BUILT_IN.get(name, 0))


def _templates(pod: PlacedPod) -> Iterator[Key]:
    for entry in pod.spec.resource_claims or ():
        if entry.resource_claim_template_name:
            yield (pod.metadata.namespace, entry.resource_claim_template_name)


async def _look_up(connection: Connection, wishes: Wishes, templates: Sequence[Key]) -> None:
    for key in templates:
        wishes.templates.append(await connection.client.get(TEMPLATES, key, ResourceClaimTemplate))
    values: dict[str, int] = {}
    for key, name in wishes.priorities.items():
        if name not in values:
            try:
                path = f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}"
                values[name] = (await connection.client.read(path, _PriorityClass)).value
            except NotFound:
                raise FailedError(f"pod {'/'.join(key)}: there is no priority class {name}") from None
        _prioritize(wishes, key, values[name])


def _prioritize(wishes: Wishes, key: Key, value: int) -> None:
    wishes.pods[:] = [
        msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=value))
        if pod.metadata.key == key
        else pod
        for pod in wishes.pods
    ]


def _tell(outcome: Outcome, choice: Chosen, style: Style) -> None:
    new = [fate for fate in outcome.fates if fate.new]
    rows = tuple(_row(fate) for fate in new if choice.has(fate.pod.metadata.labels))
    listings.write(listings.chosen(Listing(header=HEADER, wide=("CLAIMS",), rows=rows), choice), style)
    waiting = [fate for fate in new if not fate.node]
    others = sum(1 for fate in outcome.fates if fate.node and not fate.new)
    if style.output in {Format.TABLE, Format.WIDE} and waiting:
        scene = Scene(outcome.after)
        for fate in waiting[:EXPLAINED]:
            facts = explaining.explain(scene, fate.pod.metadata.key)
            if facts is not None and facts.groups:
                holders = {each.key: each for each in facts.holders}
                lines = [f"  nodes     {words.group_line(group, holders)}" for group in facts.groups]
                click.echo("\n".join(["", f"pod {'/'.join(fate.pod.metadata.key)} would wait", *folded_lines(lines)]))
    more = f"; {others} pods that wait already would be placed, too" if others else ""
    say(f"{len(new) - len(waiting)} of {len(new)} pods would be placed, {len(waiting)} would wait{more}")


def _row(fate: Fate) -> Row:
    meta = fate.pod.metadata
    devices = [
        f"{each.driver}/{each.pool}/{each.device}"
        for claim in fate.claims
        if claim.status.allocation is not None
        for each in claim.status.allocation.devices.results or ()
    ]
    names = [claim.metadata.name for claim in fate.claims]
    content = {
        "kind": "Pod",
        "metadata": {"namespace": meta.namespace, "name": meta.name},
        "placed": bool(fate.node),
        "node": fate.node,
        "claims": names,
        "devices": devices,
        "why": fate.why,
    }
    cells = (meta.namespace, meta.name, fate.node or "<none>", ",".join(devices) or "<none>", fate.why)
    return Row(name=f"pod/{meta.name}", cells=cells, wide=(",".join(names) or "<none>",), content=lambda: content)
