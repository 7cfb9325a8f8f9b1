"""Pods and Nodes with the fields that the agent of their node reads."""

from typing import Any

import msgspec

from dra.model.meta import ObjectMeta, Struct
from dra.model.scheduling import (
    ContainerStatus,
    SchedulerNode,
    SchedulerNodeStatus,
    SchedulerPod,
    SchedulerPodSpec,
    SchedulerPodStatus,
)


class NodeContainerStatus(ContainerStatus, frozen=True):
    """``containerStatuses[]``: the container as its runtime knows it."""

    container_id: str = msgspec.field(default="", name="containerID")
    """Runtime and id, as ``containerd://0123abcd``; empty before the container's first start."""

    state: dict[str, Any] | None = None


class NodePodStatus(SchedulerPodStatus, frozen=True):
    """``status`` of a Pod, with the fields that tell its cgroups and its class."""

    # Lists of frozen structs are only read, so a list of a subclass serves as well.
    container_statuses: list[NodeContainerStatus] | None = None  # type: ignore[assignment]
    init_container_statuses: list[NodeContainerStatus] | None = None  # type: ignore[assignment]


class NodePodSpec(SchedulerPodSpec, frozen=True):
    """``spec`` of a Pod, with the field that tells the container runtime."""

    runtime_class_name: str = ""


class NodePod(SchedulerPod, frozen=True):
    """A Pod on its node, with requests, limits and container ids."""

    spec: NodePodSpec = NodePodSpec()
    status: NodePodStatus = NodePodStatus()


class AgentNodeStatus(SchedulerNodeStatus, frozen=True):
    """``status`` of a Node, with what the machine has."""

    capacity: dict[str, str | int] | None = None


class AgentNode(SchedulerNode, frozen=True):
    """The Node of an agent, with labels, annotations and capacity."""

    status: AgentNodeStatus = AgentNodeStatus()


class ConfigMap(Struct, frozen=True):
    """A ConfigMap with its text values."""

    metadata: ObjectMeta
    data: dict[str, str] | None = None
