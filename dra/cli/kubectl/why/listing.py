"""``kubectl dra get``, ``tree`` and ``usage``: claims and devices with who uses them, in tables."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import click
import msgspec

from dra.cli.kubectl import listings
from dra.cli.kubectl.connection import FailedError
from dra.cli.kubectl.kinds import Kind, Name, target
from dra.cli.kubectl.listings import Listing, Row, nothing
from dra.cli.kubectl.options import Style, rows_options, watch_option
from dra.cli.kubectl.output import Format, say
from dra.cli.kubectl.reading.live import Parts
from dra.cli.kubectl.reading.source import Source, source_options
from dra.cli.kubectl.selecting import ALL, Chosen, choice_options, selector_option
from dra.cli.kubectl.why import words
from dra.engine.claims.view import EntryKind
from dra.engine.diagnosis import claims
from dra.engine.diagnosis.claims import ClaimDiagnosis
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.devices import DeviceUsage, devices
from dra.engine.diagnosis.snapshot import Snapshot
from dra.model.meta import Key

Rows = list[tuple[str | int, ...]]

CLAIMS: Final = ("NAME", "DEVICES", "FOR", "PODS", "LISTED", "NODE", "STATE")
CLAIMS_WIDE: Final = ("SINCE", "RELEASED-WHEN")
KINDS: Final = ("claim", "device", "reservation")
DEVICES: Final = ("DEVICE", "NODE", "HELD-BY", "PODS", "STATE")
DEVICES_WIDE: Final = ("TAINTS",)

PARTS: Final = Parts.PODS | Parts.WORKLOADS | Parts.NODES | Parts.DEVICES


@click.command()
@click.argument("kind", metavar="KIND", type=Kind(("claims", "devices", "reservations")))
@click.argument("name", required=False, type=Name())
@source_options
@choice_options
@rows_options
@watch_option
def get(*, kind: str, name: str | None, source: Source, choice: Chosen, style: Style, watch: bool) -> None:
    """List claims, devices or Reservations with who uses them now.

    KIND, KIND NAME or KIND/NAME. PODS counts the pods that use a claim, LISTED those that its list names.
    """
    kind, name = target(kind, name, among=KINDS, named=False)
    if kind == "reservation":
        _reservations(source, name, choice=choice, style=style, watch=watch)
        return
    if choice.labels and kind == "device":
        raise click.UsageError("devices have no labels; --field-selector node=NODE chooses by node")
    _refuse_labels_of_bundles(source, choice)
    listed = partial(_listed, kind=kind, name=name, source=source, choice=choice)
    if watch:
        from dra.cli.kubectl.reading import watching  # noqa: PLC0415 - only who watches needs it

        watching.watch(source, PARTS, listed=listed, style=style)
        return
    listing = listed(source.read(PARTS))
    if name is not None and not listing.rows:
        raise FailedError(f"{kind} {name}: not found. See: kubectl dra get {kind}s -A")
    if not listing.rows and not style.as_data:
        say(nothing(None if kind == "device" else _namespace(source)))
        return
    listings.write(listing, style)


def _reservations(source: Source, name: str | None, *, choice: Chosen, style: Style, watch: bool) -> None:
    from dra.cli.kubectl.reservations.listing import tell  # noqa: PLC0415 - only who asks for them needs it

    tell(source, name, choice=choice, style=style, watch=watch)


def _listed(snapshot: Snapshot, *, kind: str, name: str | None, source: Source, choice: Chosen) -> Listing:
    """Return the list that is asked for."""
    scene = ClusterState(snapshot)
    if kind == "claim":
        header = ("NAMESPACE", *CLAIMS) if source.everywhere else CLAIMS
        rows = tuple(
            _claim_row(each, snapshot, everywhere=source.everywhere) for each in _claims(scene, source, name, choice)
        )
        found = Listing(header=header, wide=CLAIMS_WIDE, rows=rows, single=name is not None)
    else:
        rows = tuple(_device_row(each) for each in devices(scene) if name in {None, each.item.device, str(each.item)})
        found = Listing(header=DEVICES, wide=DEVICES_WIDE, rows=rows, single=name is not None)
    return listings.chosen(found, choice)


def _refuse_labels_of_bundles(source: Source, choice: Chosen) -> None:
    if choice.labels and source.bundle is not None:
        raise click.UsageError("a bundle has no labels of claims; --field-selector metadata.name=NAME chooses by name")


def _namespace(source: Source) -> str | None:
    """Return the namespace that is meant; None: all of them."""
    return None if source.everywhere or (source.bundle and not source.given) else source.namespace


def _claims(scene: ClusterState, source: Source, name: str | None, choice: Chosen = ALL) -> Iterator[ClaimDiagnosis]:
    namespace = _namespace(source)
    for claim in sorted(scene.snapshot.claims, key=_key):
        key = claim.metadata.key
        if namespace in {None, key[0]} and name in {None, key[1]} and choice.has(claim.metadata.labels):
            facts = claims.explain(scene, key)
            if facts is not None:
                yield facts


def _key(claim: Any) -> Key:  # noqa: ANN401 - a claim
    found: Key = claim.metadata.key
    return found


def _claim_row(facts: ClaimDiagnosis, snapshot: Snapshot, *, everywhere: bool) -> Row:
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
    return Row(
        name=words.resource_name("ResourceClaim", facts.key[1]),
        cells=(facts.key[0], *cells) if everywhere else cells,
        wide=(facts.since or "<none>", words.until(facts) if facts.holds else "<none>"),
        content=lambda: {**words.data(facts, snapshot), "state": _state(facts)},
    )


def _state(facts: ClaimDiagnosis) -> str:
    if facts.problems and facts.problems[0].grade != "info":
        return facts.problems[0].trouble.value
    if facts.deleting:
        return "Deleting"
    if not facts.allocated:
        return "Pending"
    return "InUse" if facts.users.consuming else "Reserved"


def _device_row(found: DeviceUsage) -> Row:
    free, nobody = ("Free", "<none>") if found.known else ("Unknown", "<unknown>")
    state = "Gone" if not found.offered else ("Tainted" if found.taints else ("Held" if found.holders else free))
    holders = ",".join("/".join(key) for key in found.holders)
    return Row(
        name=f"device/{found.item}",
        cells=(
            str(found.item),
            found.node or "<any>",
            holders or nobody,
            str(found.consumers),
            state,
        ),
        wide=(",".join(found.taints) or "<none>",),
        content=lambda: {"kind": "Device", "name": str(found.item), **msgspec.to_builtins(found), "state": state},
    )


@click.command()
@source_options
@selector_option
def tree(*, source: Source, labels: Any) -> None:  # noqa: ANN401 - requirements
    """Show workloads, the claims reserved for them, their devices and the pods that use these."""
    choice = Chosen(labels=labels)
    _refuse_labels_of_bundles(source, choice)
    scene = ClusterState(source.read(PARTS))
    owners: defaultdict[tuple[str, str], list[ClaimDiagnosis]] = defaultdict(list)
    for facts in _claims(scene, source, None, choice):
        owners[facts.key[0], facts.workload].append(facts)
    if not owners:
        say(nothing(_namespace(source)))
        return
    click.echo("\n".join(_drawn(owners)))  # at once: each call flushes


def _drawn(owners: Mapping[tuple[str, str], Sequence[ClaimDiagnosis]]) -> Iterator[str]:
    for (namespace, workload), group in sorted(owners.items()):
        yield f"{namespace}: {workload or '(claims of nobody in particular)'}"
        for number, facts in enumerate(group, 1):
            last = number == len(group)
            yield f"{'└─' if last else '├─'} claim {facts.key[1]}: {words.state(facts)}"
            bar = "   " if last else "│  "
            lines = [f"device {each}" for each in facts.devices[:NAMED]]
            lines += [f"… {len(facts.devices) - NAMED} more devices"] if len(facts.devices) > NAMED else []
            users = facts.users.consuming + facts.users.waiting + facts.users.gated
            lines += [f"pod {name}" for name in (*facts.consumers, *facts.waiters)[:NAMED]]
            lines += [f"… {users - NAMED:,} more pods"] if users > NAMED else []
            for index, line in enumerate(lines, 1):
                yield f"{bar}{'└─' if index == len(lines) else '├─'} {line}"


NAMED: Final = 5
"""Devices and pods of a claim that `tree` names."""

USAGE: Final = ("HELD", "USED", "PODS", "CLAIMS")


@click.command()
@source_options
@choice_options
@click.option(
    "--by",
    type=click.Choice(["namespace", "workload", "node", "class"]),
    default="namespace",
    show_default=True,
    help="What a line stands for.",
)
@rows_options
def usage(*, source: Source, choice: Chosen, by: str, style: Style) -> None:
    """Sum up who has how many devices, and how many of them pods use now.

    HELD are devices that claims have, USED those of claims that pods use, DEVICES (by node) all that are offered. All
    namespaces, unless -n names one.
    """
    if choice.labels and by == "node":
        raise click.UsageError("what is summed up by node has no labels")
    _refuse_labels_of_bundles(source, choice)
    scene = ClusterState(source.read(PARTS))
    namespace = None if source.everywhere else source.given
    rows = _by_node(scene) if by == "node" else _by_claim(scene, _NAMES[by], namespace, choice)
    header = (by.upper(), *(("DEVICES",) if by == "node" else ()), *USAGE)
    listing = Listing(header=header, rows=tuple(_usage_row(header, each) for each in rows))
    if not rows and style.output is Format.TABLE:
        say(nothing(namespace))
        return
    listings.write(listings.chosen(listing, choice), style)


def _usage_row(header: Sequence[str], values: tuple[str | int, ...]) -> Row:
    content = dict(zip((each.lower() for each in header), values, strict=True))
    return Row(name=str(values[0]), cells=tuple(map(str, values)), content=lambda: content)


def _by_claim(
    scene: ClusterState,
    names: Callable[[ClusterState, ClaimDiagnosis], Iterable[str]],
    namespace: str | None,
    choice: Chosen,
) -> Rows:
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for claim in scene.snapshot.claims:
        if namespace not in {None, claim.metadata.namespace} or not choice.has(claim.metadata.labels):
            continue
        facts = claims.explain(scene, claim.metadata.key)
        if facts is None or not facts.allocated:
            continue
        used = len(facts.devices) * bool(facts.users.consuming)
        for name in names(scene, facts):
            _add(sums[name], (len(facts.devices), used, facts.users.consuming, 1))
    return [(name, *sums[name]) for name in sorted(sums)]


def _by_node(scene: ClusterState) -> Rows:
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0, 0])
    seen: dict[str, set[Key]] = defaultdict(set)
    for each in devices(scene):
        node = each.node or "<any>"
        new = {key for key in each.holders if key not in seen[node]}
        seen[node] |= new
        pods = each.consumers if new else 0
        _add(sums[node], (1, bool(each.holders), bool(each.consumers), pods, len(new)))
    return [(name, *sums[name]) for name in sorted(sums)]


def _add(total: list[int], more: Sequence[int]) -> None:
    for index, amount in enumerate(more):
        total[index] += amount


def _classes(scene: ClusterState, facts: ClaimDiagnosis) -> Iterable[str]:
    claim = scene.world.claim(facts.key)
    requests = (claim.spec.devices or {}).get("requests") or () if claim is not None else ()
    asks = [ask for each in requests for ask in (each.get("exactly"), *(each.get("firstAvailable") or ())) if ask]
    return dict.fromkeys(str(ask.get("deviceClassName", "")) for ask in asks)


_NAMES: Final[Mapping[str, Callable[[ClusterState, ClaimDiagnosis], Iterable[str]]]] = {
    "namespace": lambda _scene, facts: (facts.key[0],),
    "workload": lambda _scene, facts: (
        f"{facts.key[0]}/{facts.workload}" if facts.workload else f"{facts.key[0]}/<none>",
    ),
    "class": _classes,
}
