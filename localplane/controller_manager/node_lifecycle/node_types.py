"""Nodes and leases as the node lifecycle controller reads them."""

from typing import Any

from dra.model.meta import ObjectMeta, Struct


class Taint(Struct, frozen=True):
    """``spec.taints[]`` of a Node."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(Struct, frozen=True):
    """``spec`` of a Node, as far as the controller reads the spec."""

    taints: list[Taint] | None = None


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
    def no_execute_taints(self) -> list[Taint]:
        """Return the NoExecute taints, which pods have to tolerate to stay."""
        return [taint for taint in self.spec.taints or () if taint.effect == "NoExecute"]


class LeaseSpec(Struct, frozen=True):
    """``spec`` of a Lease, as far as the controller reads the spec."""

    renew_time: str | None = None


class Lease(Struct, frozen=True):
    """A Lease with the fields that the controller reads."""

    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()
