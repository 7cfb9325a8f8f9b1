"""Implements ``kubectl dra get``, ``tree`` and ``usage``: tables of claims and devices with their users."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import click
import msgspec

from dra.cli.kubectl import resource_table
from dra.cli.kubectl.connection import FailedError
from dra.cli.kubectl.diagnosis import describer
from dra.cli.kubectl.print_flags import PrintOptions, list_print_options, watch_option
from dra.cli.kubectl.printers import OutputFormat, print_to_stderr
from dra.cli.kubectl.resource_args import KindParam, NameParam, parse_resource_args
from dra.cli.kubectl.resource_table import (
    SELECT_ALL,
    ResourceTable,
    SelectorOptions,
    TableRow,
    label_selector_option,
    no_resources_message,
    selector_options,
)
from dra.cli.kubectl.snapshots.cluster_reader import SnapshotScope
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource, source_options
from dra.engine.claims.view import EntryKind
from dra.engine.diagnosis import claims
from dra.engine.diagnosis.capacities import capacity_usage
from dra.engine.diagnosis.claims import ClaimDiagnosis
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.devices import DeviceUsage, devices
from dra.engine.diagnosis.snapshot import Snapshot
from dra.model.meta import Key, Uid

UsageRows = list[tuple[str | int, ...]]

CLAIM_COLUMNS: Final = ("NAME", "DEVICES", "FOR", "PODS", "LISTED", "NODE", "STATE")
CLAIM_WIDE_COLUMNS: Final = ("SINCE", "RELEASED-WHEN")
LISTED_KINDS: Final = ("claim", "device", "reservation")
DEVICE_COLUMNS: Final = ("DEVICE", "NODE", "HELD-BY", "PODS", "STATE")
DEVICE_WIDE_COLUMNS: Final = ("TAINTS",)

LIST_SCOPE: Final = SnapshotScope.PODS | SnapshotScope.WORKLOADS | SnapshotScope.NODES | SnapshotScope.DEVICES


@click.command()
@click.argument("kind", metavar="KIND", type=KindParam(("claims", "devices", "reservations")))
@click.argument("name", required=False, type=NameParam())
@source_options
@selector_options
@list_print_options
@watch_option
def get(
    *,
    kind: str,
    name: str | None,
    source: SnapshotSource,
    selectors: SelectorOptions,
    output: PrintOptions,
    watch: bool,
) -> None:
    """Display claims, devices or Reservations with their current users.

    Name the objects as KIND, KIND NAME or KIND/NAME. PODS counts the pods that use a claim, LISTED the pods in its
    status.reservedFor.
    """
    kind, name = parse_resource_args(kind, name, among=LISTED_KINDS, named=False)
    if kind == "reservation":
        _get_reservations(source, name, selectors=selectors, output=output, watch=watch)
        return
    if selectors.labels and kind == "device":
        raise click.UsageError("devices have no labels; select by node with --field-selector node=NODE")
    _refuse_label_selector_on_bundle(source, selectors)
    to_table = partial(_build_table, kind=kind, name=name, source=source, selectors=selectors)
    if watch:
        from dra.cli.kubectl.snapshots import watch_printer  # noqa: PLC0415 - only who watches needs it

        watch_printer.watch_snapshot(source, LIST_SCOPE, to_table=to_table, output=output)
        return
    table = to_table(source.read(LIST_SCOPE))
    if name is not None and not table.rows:
        raise FailedError(f"{kind} {name}: not found. See: kubectl dra get {kind}s -A")
    if not table.rows and not output.is_structured:
        print_to_stderr(no_resources_message(None if kind == "device" else _selected_namespace(source)))
        return
    resource_table.print_table(table, output)


def _get_reservations(
    source: SnapshotSource, name: str | None, *, selectors: SelectorOptions, output: PrintOptions, watch: bool
) -> None:
    from dra.cli.kubectl.reservations.reservation_list import print_reservations  # noqa: PLC0415 - only who asks for them needs it

    print_reservations(source, name, selectors=selectors, output=output, watch=watch)


def _build_table(
    snapshot: Snapshot, *, kind: str, name: str | None, source: SnapshotSource, selectors: SelectorOptions
) -> ResourceTable:
    """Return the table of claims or devices for the command line."""
    cluster_state = ClusterState(snapshot)
    if kind == "claim":
        header = ("NAMESPACE", *CLAIM_COLUMNS) if source.all_namespaces else CLAIM_COLUMNS
        rows = tuple(
            _claim_row(each, snapshot, all_namespaces=source.all_namespaces)
            for each in _diagnose_claims(cluster_state, source, name, selectors)
        )
        found = ResourceTable(header=header, wide=CLAIM_WIDE_COLUMNS, rows=rows, single=name is not None)
    else:
        rows = tuple(
            _device_row(each) for each in devices(cluster_state) if name in {None, each.item.device, str(each.item)}
        )
        found = ResourceTable(header=DEVICE_COLUMNS, wide=DEVICE_WIDE_COLUMNS, rows=rows, single=name is not None)
    return resource_table.select_rows(found, selectors)


def _refuse_label_selector_on_bundle(source: SnapshotSource, selectors: SelectorOptions) -> None:
    if selectors.labels and source.bundle_path is not None:
        raise click.UsageError(
            "a bundle has no labels of claims; select by name with --field-selector metadata.name=NAME"
        )


def _selected_namespace(source: SnapshotSource) -> str | None:
    """Return the selected namespace; None for all namespaces."""
    return (
        None if source.all_namespaces or (source.bundle_path and not source.requested_namespace) else source.namespace
    )


def _diagnose_claims(
    cluster_state: ClusterState, source: SnapshotSource, name: str | None, selectors: SelectorOptions = SELECT_ALL
) -> Iterator[ClaimDiagnosis]:
    namespace = _selected_namespace(source)
    for claim in sorted(cluster_state.snapshot.claims, key=_claim_key):
        key = claim.metadata.key
        if namespace in {None, key[0]} and name in {None, key[1]} and selectors.matches_labels(claim.metadata.labels):
            facts = claims.explain(cluster_state, key)
            if facts is not None:
                yield facts


def _claim_key(claim: Any) -> Key:  # noqa: ANN401 - a claim
    found: Key = claim.metadata.key
    return found


def _claim_row(facts: ClaimDiagnosis, snapshot: Snapshot, *, all_namespaces: bool) -> TableRow:
    listed = sum(each.count for each in facts.held if each.kind in {EntryKind.LIVE, EntryKind.UNKNOWN})
    cells = (
        facts.key[1],
        str(len(facts.devices)),
        facts.workload or "<none>",
        f"{facts.users.consuming:,}",
        str(listed),
        facts.nodes[0] if len(facts.nodes) == 1 else (f"{len(facts.nodes)} nodes" if facts.nodes else "<none>"),
        _claim_state(facts),
    )
    return TableRow(
        name=describer.resource_name("ResourceClaim", facts.key[1]),
        cells=(facts.key[0], *cells) if all_namespaces else cells,
        wide=(facts.since or "<none>", describer.release_condition(facts) if facts.holds else "<none>"),
        content=lambda: {**describer.diagnosis_data(facts, snapshot), "state": _claim_state(facts)},
    )


def _claim_state(facts: ClaimDiagnosis) -> str:
    if facts.problems and facts.problems[0].severity != "info":
        return facts.problems[0].code.value
    if facts.deleting:
        return "Deleting"
    if not facts.allocated:
        return "Pending"
    return "InUse" if facts.users.consuming else "Reserved"


def _device_row(found: DeviceUsage) -> TableRow:
    free, nobody = ("Free", "<none>") if found.known else ("Unknown", "<unknown>")
    state = "Gone" if not found.offered else ("Tainted" if found.taints else ("Held" if found.holders else free))
    holders = ",".join("/".join(key) for key in found.holders)
    return TableRow(
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
@label_selector_option
def tree(*, source: SnapshotSource, labels: Any) -> None:  # noqa: ANN401 - requirements
    """Display workloads as a tree with their claims, devices and pods."""
    selectors = SelectorOptions(labels=labels)
    _refuse_label_selector_on_bundle(source, selectors)
    cluster_state = ClusterState(source.read(LIST_SCOPE))
    owners: defaultdict[tuple[str, str], list[ClaimDiagnosis]] = defaultdict(list)
    for facts in _diagnose_claims(cluster_state, source, None, selectors):
        owners[facts.key[0], facts.workload].append(facts)
    if not owners:
        print_to_stderr(no_resources_message(_selected_namespace(source)))
        return
    click.echo("\n".join(_tree_lines(owners)))  # in one call: each call flushes


def _tree_lines(owners: Mapping[tuple[str, str], Sequence[ClaimDiagnosis]]) -> Iterator[str]:
    for (namespace, workload), group in sorted(owners.items()):
        yield f"{namespace}: {workload or '(no workload)'}"
        for number, facts in enumerate(group, 1):
            last = number == len(group)
            yield f"{'└─' if last else '├─'} claim {facts.key[1]}: {describer.claim_state_text(facts)}"
            bar = "   " if last else "│  "
            lines = [f"device {each}" for each in facts.devices[:TREE_NAMES_MAX]]
            lines += (
                [f"… {len(facts.devices) - TREE_NAMES_MAX} more devices"] if len(facts.devices) > TREE_NAMES_MAX else []
            )
            users = facts.users.consuming + facts.users.waiting + facts.users.gated
            lines += [f"pod {name}" for name in (*facts.consumers, *facts.waiters)[:TREE_NAMES_MAX]]
            lines += [f"… {users - TREE_NAMES_MAX:,} more pods"] if users > TREE_NAMES_MAX else []
            for index, line in enumerate(lines, 1):
                yield f"{bar}{'└─' if index == len(lines) else '├─'} {line}"


TREE_NAMES_MAX: Final = 5
"""Maximum number of devices, and of pods, that `tree` names for a claim."""

USAGE_COLUMNS: Final = ("HELD", "USED", "PODS", "CLAIMS")
CAPACITY_COLUMNS: Final = ("DEVICE", "NODE", "CAPACITY", "USED", "TOTAL", "PODS", "CLAIMS")
CAPACITY_WIDE_COLUMNS: Final = ("CPUS",)

CLUSTER_WIDE_USAGES: Final = ("node", "capacity")
"""Groups that belong to no namespace."""


@click.command()
@source_options
@selector_options
@click.option(
    "--by",
    type=click.Choice(["namespace", "workload", "node", "class", "capacity"]),
    default="namespace",
    show_default=True,
    help="What to group the devices by.",
)
@list_print_options
def usage(*, source: SnapshotSource, selectors: SelectorOptions, by: str, output: PrintOptions) -> None:
    """Display how many devices are held and how many are in use.

    HELD counts the devices of claims, USED the devices of claims that pods use, and DEVICES (by node) all offered
    devices. By capacity, the command shows how much of each device that claims share is taken, such as memory and core
    of a card or the CPUs of a node; -o wide adds the bound CPUs. The command includes all namespaces unless -n selects
    one.
    """
    if selectors.labels and by in CLUSTER_WIDE_USAGES:
        raise click.UsageError(f"-l does not work with --by {by}")
    _refuse_label_selector_on_bundle(source, selectors)
    cluster_state = ClusterState(source.read(LIST_SCOPE))
    namespace = None if source.all_namespaces else source.requested_namespace
    if by == "capacity":
        table = _capacity_table(cluster_state)
    else:
        rows = (
            _usage_by_node(cluster_state)
            if by == "node"
            else _usage_by_claim(cluster_state, _USAGE_KEYS[by], namespace, selectors)
        )
        header = (by.upper(), *(("DEVICES",) if by == "node" else ()), *USAGE_COLUMNS)
        table = ResourceTable(header=header, rows=tuple(_usage_row(header, each) for each in rows))
    if not table.rows and output.format is OutputFormat.TABLE:
        print_to_stderr(no_resources_message(namespace))
        return
    resource_table.print_table(resource_table.select_rows(table, selectors), output)


def _usage_row(header: Sequence[str], values: tuple[str | int, ...]) -> TableRow:
    content = dict(zip((each.lower() for each in header), values, strict=True))
    return TableRow(name=str(values[0]), cells=tuple(map(str, values)), content=lambda: content)


def _capacity_table(cluster_state: ClusterState) -> ResourceTable:
    """Return the capacities of shared devices."""
    rows = tuple(
        TableRow(
            name=f"device/{each.device}",
            cells=(
                each.device,
                each.node or "<any>",
                each.capacity,
                each.used,
                each.total,
                str(each.pods),
                str(each.claims),
            ),
            wide=(each.cpus or "<none>",),
            content=partial(msgspec.to_builtins, each),
        )
        for each in capacity_usage(cluster_state)
    )
    return ResourceTable(header=CAPACITY_COLUMNS, wide=CAPACITY_WIDE_COLUMNS, rows=rows)


def _usage_by_claim(
    cluster_state: ClusterState,
    names: Callable[[ClusterState, ClaimDiagnosis], Iterable[str]],
    namespace: str | None,
    selectors: SelectorOptions,
) -> UsageRows:
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    pods: defaultdict[str, set[Uid]] = defaultdict(set)
    for claim in cluster_state.snapshot.claims:
        if namespace not in {None, claim.metadata.namespace} or not selectors.matches_labels(claim.metadata.labels):
            continue
        facts = claims.explain(cluster_state, claim.metadata.key)
        if facts is None or not facts.allocated:
            continue
        used = len(facts.devices) * bool(facts.users.consuming)
        for name in names(cluster_state, facts):
            _add_to_totals(sums[name], (len(facts.devices), used, 1))
            pods[name] |= _consuming_pods(cluster_state, claim.metadata.key)
    return [(name, held, in_use, len(pods[name]), count) for name, (held, in_use, count) in sorted(sums.items())]


def _usage_by_node(cluster_state: ClusterState) -> UsageRows:
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    holders: defaultdict[str, set[Key]] = defaultdict(set)
    for each in devices(cluster_state):
        node = each.node or "<any>"
        _add_to_totals(sums[node], (1, bool(each.holders), bool(each.consumers)))
        holders[node].update(each.holders)
    pods = {
        node: {pod for key in keys for pod in _consuming_pods(cluster_state, key)} for node, keys in holders.items()
    }
    return [(node, *sums[node], len(pods[node]), len(holders[node])) for node in sorted(sums)]


def _consuming_pods(cluster_state: ClusterState, key: Key) -> set[Uid]:
    """Return the pods that use a claim; a pod with several claims, or on shared devices, counts once in each row."""
    view = cluster_state.view(key)
    return {each.uid for each in (*view.starting, *view.started)} if view is not None else set()


def _add_to_totals(total: list[int], more: Sequence[int]) -> None:
    for index, amount in enumerate(more):
        total[index] += amount


def _device_classes(cluster_state: ClusterState, facts: ClaimDiagnosis) -> Iterable[str]:
    claim = cluster_state.claim_cache.claim(facts.key)
    requests = (claim.spec.devices or {}).get("requests") or () if claim is not None else ()
    asks = [ask for each in requests for ask in (each.get("exactly"), *(each.get("firstAvailable") or ())) if ask]
    return dict.fromkeys(str(ask.get("deviceClassName", "")) for ask in asks)


_USAGE_KEYS: Final[Mapping[str, Callable[[ClusterState, ClaimDiagnosis], Iterable[str]]]] = {
    "namespace": lambda _cluster, facts: (facts.key[0],),
    "workload": lambda _cluster, facts: (
        f"{facts.key[0]}/{facts.workload}" if facts.workload else f"{facts.key[0]}/<none>",
    ),
    "class": _device_classes,
}
