"""Checks what the kernels of the nodes can do for colocation, by what their NodeMetrics say.

A node that lacks a feature works, with restrictions; the check says which nodes lack what, and why.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from dra.cli.kubectl.checklist import CheckResult, CheckState
from dra.engine.colocation.kernel_features import FeatureName
from dra.engine.messages.remedies import WeighedChoice
from dra.kube.client import Client
from dra.kube.discovery import Discovery
from dra.kube.errors import Forbidden
from dra.kube.resources import NODE_METRICS
from dra.model.meta import ObjectMeta, Struct
from dra.model.node_metrics import KernelFeature
from dra.model.references import GroupResource

CHECK: Final = "node kernels"

NAMES_SHOWN: Final = 3
"""Nodes that a detail names at most for each feature."""

_KNOWN: Final = frozenset(name.value for name in FeatureName)
_NEEDED: Final = frozenset({FeatureName.CPU_QUOTA, FeatureName.CPUSET})
"""Features of which a node needs one to hold batch pods back."""


class _NodeMetricStatus(Struct, frozen=True):
    features: list[KernelFeature] | None = None


class NodeKernel(Struct, frozen=True):
    """A NodeMetric, reduced to the features of the node's kernel."""

    metadata: ObjectMeta
    status: _NodeMetricStatus = _NodeMetricStatus()


Kernels: TypeAlias = Mapping[str, Sequence[KernelFeature]]
"""Features by the name of the node; none if the node has not reported any."""


async def check_kernels(client: Client, discovery: Discovery) -> CheckResult:
    """Judge the kernels of the nodes; raise ApiError."""
    kind = GroupResource(resource=NODE_METRICS.plural, group=NODE_METRICS.group)
    if await discovery.resolve(kind) is None:
        return CheckResult(check=CHECK, state=CheckState.OK, detail="NodeMetrics are not served (the default)")
    kernels: dict[str, Sequence[KernelFeature]] = {}
    try:
        async for page in client.list_pages(NODE_METRICS, NodeKernel):
            kernels |= {metric.metadata.name: metric.status.features or () for metric in page.items}
    except Forbidden as error:
        return CheckResult(check=CHECK, state=CheckState.UNKNOWN, detail=str(error))
    return judge_kernels(kernels)


def judge_kernels(kernels: Kernels) -> CheckResult:
    """Judge what the kernels of the nodes can do for colocation."""
    silent = sorted(name for name, features in kernels.items() if not features)
    reported = {name: features for name, features in kernels.items() if features}
    if not reported:
        detail = f"{len(silent)} NodeMetrics, none with features of a kernel" if silent else "no NodeMetrics"
        return CheckResult(
            check=CHECK,
            state=CheckState.UNKNOWN if silent else CheckState.OK,
            detail=f"{detail}: no kubelet plugin with --colocation has reported",
        )
    lacking = _lacking(reported)
    texts = [_count_text(reported), *(_lacking_text(name, nodes) for name, nodes in lacking.items())]
    if silent:
        texts.append(f"not reported by {_names(silent)}")
    helpless = sorted(name for name, features in reported.items() if not _NEEDED & _usable(features))
    if helpless:
        return CheckResult(
            check=CHECK,
            state=CheckState.WARNING,
            detail="; ".join(texts),
            remedy=WeighedChoice(
                f"leave {_names(helpless)} out of colocation (a nodeConfig with enable: false), or give the kernel CPU "
                "quotas or cpusets: batch pods there are not held back"
            ),
        )
    return CheckResult(check=CHECK, state=CheckState.OK, detail="; ".join(texts))


def _usable(features: Sequence[KernelFeature]) -> set[str]:
    return {feature.name for feature in features if feature.usable}


def _count_text(reported: Kernels) -> str:
    counts = (f"{name} {sum(name in _usable(features) for features in reported.values())}" for name in FeatureName)
    return f"of {len(reported)} nodes: {', '.join(counts)}"


def _lacking(reported: Kernels) -> Mapping[str, Mapping[str, str]]:
    """Return by feature the nodes that lack it, with what they say about it."""
    lacking: dict[str, dict[str, str]] = defaultdict(dict)
    for node, features in sorted(reported.items()):
        for feature in features:
            if not feature.usable and feature.name in _KNOWN:
                lacking[feature.name][node] = feature.text
    return lacking


def _lacking_text(name: str, nodes: Mapping[str, str]) -> str:
    text = next(iter(nodes.values()))
    return f"no {name} on {_names(sorted(nodes))} ({text})"


def _names(names: Sequence[str]) -> str:
    rest = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
