"""The CPU time and memory that pods and the system of an emulated node would use, if nothing held them back.

Nothing is measured, since containers are timers: annotations say what is used. Without one, a pod uses half of what it
requests, and the system of a node uses one CPU and 2Gi. Pure.
"""

from dataclasses import dataclass
from typing import Final

from dra.api.colocation.well_known import BATCH_CPU, BATCH_MEMORY
from dra.engine.kube_scheduler.pod_requests import pod_requests
from dra.model.nodes import Node
from dra.model.quantities import CPU, NANOS_PER_UNIT, MalformedQuantityError, to_nanos
from dra.model.scheduling import SchedulerPod

USAGE: Final = "local.reserve.dra/usage"
"""Annotation of a pod, or of a node for its system: ``cpu=1500m,memory=2Gi``."""

REQUESTED_PERCENT: Final = 50
"""The percentage of its requests that a pod without the annotation uses."""

MEMORY: Final = "memory"
_NANOS_PER_MILLI: Final = NANOS_PER_UNIT // 1000


class MalformedUsageError(ValueError):
    """The annotation does not say what is used; the text says what it must look like."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """CPU time in milli-CPUs, and memory in bytes."""

    cpu: int = 0
    memory: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(cpu=self.cpu + other.cpu, memory=self.memory + other.memory)


DEFAULT_SYSTEM_USAGE: Final = Usage(cpu=1000, memory=2 * 2**30)
"""What the system of a node without the annotation uses: its kubelet, its container runtime, its kernel."""


def pod_demand(pod: SchedulerPod) -> Usage:
    """Return what a running pod would use. Raises MalformedUsageError."""
    text = pod.metadata.annotation(USAGE)
    requested = requested_demand(pod)
    return requested if text is None else parse_usage(text, default=requested)


def requested_demand(pod: SchedulerPod) -> Usage:
    """Return what a running pod without the annotation uses: a part of its requests, batch resources included."""
    requests = pod_requests(pod)
    cpu = requests.get(CPU, 0) // _NANOS_PER_MILLI + requests.get(BATCH_CPU, 0) // NANOS_PER_UNIT
    memory = (requests.get(MEMORY, 0) + requests.get(BATCH_MEMORY, 0)) // NANOS_PER_UNIT
    return Usage(cpu=cpu * REQUESTED_PERCENT // 100, memory=memory * REQUESTED_PERCENT // 100)


def system_demand(node: Node) -> Usage:
    """Return what the system of a node would use. Raises MalformedUsageError."""
    text = node.metadata.annotation(USAGE)
    return DEFAULT_SYSTEM_USAGE if text is None else parse_usage(text, default=DEFAULT_SYSTEM_USAGE)


def parse_usage(text: str, *, default: Usage) -> Usage:
    """Return what an annotation says; what it does not name is the default's. Raises MalformedUsageError."""
    amounts: dict[str, int] = {}
    for part in text.split(","):
        name, separator, quantity = part.strip().partition("=")
        if not separator or name not in {CPU, MEMORY} or name in amounts:
            raise MalformedUsageError(
                f"{USAGE}: {part.strip()!r} must be cpu=… or memory=…, as in cpu=1500m,memory=2Gi"
            )
        try:
            amounts[name] = to_nanos(quantity)
        except MalformedQuantityError as error:
            raise MalformedUsageError(f"{USAGE}: {name}: {error}") from error
        if amounts[name] < 0:
            raise MalformedUsageError(f"{USAGE}: {name}: {quantity} is negative; write an amount of 0 or more")
    return Usage(
        cpu=amounts[CPU] // _NANOS_PER_MILLI if CPU in amounts else default.cpu,
        memory=amounts[MEMORY] // NANOS_PER_UNIT if MEMORY in amounts else default.memory,
    )
