"""Decides when a node counts as lost, which taints it gets, and how long pods tolerate the taints: pure."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from dra.kube.clock import rfc3339
from dra.model.nodes import Taint
from localplane.controller_manager.api_types import Pod
from localplane.controller_manager.node_lifecycle.node_types import Node, TimedTaint

NODE_MONITOR_GRACE_PERIOD: Final = 40.0
"""Seconds without a lease renewal after which the state of a node counts as unknown."""

QUARANTINE_SECONDS: Final = 40.0
"""Seconds after which pods of a node that does not exist count as lost."""

UNREACHABLE: Final = "node.kubernetes.io/unreachable"
NOT_READY: Final = "node.kubernetes.io/not-ready"

DEFAULT_TOLERATION_SECONDS: Final = 300.0
"""Seconds that a pod without its own toleration stays on a node that is not ready; upstream adds this to new pods."""


def unknown_conditions(node: Node, *, wall: datetime) -> list[dict[str, Any]]:
    """Return the conditions of a node that has stopped reporting."""
    at = rfc3339(wall)
    unknown = {"status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
    return [
        c if c.get("status") == "Unknown" else {**c, **unknown, "lastTransitionTime": at}
        for c in node.status.conditions or ()
    ]


def updated_taints(node: Node, *, wall: datetime) -> list[dict[str, str]] | None:
    """Return all taints of a node if they have to change: only those that follow from the Ready condition do."""
    wanted = {"True": None, "False": NOT_READY, "Unknown": UNREACHABLE}.get(node.ready)
    if not node.ready:
        return None
    taints, kept = [], set()
    for taint in node.spec.taints or ():
        if taint.key in (UNREACHABLE, NOT_READY):
            if taint.key != wanted:
                continue
            kept.add(taint.effect)
        taints.append(_taint_body(taint))
    missing = [e for e in ("NoSchedule", "NoExecute") if wanted and e not in kept]
    at = rfc3339(wall)
    taints += [{"key": wanted or "", "effect": effect, "timeAdded": at} for effect in missing]
    return taints if len(taints) != len(node.spec.taints or ()) or missing else None


def _taint_body(taint: TimedTaint) -> dict[str, str]:
    body = {"key": taint.key, "value": taint.value, "effect": taint.effect, "timeAdded": taint.time_added or ""}
    return {name: value for name, value in body.items() if value}


def min_toleration_seconds(pod: Pod, evicting: Iterable[Taint]) -> float | None:
    """Return the seconds that a pod tolerates the taints of its node; None for an unlimited time."""
    shortest: float | None = None
    for taint in evicting:
        matching = [toleration for toleration in pod.spec.tolerations or () if toleration.tolerates(taint)]
        if not matching:
            if taint.key not in (UNREACHABLE, NOT_READY):
                return 0.0
            limits = [DEFAULT_TOLERATION_SECONDS]
        else:
            limits = [
                float(toleration.toleration_seconds)
                for toleration in matching
                if toleration.toleration_seconds is not None
            ]
        if limits:
            least = max(min(limits), 0.0)
            shortest = least if shortest is None else min(shortest, least)
    return shortest
