"""Nodes and leases, as far as outages show in them."""

from typing import Any

from dra.model.meta import ObjectMeta, Struct


class Taint(Struct, frozen=True):
    """``spec.taints[]``."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(Struct, frozen=True):
    """``spec``."""

    taints: list[Taint] | None = None


class NodeStatus(Struct, frozen=True):
    """``status``; conditions stay whole, since they are written back."""

    conditions: list[dict[str, Any]] | None = None


class Node(Struct, frozen=True):
    """A node."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> str:
        """Status of its Ready condition; empty if it has none."""
        return next((c.get("status", "") for c in self.status.conditions or () if c.get("type") == "Ready"), "")

    @property
    def evicting(self) -> list[Taint]:
        """Taints that pods have to tolerate to stay."""
        return [taint for taint in self.spec.taints or () if taint.effect == "NoExecute"]


class LeaseSpec(Struct, frozen=True):
    """``spec``."""

    renew_time: str | None = None


class Lease(Struct, frozen=True):
    """A lease."""

    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()
