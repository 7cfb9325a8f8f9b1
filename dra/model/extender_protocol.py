"""The messages between kube-scheduler and an extender: ``k8s.io/kube-scheduler/extender/v1``, with names for nodes.

Only the form of ``nodeCacheCapable: true``: nodes come as names, since the extender caches the node objects.
"""

from typing import Final, TypeVar

import msgspec

from dra.model.meta import Uid
from dra.model.scheduling import FullSchedulerPod, SchedulerPod

T = TypeVar("T")

MAX_EXTENDER_PRIORITY: Final = 10
"""Maximum score in the protocol; kube-scheduler multiplies the score by ten and by the extender's weight."""


class _Message(msgspec.Struct, rename="pascal", omit_defaults=True, kw_only=True, frozen=True):
    """A message with field names as in the Go types, which have no JSON tags."""


class ExtenderArgs(_Message, frozen=True):
    """The arguments of filter and prioritize."""

    pod: SchedulerPod
    node_names: list[str] | None = None


class ExtenderFilterResult(_Message, omit_defaults=False, frozen=True):
    """The nodes that pass the filter, and why the others do not."""

    node_names: list[str]
    failed_nodes: dict[str, str] = {}
    failed_and_unresolvable_nodes: dict[str, str] = {}
    """Nodes on which preemption would not help."""
    error: str = ""


class HostPriority(_Message, omit_defaults=False, frozen=True):
    """The score of a node."""

    host: str
    score: int


class ExtenderBindingArgs(_Message, frozen=True):
    """The pod to bind and its node."""

    pod_name: str
    pod_namespace: str
    pod_uid: Uid = msgspec.field(name="PodUID")
    node: str


class ExtenderBindingResult(_Message, omit_defaults=False, frozen=True):
    """The result of bind; an empty error means that the pod is bound."""

    error: str = ""


class MetaPod(_Message, omit_defaults=False, frozen=True):
    """A pod identified by its uid."""

    uid: Uid = msgspec.field(name="UID")


class MetaVictims(_Message, omit_defaults=False, frozen=True):
    """The pods that would be preempted on a node."""

    pods: list[MetaPod] | None = None
    num_pdb_violations: int = msgspec.field(name="NumPDBViolations", default=0)


class ExtenderPreemptionArgs(_Message, frozen=True):
    """The arguments of preempt."""

    pod: FullSchedulerPod
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class ExtenderPreemptionResult(_Message, omit_defaults=False, frozen=True):
    """The nodes on which preemption would help."""

    node_name_to_meta_victims: dict[str, MetaVictims]


class MalformedRequestError(ValueError):
    """A request that is no valid call of kube-scheduler."""


_FILTER: Final = msgspec.json.Decoder(ExtenderArgs)
_BIND: Final = msgspec.json.Decoder(ExtenderBindingArgs)
_PREEMPT: Final = msgspec.json.Decoder(ExtenderPreemptionArgs)


def decode_filter_args(body: bytes) -> tuple[SchedulerPod, list[str]]:
    """Decode a call of filter or prioritize. Raises MalformedRequestError."""
    arguments = _decoded(_FILTER, body)
    if arguments.node_names is None:
        raise MalformedRequestError(
            "no NodeNames: set nodeCacheCapable: true for this extender in the scheduler's file"
        )
    return arguments.pod, arguments.node_names


def decode_binding_args(body: bytes) -> ExtenderBindingArgs:
    """Decode a call of bind. Raises MalformedRequestError."""
    return _decoded(_BIND, body)


def decode_preemption_args(body: bytes) -> tuple[SchedulerPod, dict[str, MetaVictims]]:
    """Decode a call of preempt. Raises MalformedRequestError."""
    arguments = _decoded(_PREEMPT, body)
    return arguments.pod, arguments.node_name_to_meta_victims or {}


def _decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:
        raise MalformedRequestError(f"not a request of kube-scheduler: {error}") from error
