"""Implements ``kubectl dra usage``: how many devices are held, in use and free, in groups and in total."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import click
import msgspec

from dra.api.koordinator.well_known import NUMA_CPU_CAPACITY
from dra.cli.kubectl import resource_table
from dra.cli.kubectl.diagnosis.get import refuse_label_selector_on_bundle
from dra.cli.kubectl.history_flags import HistoryFlags
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import OutputFormat, print_to_stderr
from dra.cli.kubectl.resource_table import (
    ResourceTable,
    SelectorOptions,
    TableRow,
    no_resources_message,
)
from dra.cli.kubectl.snapshots.snapshot_scope import LIST_SCOPE
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource
from dra.engine.diagnosis import claims
from dra.engine.diagnosis.capacities import CapacityUsage, capacity_usage
from dra.engine.diagnosis.claims import ClaimDiagnosis
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.devices import DeviceUsage, devices
from dra.engine.messages.texts import singularize
from dra.model import quantities
from dra.model.meta import Key, Uid

PodsOfClaim: TypeAlias = Callable[[Key], AbstractSet[Uid]]
"""A function that returns the pods that use a claim."""

USAGE_COLUMNS: Final = ("HELD", "USED", "PODS", "CLAIMS", "HELD%")
USAGE_WIDE_COLUMNS: Final = ("ADMIN-ACCESS",)
NODE_COLUMNS: Final = ("NODE", "DEVICES", "HELD", "USED", "PODS", "CLAIMS", "FREE", "HELD%")
CAPACITY_COLUMNS: Final = ("DEVICE", "NODE", "CAPACITY", "USED", "TOTAL", "PODS", "CLAIMS", "FREE", "USED%")
CAPACITY_WIDE_COLUMNS: Final = ("CPUS",)

CLUSTER_WIDE_USAGES: Final = ("node", "capacity")
"""Groups that belong to no namespace."""

TOTAL: Final = "<total>"
UNKNOWN: Final = "<unknown>"
NONE: Final = "<none>"


def print_usage(  # noqa: PLR0913 - keyword-only: the options of the command
    *,
    source: SnapshotSource,
    selectors: SelectorOptions,
    by: str,
    batch: bool,
    idle: bool,
    history: HistoryFlags,
    output: PrintOptions,
) -> None:
    """Run ``kubectl dra usage``; the declaration describes the options."""
    if idle and batch:
        raise click.UsageError("--idle does not work with --batch")
    if idle:
        from dra.cli.kubectl.diagnosis.idle_usage import print_idle_usage  # noqa: PLC0415 - only who asks for it

        print_idle_usage(source=source, selectors=selectors, by=by, history=history, output=output)
        return
    if history.prometheus.url is not None:
        raise click.UsageError("--prometheus needs --idle")
    if batch:
        from dra.cli.kubectl.diagnosis.batch_usage import print_batch_usage  # noqa: PLC0415 - only who asks for it

        print_batch_usage(source=source, selectors=selectors, output=output)
        return
    if selectors.labels and by in CLUSTER_WIDE_USAGES:
        raise click.UsageError(f"-l does not work with --by {by}")
    refuse_label_selector_on_bundle(source, selectors)
    cluster_state = ClusterState(source.read(LIST_SCOPE))
    namespace = None if source.all_namespaces else source.requested_namespace
    if by == "capacity":
        table = _capacity_table(cluster_state)
    elif by == "node":
        table = _node_table(cluster_state)
    else:
        table = _claim_table(cluster_state, by, namespace, selectors)
    if not (table.rows or table.totals) and output.format is OutputFormat.TABLE:
        print_to_stderr(no_resources_message(namespace))
        return
    selected = resource_table.select_rows(table, selectors)
    resource_table.print_table(selected, output)
    if selected.totals and by not in CLUSTER_WIDE_USAGES and output.format in {OutputFormat.TABLE, OutputFormat.WIDE}:
        print_to_stderr(_summary(_device_totals(devices(cluster_state))))


def _summary(totals: "_DeviceTotals") -> str:
    """Return what a list of claims' devices does not show: how many devices there are, and how many are free."""
    free = (
        "unknown how many are free, since not all claims could be read"
        if totals.free is None
        else f"{totals.free} free"
    )
    rest = "" if totals.free is None else _unusable_text(totals)
    gone = totals.all - totals.offered
    more = f"; no driver offers {gone} more, which claims hold" if gone else ""
    return singularize(f"{totals.offered} devices are offered: {totals.held - gone} held, {free}{rest}{more}")


def _unusable_text(totals: "_DeviceTotals") -> str:
    """Return the numbers of devices that are neither held nor free, if there are any."""
    overlapping = f", {totals.overlapping} overlap with held devices" if totals.overlapping else ""
    return overlapping + (f", {totals.unusable} unusable (see kubectl dra get devices)" if totals.unusable else "")


class _DeviceTotals(NamedTuple):
    """The numbers of all devices of a cluster."""

    all: int
    """Number of devices that a driver offers or a claim holds."""

    offered: int
    held: int
    used: int
    free: int | None
    """None if not all claims could be read."""

    unusable: int
    """Number of devices that no claim holds or can get: tainted, in a broken pool, or on a node that takes no pods."""

    overlapping: int
    """Number of devices that no claim holds or can get, because held devices are parts of the same hardware."""

    @property
    def base(self) -> int:
        """The number of devices that parts are computed of: 0, for unknown, where no slice was read.

        A card that is held as a whole is all held, however many partitions it could have had instead.
        """
        return self.all - self.overlapping if self.offered else 0


def _device_totals(usages: Iterable[DeviceUsage]) -> _DeviceTotals:
    every = [*usages]
    free = sum(usage.free for usage in every)
    return _DeviceTotals(
        all=len(every),
        offered=sum(usage.offered for usage in every),
        held=sum(bool(usage.holders) for usage in every),
        used=sum(bool(usage.consumers) for usage in every),
        free=free if all(usage.known for usage in every) else None,
        unusable=sum(usage.offered and not (usage.holders or usage.free or usage.overlaps_held) for usage in every),
        overlapping=sum(usage.overlaps_held for usage in every),
    )


def _percent(part: int | Fraction, whole: int | Fraction) -> int | None:
    return round(Fraction(100 * part, whole)) if whole else None


def _plain(name: str) -> str:
    """Return a name for data: brackets mark the row that is no group."""
    return name.strip("<>") if name == TOTAL else name


def _percent_text(percent: int | None) -> str:
    return UNKNOWN if percent is None else f"{percent}%"


def _node_table(cluster_state: ClusterState) -> ResourceTable:
    users = partial(consuming_pods, cluster_state)
    by_node: defaultdict[str, list[DeviceUsage]] = defaultdict(list)
    for usage in devices(cluster_state):
        by_node[usage.node or "<any>"].append(usage)
    rows = tuple(node_usage_row(node, by_node[node], users=users) for node in sorted(by_node))
    every = [usage for group in by_node.values() for usage in group]
    return ResourceTable(
        header=NODE_COLUMNS, rows=rows, totals=(node_usage_row(TOTAL, every, users=users),) if every else ()
    )


def node_usage_row(name: str, usages: list[DeviceUsage], *, users: PodsOfClaim) -> TableRow:
    """Return the row of a node, or of all nodes."""
    totals = _device_totals(usages)
    holders = {key for usage in usages for key in usage.holders}
    pods = {pod for key in holders for pod in users(key)}
    percent = _percent(totals.held, totals.all - totals.overlapping)
    content = {
        "node": _plain(name),
        "devices": len(usages),
        "held": totals.held,
        "used": totals.used,
        "pods": len(pods),
        "claims": len(holders),
        "free": totals.free,
        "unusable": totals.unusable,
        "overlapping": totals.overlapping,
        "heldPercent": percent,
    }
    free = UNKNOWN if totals.free is None else str(totals.free)
    numbers = (len(usages), totals.held, totals.used, len(pods), len(holders))
    cells = (name, *map(str, numbers), free, _percent_text(percent))
    return TableRow(name=name, cells=cells, content=lambda: content)


def _claim_table(
    cluster_state: ClusterState, by: str, namespace: str | None, selectors: SelectorOptions
) -> ResourceTable:
    """Return the devices of claims in groups, with the free devices and all devices below them."""
    totals = _device_totals(devices(cluster_state))
    selected = [
        facts
        for claim in cluster_state.snapshot.claims
        if namespace in {None, claim.metadata.namespace}
        and selectors.matches_labels(claim.metadata.labels)
        and (facts := claims.explain(cluster_state, claim.metadata.key)) is not None
        and facts.allocated
    ]
    users = partial(consuming_pods, cluster_state)
    groups: dict[str, list[ClaimDiagnosis]] = {}
    group_claims(cluster_state, selected, by=by, groups=groups)
    rows = tuple(claim_usage_row(by, group, groups[group], totals.base, users=users) for group in sorted(groups))
    footers: tuple[TableRow, ...] = ()
    if (rows or totals.offered) and namespace is None and not selectors.labels:
        pods = {pod for facts in selected for pod in users(facts.key)}
        observed = len({device.whole for facts in selected for device in facts.admin_access})
        numbers = (totals.held, totals.used, len(pods), len(selected))
        row = _usage_row(by, TOTAL, numbers, totals.base, observed=observed)
        rest = {"free": totals.free, "unusable": totals.unusable, "overlapping": totals.overlapping}
        content = {**row.content(), "devices": totals.offered, **rest}
        footers = (replace(row, content=lambda: content),)
    return ResourceTable(header=(by.upper(), *USAGE_COLUMNS), wide=USAGE_WIDE_COLUMNS, rows=rows, totals=footers)


def group_claims(
    cluster_state: ClusterState,
    diagnoses: Iterable[ClaimDiagnosis],
    *,
    by: str,
    groups: dict[str, list[ClaimDiagnosis]],
) -> None:
    """Add allocated claims to the groups of their namespaces, workloads or classes."""
    for facts in diagnoses:
        for name in _USAGE_KEYS[by](cluster_state, facts):
            groups.setdefault(name, []).append(facts)


def claim_usage_row(by: str, name: str, group: list[ClaimDiagnosis], offered: int, *, users: PodsOfClaim) -> TableRow:
    """Return the row of a group of claims; ``offered``: number of all devices, also of those that are held and gone.

    A device that several claims of the group share counts once; devices that they only observe are counted apart.
    """
    held = {device for facts in group for device in facts.held_devices}
    used = {device for facts in group if facts.users.consuming for device in facts.held_devices}
    pods = {pod for facts in group for pod in users(facts.key)}
    observed = len({device.whole for facts in group for device in facts.admin_access})
    return _usage_row(by, name, (len(held), len(used), len(pods), len(group)), offered, observed=observed)


def _usage_row(by: str, name: str, numbers: tuple[int, int, int, int], offered: int, *, observed: int = 0) -> TableRow:
    """Return a row of HELD, USED, PODS and CLAIMS, with the part of all devices; `observed`: with admin access."""
    held, used, pods, count = numbers
    percent = _percent(held, offered)
    content = {by: _plain(name), "held": held, "used": used, "pods": pods, "claims": count, "heldPercent": percent}
    if observed:
        content["adminAccess"] = observed
    cells = (name, *map(str, numbers), _percent_text(percent))
    return TableRow(name=name, cells=cells, wide=(str(observed),), content=lambda: content)


def _capacity_table(cluster_state: ClusterState) -> ResourceTable:
    """Return the capacities of shared devices, with the sums of each capacity."""
    usages = [*capacity_usage(cluster_state)]
    return ResourceTable(
        header=CAPACITY_COLUMNS,
        wide=CAPACITY_WIDE_COLUMNS,
        rows=tuple(_capacity_row(usage) for usage in usages),
        totals=tuple(_capacity_row(usage, is_total=True) for usage in _capacity_totals(usages)),
    )


def _capacity_totals(usages: Iterable[CapacityUsage]) -> Iterator[CapacityUsage]:
    """Yield the sum of each capacity over all devices; pods and claims are left out, they may share devices.

    The device of a NUMA node counts CPUs that the device of its node counts, too: only `NUMA_CPU_CAPACITY` is its own.
    """
    listed = tuple(usages)
    numa_nodes = {usage.device for usage in listed if usage.capacity == NUMA_CPU_CAPACITY}
    by_name: defaultdict[str, list[CapacityUsage]] = defaultdict(list)
    for usage in listed:
        if usage.capacity == NUMA_CPU_CAPACITY or usage.device not in numa_nodes:
            by_name[usage.capacity].append(usage)
    for name, group in sorted(by_name.items()):
        written = quantities.format_of(group[0].total)
        used, total = (
            quantities.canonical(sum((quantities.parse(text) for text in texts), Fraction(0)), written)
            for texts in ([usage.used for usage in group], [usage.total for usage in group])
        )
        yield CapacityUsage(device=TOTAL, node="", capacity=name, used=used, total=total, pods=0, claims=0)


def _capacity_row(usage: CapacityUsage, *, is_total: bool = False) -> TableRow:
    used, total = quantities.parse(usage.used), quantities.parse(usage.total)
    free, percent = quantities.canonical(total - used, quantities.format_of(usage.total)), _percent(used, total)
    counts = ("", "") if is_total else (str(usage.pods), str(usage.claims))
    node = usage.node or ("" if is_total else "<any>")
    cells = (usage.device, node, usage.capacity, usage.used, usage.total, *counts, free, _percent_text(percent))
    content = partial(_capacity_data, usage, free, percent)
    return TableRow(
        name=f"device/{usage.device}",
        cells=cells,
        wide=("" if is_total else usage.cpus or NONE,),
        content=content,
    )


def _capacity_data(usage: CapacityUsage, free: str, percent: int | None) -> dict[str, Any]:
    return {**msgspec.to_builtins(usage), "device": _plain(usage.device), "free": free, "usedPercent": percent}


def consuming_pods(cluster_state: ClusterState, key: Key) -> frozenset[Uid]:
    """Return the pods that use a claim; a pod with several claims, or on shared devices, counts once in each row."""
    view = cluster_state.view(key)
    return frozenset(pod.uid for pod in (*view.starting, *view.started)) if view is not None else frozenset()


def _device_classes(cluster_state: ClusterState, facts: ClaimDiagnosis) -> Iterable[str]:
    claim = cluster_state.claim_cache.claim(facts.key)
    requests = (claim.spec.devices or {}).get("requests") or () if claim is not None else ()
    asks = [
        ask for request in requests for ask in (request.get("exactly"), *(request.get("firstAvailable") or ())) if ask
    ]
    return dict.fromkeys(str(ask.get("deviceClassName", "")) for ask in asks)


_USAGE_KEYS: Final[Mapping[str, Callable[[ClusterState, ClaimDiagnosis], Iterable[str]]]] = {
    "namespace": lambda _cluster, facts: (facts.key[0],),
    "workload": lambda _cluster, facts: (f"{facts.key[0]}/{facts.holder or NONE}",),
    "class": _device_classes,
}
