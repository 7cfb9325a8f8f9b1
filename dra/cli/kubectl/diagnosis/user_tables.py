"""Tables of pods and of nodes for ``kubectl dra get``: which devices they have."""

from collections import defaultdict
from typing import Any, Final

from dra.api.colocation.well_known import BATCH_CPU, BATCH_MEMORY
from dra.cli.kubectl.diagnosis.colocation_texts import amount_text
from dra.cli.kubectl.resource_table import ResourceTable, SelectorOptions, TableRow
from dra.engine.claims.consumers import Consumer
from dra.engine.diagnosis import colocation
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.devices import DeviceUsage, devices
from dra.engine.diagnosis.node_groups import format_amount
from dra.model import pods as model
from dra.model.pods import claim_names
from dra.model.scheduling import SchedulerPod

POD_COLUMNS: Final = ("NAME", "STAGE", "CLAIMS", "DEVICES", "NODE")
POD_WIDE_COLUMNS: Final = ("GATES", "MESSAGE")
NODE_COLUMNS: Final = ("NAME", "STATE", "DEVICES", "HELD", "FREE", "CLAIMS")
NODE_WIDE_COLUMNS: Final = ("TAINTS", "KEEPS", "BATCH-CPU", "BATCH-MEMORY")
NONE: Final = "<none>"


def pod_table(
    cluster_state: ClusterState,
    namespace: str | None,
    name: str | None,
    selectors: SelectorOptions,
    *,
    all_namespaces: bool,
) -> ResourceTable:
    """Return the table of pods that name claims, or wait behind a gate of dra-reserve."""
    rows = []
    for key, pod in sorted(cluster_state.pods.items()):
        consumer = cluster_state.claim_cache.consumer(pod.metadata.uid)
        selected = namespace in {None, key[0]} and name in {None, key[1]}
        if consumer is not None and selected and selectors.matches_labels(pod.metadata.labels):
            rows.append(_pod_row(cluster_state, pod, consumer, all_namespaces=all_namespaces))
    header = ("NAMESPACE", *POD_COLUMNS) if all_namespaces else POD_COLUMNS
    return ResourceTable(header=header, wide=POD_WIDE_COLUMNS, rows=tuple(rows), single=name is not None)


def _pod_row(cluster_state: ClusterState, pod: SchedulerPod, consumer: Consumer, *, all_namespaces: bool) -> TableRow:
    namespace, name = pod.metadata.key
    names = [*claim_names(pod)]
    held = [
        f"{result.driver}/{result.pool}/{result.device}"
        for claim in (cluster_state.claim_cache.claim((namespace, claim_name)) for claim_name in names)
        if claim is not None and claim.status.allocation is not None
        for result in claim.status.allocation.devices.results or ()
    ]
    condition = pod.condition(model.POD_SCHEDULED)
    message = condition.message if condition is not None and condition.status == "False" else ""
    stage = consumer.stage.name.capitalize()
    is_lost = consumer.is_consuming and cluster_state.is_node_lost(pod.spec.node_name)
    cells = (
        name,
        f"{stage},NodeNotReady" if is_lost else stage,
        ",".join(names) or NONE,
        str(len(held)),
        pod.spec.node_name or NONE,
    )
    content: dict[str, Any] = {
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "uid": pod.metadata.uid},
        "stage": stage,
        "nodeReady": not is_lost,
        "claims": names,
        "devices": held,
        "node": pod.spec.node_name,
        "gates": list(pod.gates),
        "message": message,
    }
    return TableRow(
        name=f"pod/{name}",
        cells=(namespace, *cells) if all_namespaces else cells,
        wide=(",".join(pod.gates) or NONE, message or NONE),
        content=lambda: content,
    )


def node_table(cluster_state: ClusterState, name: str | None, selectors: SelectorOptions) -> ResourceTable:
    """Return the table of nodes, each with the devices that only the node can use."""
    by_node: defaultdict[str, list[DeviceUsage]] = defaultdict(list)
    for usage in devices(cluster_state):
        by_node[usage.node].append(usage)
    rows = tuple(
        _node_row(cluster_state, node_name, by_node[node_name])
        for node_name, node in sorted(cluster_state.nodes.items())
        if name in {None, node_name} and selectors.matches_labels(node.metadata.labels)
    )
    return ResourceTable(header=NODE_COLUMNS, wide=NODE_WIDE_COLUMNS, rows=rows, single=name is not None)


def _node_row(cluster_state: ClusterState, name: str, usages: list[DeviceUsage]) -> TableRow:
    node = cluster_state.nodes[name]
    state = ("Ready" if node.ready else "NotReady") + (",Cordoned" if node.spec.unschedulable else "")
    held = sum(bool(usage.holders) for usage in usages)
    free: int | None = sum(usage.free for usage in usages)
    if not all(usage.known for usage in usages):
        free = None
    holders = sorted({"/".join(key) for usage in usages for key in usage.holders})
    kept = {
        resource: format_amount(resource, amount)
        for resource, amount in sorted(cluster_state.node_infos[name].reserved.items())
    }
    taints = [
        f"{taint.key}{'=' if taint.value else ''}{taint.value}:{taint.effect}" for taint in node.spec.taints or ()
    ]
    use = colocation.node_use_of(cluster_state, node)
    content: dict[str, Any] = {
        "kind": "Node",
        "metadata": {"name": name, "uid": node.metadata.uid},
        "state": state,
        "devices": len(usages),
        "held": held,
        "free": free,
        "claims": holders,
        "taints": taints,
        "keeps": kept,
        "batch": {"cpu": use.cpu.offered, "memory": use.memory.offered},
    }
    return TableRow(
        name=f"node/{name}",
        cells=(name, state, str(len(usages)), str(held), "<unknown>" if free is None else str(free), str(len(holders))),
        wide=(
            ",".join(taints) or NONE,
            ",".join(f"{resource}={amount}" for resource, amount in kept.items()) or NONE,
            NONE if use.cpu.offered is None else amount_text(BATCH_CPU, use.cpu.offered),
            NONE if use.memory.offered is None else amount_text(BATCH_MEMORY, use.memory.offered),
        ),
        content=lambda: content,
    )
