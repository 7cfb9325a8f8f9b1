"""Implements ``kubectl dra tree``: who has what, from workloads, nodes or Reservations down to devices and pods."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, Final, NamedTuple

import click

from dra.api.object_fields import ObjectReference
from dra.api.reservations.model import MalformedReservationError, parse_reservation
from dra.cli.kubectl.diagnosis import describer
from dra.cli.kubectl.diagnosis.get import diagnose_claims, refuse_label_selector_on_bundle, selected_namespace
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import OutputFormat, list_content, print_to_stderr
from dra.cli.kubectl.resource_args import parse_resource_args
from dra.cli.kubectl.resource_table import SelectorOptions, no_resources_message
from dra.cli.kubectl.snapshots.snapshot_scope import LIST_SCOPE, SnapshotScope
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource
from dra.engine.claims.view import EntryKind
from dra.engine.diagnosis import claims
from dra.engine.diagnosis.claims import ClaimDiagnosis
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.devices import DeviceUsage, devices
from dra.engine.messages.texts import singularize
from dra.model.meta import UnstructuredObject

TREE_KINDS: Final = ("node", "reservation")
WORKLOAD_WORDS: Final = ("workloads", "workload")

LINES_AT_ONCE: Final = 1_000
"""Number of lines that are printed in one call: each call flushes."""

NAMES_MAX: Final = 5
"""Maximum number of names that a tree has below one object; -o wide and data have all that are known."""


class TreeNode(NamedTuple):
    """An object of a tree, as text and as data, with the objects below it."""

    text: str
    data: dict[str, Any]
    children: Iterable["TreeNode"] = ()
    """Read once: the claims of a large workload are not in memory together with all that is below."""

    below: str = ""
    """Field of the data that has the objects below."""

    more: int = 0
    """The number of further objects below, which are not named."""

    noun: str = ""
    """Plural of the further objects."""

    def content(self) -> dict[str, Any]:
        """Return the object as data, with all objects below it."""
        content = dict(self.data)
        for child in self.children:
            content.setdefault(child.below, []).append(child.content())
        return content


def print_trees(*, kind: str, source: SnapshotSource, labels: Any, output: PrintOptions) -> None:  # noqa: ANN401 - requirements
    """Run ``kubectl dra tree``; the declaration describes the options."""
    if kind.lower() not in WORKLOAD_WORDS:
        try:
            kind, _ = parse_resource_args(kind, None, among=TREE_KINDS, named=False)
        except click.UsageError as error:
            raise click.UsageError(f"{kind!r} is none of workloads, nodes, reservations") from error
    selectors = SelectorOptions(labels=labels)
    refuse_label_selector_on_bundle(source, selectors)
    if selectors.labels and kind in TREE_KINDS:
        raise click.UsageError(f"-l selects claims by label, and does not work with tree {kind}s")
    scope = LIST_SCOPE | (SnapshotScope.RESERVATIONS if kind == "reservation" else SnapshotScope.CLAIMS_ONLY)
    cluster_state = ClusterState(source.read(scope))
    every = output.format is not OutputFormat.TABLE
    if kind == "node":
        trees = [*_node_trees(cluster_state, every=every)]
    elif kind == "reservation":
        trees = [*_reservation_trees(cluster_state, every=every)]
    else:
        trees = [*_workload_trees(diagnose_claims(cluster_state, source, None, selectors), every=every)]
    if output.is_structured:
        output.print(list_content([root.content() for root in trees]))
    elif not trees:
        print_to_stderr(no_resources_message(None if kind in TREE_KINDS else selected_namespace(source)))
    else:
        lines = chain.from_iterable(map(_tree_lines, trees))
        while several := [*islice(lines, LINES_AT_ONCE)]:
            click.echo("\n".join(several))


def _tree_lines(node: TreeNode, *, first: str = "", rest: str = "") -> Iterator[str]:
    """Yield the lines of a tree; `first` begins the line of the object, `rest` the lines below."""
    yield first + singularize(node.text)
    more = [TreeNode(f"… {node.more:,} more {node.noun}", {})] if node.more > 0 else []
    for child, last in _with_last(chain(node.children, more)):
        yield from _tree_lines(child, first=rest + ("└─ " if last else "├─ "), rest=rest + ("   " if last else "│  "))


def _with_last(children: Iterable[TreeNode]) -> Iterator[tuple[TreeNode, bool]]:
    """Yield children, each with whether it is the last one."""
    child: TreeNode | None = None
    for following in children:
        if child is not None:
            yield child, False
        child = following
    if child is not None:
        yield child, True


def _workload_trees(diagnoses: Iterator[ClaimDiagnosis], *, every: bool) -> Iterator[TreeNode]:
    owners: defaultdict[tuple[str, str], list[ClaimDiagnosis]] = defaultdict(list)
    for facts in diagnoses:
        owners[facts.key[0], facts.holder].append(facts)
    for (namespace, workload), group in sorted(owners.items()):
        yield TreeNode(
            f"{namespace}: {workload or '(no workload)'}",
            {"namespace": namespace, "workload": workload},
            (_claim_tree(claim, every=every) for claim in group),
        )


def _claim_tree(facts: ClaimDiagnosis, *, every: bool, qualified: bool = False, with_devices: bool = True) -> TreeNode:
    """Return a claim with its devices and pods."""
    found_devices = [str(device) for device in facts.devices] if with_devices else []
    pods = [*facts.consumers, *facts.waiters]
    users = facts.users.consuming + facts.users.waiting + facts.users.gated
    shown_devices, shown_pods = (found_devices, pods) if every else (found_devices[:NAMES_MAX], pods[:NAMES_MAX])
    children = [TreeNode(f"device {device}", {"name": device}, below="devices") for device in shown_devices]
    if len(found_devices) > len(shown_devices):
        children.append(TreeNode(f"… {len(found_devices) - len(shown_devices)} more devices", {}))
    children += [TreeNode(f"pod {pod}", {"name": pod}, below="pods") for pod in shown_pods]
    name = "/".join(facts.key) if qualified else facts.key[1]
    return TreeNode(
        f"claim {name}: {describer.claim_state_text(facts)}",
        {
            "namespace": facts.key[0],
            "name": facts.key[1],
            "workload": facts.workload,
            "state": describer.claim_state_text(facts),
            "released": describer.release_condition(facts) if facts.holds else "",
            "podCount": users,
        },
        children,
        below="claims",
        more=users - len(shown_pods),
        noun="pods",
    )


def _node_trees(cluster_state: ClusterState, *, every: bool) -> Iterator[TreeNode]:
    by_node: defaultdict[str, list[DeviceUsage]] = defaultdict(list)
    for usage in devices(cluster_state):
        by_node[usage.node].append(usage)
    for name in sorted({*by_node, *cluster_state.nodes}):
        held = [usage for usage in by_node[name] if usage.holders]
        node = cluster_state.nodes.get(name)
        state = "" if node is None else "Ready" if node.ready else "NotReady"
        text = f"node {name}: {state}, " if name else "any node: "
        free = sum(usage.free for usage in by_node[name])
        yield TreeNode(
            singularize(f"{text}{len(by_node[name])} devices, {len(held)} held"),
            {"name": name, "state": state, "devicesTotal": len(by_node[name]), "devicesFree": free},
            (_device_tree(cluster_state, usage, every=every) for usage in held),
        )


def _device_tree(cluster_state: ClusterState, usage: DeviceUsage, *, every: bool) -> TreeNode:
    facts = [claims.explain(cluster_state, key) for key in dict.fromkeys(usage.holders)]
    trees = [
        _claim_tree(diagnosis, every=every, qualified=True, with_devices=False)
        for diagnosis in facts
        if diagnosis is not None
    ]
    return TreeNode(f"device {usage.item}", {"name": str(usage.item)}, trees, below="devices")


def _reservation_trees(cluster_state: ClusterState, *, every: bool) -> Iterator[TreeNode]:
    kept: defaultdict[str, list[ClaimDiagnosis]] = defaultdict(list)
    for claim in cluster_state.snapshot.claims:
        if any(entry.is_reservation for entry in claim.entries):
            facts = claims.explain(cluster_state, claim.metadata.key)
            for held in facts.held if facts is not None else ():
                if held.kind is EntryKind.RESERVATION and facts is not None:
                    kept[held.reference.partition("/")[2]].append(facts)
    for reservation in sorted(cluster_state.snapshot.reservations or (), key=_object_name):
        name = reservation.metadata.name
        try:
            status = parse_reservation(reservation.content).status
        except MalformedReservationError as error:
            yield TreeNode(str(error), {"name": name, "error": str(error)})
            continue
        owners = [
            TreeNode(f"pod {owner.namespace}/{owner.name}", _owner_data(owner), below="owners")
            for owner in status.current_owners
        ]
        where = f" on node {status.node_name}" if status.node_name else ""
        yield TreeNode(
            f"reservation {name}: {status.phase.value}{where}",
            {"name": name, "phase": status.phase.value, "node": status.node_name},
            [*(_claim_tree(facts, every=every, qualified=True) for facts in kept[name]), *owners],
        )


def _owner_data(owner: ObjectReference) -> dict[str, Any]:
    return {"namespace": owner.namespace, "name": owner.name}


def _object_name(reservation: UnstructuredObject) -> str:
    return reservation.metadata.name
