"""``kubectl dra get``, ``tree`` and ``usage``: claims and devices with who uses them, in tables."""

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import click
import msgspec

from dra.cli.kubectl.connection import FailedError
from dra.cli.kubectl.options import Style, style_options
from dra.cli.kubectl.output import Format, structured, table
from dra.cli.kubectl.reading.live import Parts
from dra.cli.kubectl.reading.source import Source, source_options
from dra.cli.kubectl.why import words
from dra.engine.claims.view import EntryKind
from dra.engine.explain import claims
from dra.engine.explain.claims import ClaimFacts
from dra.engine.explain.devices import DeviceFacts, devices
from dra.engine.explain.scene import Scene
from dra.model.meta import Key

Rows = list[tuple[str, ...]]

CLAIMS: Final = ("NAME", "DEVICES", "FOR", "PODS", "LISTED", "NODE", "STATE")
DEVICES: Final = ("DEVICE", "NODE", "HELD-BY", "PODS", "STATE")


@click.command()
@click.argument("kind", metavar="KIND", type=click.Choice(["claims", "claim", "devices", "device"]))
@click.argument("name", required=False)
@source_options
@style_options
def get(*, kind: str, name: str | None, source: Source, style: Style) -> None:
    """List claims or devices with who uses them now.

    KIND is claims or devices. PODS counts the pods that use a claim, LISTED those that its list names.
    """
    parts = Parts.PODS | Parts.WORKLOADS | Parts.NODES | Parts.DEVICES
    scene = Scene(source.read(parts))
    if kind.startswith("claim"):
        found = list(_claims(scene, source, name))
        rows = [_claim_row(each, everywhere=source.everywhere) for each in found]
        header: Sequence[str] = ("NAMESPACE", *CLAIMS) if source.everywhere else CLAIMS
        content: list[Any] = [words.data(each, scene.snapshot) for each in found] if _structured(style) else []
    else:
        known = [each for each in devices(scene) if name in {None, each.item.device, str(each.item)}]
        rows, header = [_device_row(each) for each in known], DEVICES
        content = [{**msgspec.to_builtins(each), "name": str(each.item)} for each in known]
    if name is not None and not rows:
        raise FailedError(f"{kind} {name}: not found")
    click.echo(
        structured({"items": content}, style.output)
        if _structured(style)
        else table(header, rows, headers=style.headers)
    )


def _structured(style: Style) -> bool:
    return style.output is not Format.TABLE


def _claims(scene: Scene, source: Source, name: str | None) -> Iterator[ClaimFacts]:
    namespace = None if source.everywhere or (source.bundle and not source.given) else source.namespace
    for claim in sorted(scene.snapshot.claims, key=_key):
        key = claim.metadata.key
        if namespace in {None, key[0]} and name in {None, key[1]}:
            facts = claims.explain(scene, key)
            if facts is not None:
                yield facts


def _key(claim: Any) -> Key:  # noqa: ANN401 - a claim
    found: Key = claim.metadata.key
    return found


def _claim_row(facts: ClaimFacts, *, everywhere: bool) -> tuple[str, ...]:
    listed = sum(each.count for each in facts.held if each.kind in {EntryKind.LIVE, EntryKind.UNKNOWN})
    cells = (
        facts.key[1],
        str(len(facts.devices)),
        facts.workload or "<none>",
        f"{facts.users.consuming:,}",
        str(listed),
        facts.nodes[0] if len(facts.nodes) == 1 else (f"{len(facts.nodes)} nodes" if facts.nodes else "<none>"),
        _state(facts),
    )
    return (facts.key[0], *cells) if everywhere else cells


def _state(facts: ClaimFacts) -> str:
    if facts.problems and facts.problems[0].grade != "info":
        return facts.problems[0].trouble.value
    if facts.deleting:
        return "Deleting"
    if not facts.allocated:
        return "Pending"
    return "InUse" if facts.users.consuming else "Reserved"


def _device_row(found: DeviceFacts) -> tuple[str, ...]:
    state = "Gone" if not found.offered else ("Tainted" if found.taints else ("Held" if found.holders else "Free"))
    holders = ",".join("/".join(key) for key in found.holders)
    return (str(found.item), found.node or "<any>", holders or "<none>", str(found.consumers), state)


@click.command()
@source_options
def tree(*, source: Source) -> None:
    """Show workloads, the claims reserved for them, their devices and the pods that use these."""
    scene = Scene(source.read(Parts.PODS | Parts.WORKLOADS | Parts.NODES | Parts.DEVICES))
    owners: defaultdict[tuple[str, str], list[ClaimFacts]] = defaultdict(list)
    for facts in _claims(scene, source, None):
        owners[facts.key[0], facts.workload].append(facts)
    for (namespace, workload), group in sorted(owners.items()):
        click.echo(f"{namespace}: {workload or '(claims of nobody in particular)'}")
        for number, facts in enumerate(group, 1):
            last = number == len(group)
            click.echo(f"{'└─' if last else '├─'} claim {facts.key[1]}: {words.state(facts)}")
            bar = "   " if last else "│  "
            lines = [f"device {each}" for each in facts.devices[:NAMED]]
            lines += [f"… {len(facts.devices) - NAMED} more devices"] if len(facts.devices) > NAMED else []
            users = facts.users.consuming + facts.users.waiting + facts.users.gated
            lines += [f"pod {name}" for name in (*facts.consumers, *facts.waiters)[:NAMED]]
            lines += [f"… {users - NAMED:,} more pods"] if users > NAMED else []
            for index, line in enumerate(lines, 1):
                click.echo(f"{bar}{'└─' if index == len(lines) else '├─'} {line}")


NAMED: Final = 5
"""Devices and pods of a claim that `tree` names."""

USAGE: Final = ("HELD", "USED", "PODS", "CLAIMS")


@click.command()
@source_options
@click.option(
    "--by",
    type=click.Choice(["namespace", "workload", "node", "class"]),
    default="namespace",
    show_default=True,
    help="What a line stands for.",
)
@click.option("-o", "--output", type=click.Choice(["table", "csv", "json", "yaml"]), default="table", show_default=True)
@click.option("--no-headers", is_flag=True, help="Without the first line.")
def usage(*, source: Source, by: str, output: str, no_headers: bool) -> None:
    """Sum up who has how many devices, and how many of them pods use now.

    HELD are devices that claims have, USED those of claims that pods use, DEVICES (by node) all that are offered.
    """
    scene = Scene(source.read(Parts.PODS | Parts.WORKLOADS | Parts.NODES | Parts.DEVICES))
    rows = _by_node(scene) if by == "node" else _by_claim(scene, _NAMES[by])
    header = (by.upper(), *(("DEVICES",) if by == "node" else ()), *USAGE)
    if output == "csv":
        text = io.StringIO()
        lines = rows if no_headers else [tuple(each.lower() for each in header), *rows]
        csv.writer(text, lineterminator="\n").writerows(lines)
        click.echo(text.getvalue(), nl=False)
    elif output == "table":
        click.echo(table(header, rows, headers=not no_headers))
    else:
        content = [dict(zip((each.lower() for each in header), row, strict=True)) for row in rows]
        click.echo(structured({"items": content}, Format(output)))


def _by_claim(scene: Scene, names: Callable[[Scene, ClaimFacts], Iterable[str]]) -> Rows:
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for claim in scene.snapshot.claims:
        facts = claims.explain(scene, claim.metadata.key)
        if facts is None or not facts.allocated:
            continue
        for name in names(scene, facts):
            _add(
                sums[name],
                (len(facts.devices), len(facts.devices) * bool(facts.users.consuming), facts.users.consuming, 1),
            )
    return [(name, *map(str, sums[name])) for name in sorted(sums)]


def _by_node(scene: Scene) -> Rows:
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0, 0])
    seen: dict[str, set[Key]] = defaultdict(set)
    for each in devices(scene):
        node = each.node or "<any>"
        new = {key for key in each.holders if key not in seen[node]}
        seen[node] |= new
        pods = each.consumers if new else 0
        _add(sums[node], (1, bool(each.holders), bool(each.consumers), pods, len(new)))
    return [(name, *map(str, sums[name])) for name in sorted(sums)]


def _add(total: list[int], more: Sequence[int]) -> None:
    for index, amount in enumerate(more):
        total[index] += amount


def _classes(scene: Scene, facts: ClaimFacts) -> Iterable[str]:
    claim = scene.world.claim(facts.key)
    requests = (claim.spec.devices or {}).get("requests") or () if claim is not None else ()
    asks = [ask for each in requests for ask in (each.get("exactly"), *(each.get("firstAvailable") or ())) if ask]
    return dict.fromkeys(str(ask.get("deviceClassName", "")) for ask in asks)


_NAMES: Final[dict[str, Callable[[Scene, ClaimFacts], Iterable[str]]]] = {
    "namespace": lambda _scene, facts: (facts.key[0],),
    "workload": lambda _scene, facts: (
        f"{facts.key[0]}/{facts.workload}" if facts.workload else f"{facts.key[0]}/<none>",
    ),
    "class": _classes,
}
