"""What kube-scheduler and an extender say to each other: ``k8s.io/kube-scheduler/extender/v1``, with names for nodes.

Only the form of ``nodeCacheCapable: true``: nodes come as names, since their objects are known here.
"""

from typing import Final, TypeVar

import msgspec

from dra.model.meta import Uid
from dra.model.scheduling import SchedulerPod

T = TypeVar("T")

MAX_EXTENDER_PRIORITY: Final = 10
"""What the protocol allows; the scheduler multiplies it by ten and by the extender's weight."""


class _Message(msgspec.Struct, rename="pascal", omit_defaults=True, kw_only=True):
    """Go writes the fields of these types as they are called there."""


class ExtenderArgs(_Message):
    """Of filter and prioritize."""

    pod: SchedulerPod
    node_names: list[str] | None = None


class ExtenderFilterResult(_Message, omit_defaults=False):
    """Which nodes are left, and why not the others."""

    node_names: list[str]
    failed_nodes: dict[str, str] = {}
    failed_and_unresolvable_nodes: dict[str, str] = {}
    """Those where making others leave would not help."""
    error: str = ""


class HostPriority(_Message, omit_defaults=False):
    """How good a node is."""

    host: str
    score: int


class ExtenderBindingArgs(_Message):
    """Which pod to bind where."""

    pod_name: str
    pod_namespace: str
    pod_uid: Uid = msgspec.field(name="PodUID")
    node: str


class ExtenderBindingResult(_Message, omit_defaults=False):
    """Empty: it is bound."""

    error: str = ""


class MetaPod(_Message, omit_defaults=False):
    """A pod by its uid."""

    uid: Uid = msgspec.field(name="UID")


class MetaVictims(_Message, omit_defaults=False):
    """Who would have to leave a node."""

    pods: list[MetaPod] | None = None
    num_pdb_violations: int = msgspec.field(name="NumPDBViolations", default=0)


class ExtenderPreemptionArgs(_Message):
    """Of preempt."""

    pod: SchedulerPod
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class ExtenderPreemptionResult(_Message, omit_defaults=False):
    """The nodes where it would help."""

    node_name_to_meta_victims: dict[str, MetaVictims]


class MalformedRequestError(ValueError):
    """What came is no call of kube-scheduler's."""


_FILTER: Final = msgspec.json.Decoder(ExtenderArgs)
_BIND: Final = msgspec.json.Decoder(ExtenderBindingArgs)
_PREEMPT: Final = msgspec.json.Decoder(ExtenderPreemptionArgs)


def decode_filter_args(body: bytes) -> tuple[SchedulerPod, list[str]]:
    """Read a call of filter or prioritize. Raises MalformedCallError."""
    found = _decoded(_FILTER, body)
    if found.node_names is None:
        raise MalformedRequestError(
            "no NodeNames: set nodeCacheCapable: true for this extender in the scheduler's file"
        )
    return found.pod, found.node_names


def decode_binding_args(body: bytes) -> ExtenderBindingArgs:
    """Read a call of bind. Raises MalformedCallError."""
    return _decoded(_BIND, body)


def decode_preemption_args(body: bytes) -> tuple[SchedulerPod, dict[str, MetaVictims]]:
    """Read a call of preempt. Raises MalformedCallError."""
    found = _decoded(_PREEMPT, body)
    return found.pod, found.node_name_to_meta_victims or {}


def _decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:
        raise MalformedRequestError(f"no call of kube-scheduler's: {error}") from error
