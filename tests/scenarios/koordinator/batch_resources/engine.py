"""Our own answer to a case: the sum of the engine over the same objects, decoded as the controller decodes them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dra.api.colocation.node_strategy import node_strategy
from dra.api.colocation.slo_configuration import SloConfiguration, read_slo_configuration
from dra.engine.colocation.batch_node import batch_sum
from dra.engine.instants import WallTime
from dra.model.node_metrics import NodeMetric
from dra.model.node_pods import AgentNode, NodePod
from tests.scenarios.koordinator.batch_resources import manifests
from tests.scenarios.koordinator.batch_resources.outcomes import Outcome

if TYPE_CHECKING:
    from tests.scenarios.koordinator.batch_resources.cases import Case, Pod

Json = dict[str, Any]

NOON: Final = datetime(2026, 11, 28, 12, tzinfo=UTC)


def configuration() -> SloConfiguration:
    """Return the configuration of all cases."""
    return read_slo_configuration(manifests.configuration()["data"])


def offer(case: Case, configuration: SloConfiguration) -> tuple[Outcome, Outcome]:
    """Return what a node offers to batch pods, and what batch pods hold there."""
    manifest = manifests.node(case)
    metadata = manifest["metadata"]
    strategy = node_strategy(configuration, labels=metadata["labels"], annotations=metadata["annotations"]).strategy
    found = batch_sum(
        msgspec.convert(manifest, AgentNode),
        msgspec.convert(manifests.node_metric(case, now=NOON), NodeMetric),
        [msgspec.convert(_admitted(pod, manifest), NodePod) for pod, manifest in manifests.pods(case)],
        strategy,
        now=WallTime(NOON.timestamp()),
    )
    return Outcome(found.offered.cpu, found.offered.memory), Outcome(found.held.cpu, found.held.memory)


def _admitted(pod: Pod, manifest: Json) -> Json:
    """Return a pod as API server and kubelet leave it."""
    amounts = (each["resources"].get("requests", {}) for each in manifest["spec"]["containers"])
    has_plain = any(name in requests for requests in amounts for name in ("cpu", "memory"))
    status = {"phase": pod.phase, "qosClass": "Burstable" if has_plain else "BestEffort"}
    if pod.phase != "Pending":
        status["startTime"] = "2026-11-28T11:00:00Z"
    uid = {"metadata": manifest["metadata"] | {"uid": manifest["metadata"]["name"]}}
    return manifest | uid | {"status": status}
