"""The CPU policies of a node: Koordinator's labels on the Node, and their effect on a request for CPUs.

``node.koordinator.sh/cpu-bind-policy`` forces a bind policy on all requests of the node: ``FullPCPUsOnly`` whole cores,
as the kubelet's option ``full-pcpus-only``, and ``SpreadByPCPUs`` one thread of each core. A request that requires the
opposite is refused. ``node.koordinator.sh/numa-allocate-strategy`` decides between NUMA nodes and sockets that fit, and
``node.koordinator.sh/numa-topology-policy`` how many NUMA nodes a request's CPUs come from. A
value that no component knows counts as no policy, and is reported: the label is a text that any administrator may
mistype, and a node must not stop serving for that.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeVar

from msgspec.structs import replace

from dra.api.parameters.cpu_policies import CpuBindPolicy, NumaAllocateStrategy
from dra.engine.cpus.cpu_snapshot import CpuRequest
from dra.engine.cpus.failures import CpuAllocationFailure, CpuFailureReason
from dra.engine.messages.texts import ExplainedReason, explain
from dra.model.koordinator_classes import NumaTopologyPolicy
from dra.model.meta import Struct

LABEL_CPU_BIND_POLICY: Final = "node.koordinator.sh/cpu-bind-policy"
LABEL_NUMA_ALLOCATE_STRATEGY: Final = "node.koordinator.sh/numa-allocate-strategy"
LABEL_NUMA_TOPOLOGY_POLICY: Final = "node.koordinator.sh/numa-topology-policy"


class NodeLabelReason(ExplainedReason):
    """The reason of an Event about a label of a Node."""

    INVALID_NODE_LABEL = explain(
        "InvalidNodeLabel",
        "A label of the Node has a value that the CPU driver does not know; the default counts.",
        "The label has a typing error; the message names the label and its values.",
        "Give the label one of the values, or remove the label.",
    )


DEFAULT_NUMA_STRATEGY: Final = NumaAllocateStrategy.MOST_ALLOCATED


class NodeCpuBindPolicy(StrEnum):
    """The bind policy that a node forces on requests."""

    NONE = "None"
    FULL_PCPUS_ONLY = "FullPCPUsOnly"
    SPREAD_BY_PCPUS = "SpreadByPCPUs"


_FORCED: Final = {
    NodeCpuBindPolicy.FULL_PCPUS_ONLY: CpuBindPolicy.FULL_PCPUS,
    NodeCpuBindPolicy.SPREAD_BY_PCPUS: CpuBindPolicy.SPREAD_BY_PCPUS,
}


class NodeCpuPolicies(Struct, frozen=True):
    """The policies for the choice of CPUs that the labels of a Node set."""

    bind_policy: NodeCpuBindPolicy = NodeCpuBindPolicy.NONE
    strategy: NumaAllocateStrategy = DEFAULT_NUMA_STRATEGY
    numa_policy: NumaTopologyPolicy = NumaTopologyPolicy.NONE


NO_NODE_POLICIES: Final = NodeCpuPolicies()

Policy = TypeVar("Policy", bound=StrEnum)


def parse_node_labels(labels: Mapping[str, str] | None) -> tuple[NodeCpuPolicies, tuple[str, ...]]:
    """Return the policies that a Node's labels set, and a text about each label with an unknown value."""
    given, problems = labels or {}, list[str]()
    policies = NodeCpuPolicies(
        bind_policy=_label_value(given, LABEL_CPU_BIND_POLICY, NO_NODE_POLICIES.bind_policy, problems),
        strategy=_label_value(given, LABEL_NUMA_ALLOCATE_STRATEGY, NO_NODE_POLICIES.strategy, problems),
        numa_policy=_label_value(given, LABEL_NUMA_TOPOLOGY_POLICY, NO_NODE_POLICIES.numa_policy, problems),
    )
    return policies, tuple(problems)


def apply_node_bind_policy(request: CpuRequest, policy: NodeCpuBindPolicy) -> CpuRequest | CpuAllocationFailure:
    """Return the request as the node's bind policy makes it, or the conflict with the policy that the request requires.

    A preferred policy of the request gives way to the node's.
    """
    forced = _FORCED.get(policy)
    if forced is None:
        return request
    if request.required and request.policy is not forced:
        return CpuAllocationFailure(
            reason=CpuFailureReason.POLICY_CONFLICT,
            detail=f"the claim requires {request.policy}, the node has {LABEL_CPU_BIND_POLICY}: {policy}",
        )
    return replace(request, policy=forced, required=True)


def _label_value(labels: Mapping[str, str], label: str, default: Policy, problems: list[str]) -> Policy:
    """Return the value of a label, or the default; add a text about a value that is not known."""
    value, known = labels.get(label) or default.value, type(default)
    if value in list(known):
        return known(value)
    problems.append(f"label {label}: {value!r} is not valid; use {', '.join(known)}; until then {default} counts")
    return default
