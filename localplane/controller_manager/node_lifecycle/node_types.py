"""Nodes as the node lifecycle controller reads them."""

from typing import Any

from dra.model.meta import ObjectMeta, Struct
from dra.model.nodes import Taint


class TimedTaint(Taint, frozen=True):
    """``spec.taints[]`` of a Node, with the time from which pods are evicted."""

    time_added: str | None = None


class NodeSpec(Struct, frozen=True):
    """``spec`` of a Node, as far as the controller reads the spec."""

    taints: list[TimedTaint] | None = None


class NodeStatus(Struct, frozen=True):
    """``status`` of a Node; conditions are kept whole, because they are written back."""

    conditions: list[dict[str, Any]] | None = None


class Node(Struct, frozen=True):
    """A Node with the fields that the controller reads."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> str:
        """Return the status of the Ready condition; empty if the node has none."""
        return next((c.get("status", "") for c in self.status.conditions or () if c.get("type") == "Ready"), "")

    @property
    def no_execute_taints(self) -> list[TimedTaint]:
        """Return the NoExecute taints, which pods have to tolerate to stay."""
        return [taint for taint in self.spec.taints or () if taint.effect == "NoExecute"]
