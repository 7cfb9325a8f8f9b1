"""The reported use of a node, from its NodeMetric: only what can be true.

A NodeMetric is written by the agent of its node and may hold anything. An amount that is absent, no quantity or
negative is not known, never 0. Amounts are billionths of a CPU or of a byte, as in `dra.model.quantities`.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from dra.api.koordinator.well_known import RESOURCE_GPU_CORE
from dra.model.meta import Struct
from dra.model.node_metrics import HostApplicationMetricInfo, NodeMetric, PodMetricInfo, ResourceUsage
from dra.model.quantities import NANOS_PER_UNIT, MalformedQuantityError, to_nanos

BATCH_PRIORITIES: Final = frozenset({"koord-batch", "koord-free"})
"""Priority classes whose pods get what others leave, and are not subtracted from it."""

PODS_MAX: Final = 1024
"""Maximum number of pods in one NodeMetric, and of applications of the host; a report with more is not believed at
all."""


PERCENT_MAX: Final = 100.0

GPUS_MAX: Final = 128
"""GPUs of a report that are read; what a report says about more of them is not known."""

UUID_MAX: Final = 64
"""Characters of a UUID: more than an attribute of a device can have."""

_NO_GPUS: Final[Mapping[str, float]] = MappingProxyType({})


class Usage(Struct, frozen=True):
    """An amount of CPUs and memory in billionths; None if it is not known."""

    cpu: int | None = None
    memory: int | None = None

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(cpu=_sum(self.cpu, other.cpu), memory=_sum(self.memory, other.memory))


NOTHING: Final = Usage(cpu=0, memory=0)
UNKNOWN: Final = Usage()


class PodUsage(Struct, frozen=True):
    """The reported use of a pod, which may exist or not."""

    namespace: str
    name: str
    uid: str
    usage: Usage
    is_batch: bool
    """Whether the report gives it a priority class of batch pods."""
    cpu_pressure_percent: float | None = None
    """Percent of the last minute in which some process of the pod waited for a CPU; None if that is not known."""


class NodeUsage(Struct, frozen=True):
    """The reported use of a node."""

    update_time: str
    system: Usage
    """What runs in no pod, applications of the host with a high priority included."""

    pods: tuple[PodUsage, ...] = ()
    batch_at_floor: bool = False
    """Whether batch pods are held back as far as they can be."""

    gpus: Mapping[str, float] = _NO_GPUS
    """Percent of the window of the report in which each GPU has computed, by UUID; only where that is known."""

    @property
    def is_complete(self) -> bool:
        """Whether anything can be computed from the report."""
        return self.system != UNKNOWN


def node_usage(metric: NodeMetric, *, share: Callable[[str], str] = str) -> NodeUsage | None:
    """Return what a NodeMetric reports; None before the first report.

    `share` returns the one copy of a name or uid that the process keeps.
    """
    status = metric.status
    if not status.update_time:
        return None
    pods, applications = status.pods_metric or (), status.host_application_metric or ()
    if status.node_metric is None or len(pods) > PODS_MAX or len(applications) > PODS_MAX:
        return NodeUsage(update_time=status.update_time, system=UNKNOWN)
    system = _usage(status.node_metric.system_usage)
    for application in applications:
        system += _application_usage(application)
    return NodeUsage(
        update_time=status.update_time,
        system=system,
        pods=tuple(_pod_usage(pod, share=share) for pod in pods),
        batch_at_floor=status.suppression is not None and status.suppression.at_floor,
        gpus=_gpus(status.node_metric.node_usage),
    )


def _gpus(usage: ResourceUsage | None) -> Mapping[str, float]:
    listed = (usage.devices if usage is not None else None) or ()
    percents = {}
    for device in listed[:GPUS_MAX]:
        uuid, percent = device.get("id"), _core_percent(device)
        if device.get("type") == "gpu" and isinstance(uuid, str) and len(uuid) <= UUID_MAX and percent is not None:
            percents[uuid] = percent
    return percents or _NO_GPUS


def _core_percent(device: Mapping[str, Any]) -> float | None:
    resources = device.get("resources")
    text = resources.get(RESOURCE_GPU_CORE) if isinstance(resources, Mapping) else None
    nanos = _amount({RESOURCE_GPU_CORE: text}, RESOURCE_GPU_CORE) if isinstance(text, str | int) else None
    return None if nanos is None else nanos / NANOS_PER_UNIT


def _application_usage(application: HostApplicationMetricInfo) -> Usage:
    return NOTHING if application.priority in BATCH_PRIORITIES else _usage(application.usage)


def _pod_usage(pod: PodMetricInfo, *, share: Callable[[str], str]) -> PodUsage:
    return PodUsage(
        namespace=share(pod.namespace),
        name=share(pod.name),
        uid=share(pod.uid),
        usage=_usage(pod.pod_usage),
        is_batch=pod.priority in BATCH_PRIORITIES,
        cpu_pressure_percent=_cpu_pressure_percent(pod.psi),
    )


def _cpu_pressure_percent(psi: object) -> float | None:
    """Return ``cpu.some.avg60`` of a pressure; None if there is no such number between 0 and 100."""
    for key in ("cpu", "some", "avg60"):
        psi = psi.get(key) if isinstance(psi, Mapping) else None
    if isinstance(psi, bool) or not isinstance(psi, int | float):
        return None
    return float(psi) if 0 <= psi <= PERCENT_MAX else None


def _usage(usage: ResourceUsage | None) -> Usage:
    resources = (usage.resources if usage is not None else None) or {}
    return Usage(cpu=_amount(resources, "cpu"), memory=_amount(resources, "memory"))


def _amount(resources: Mapping[str, str | int], name: str) -> int | None:
    text = resources.get(name)
    if text is None:
        return None
    try:
        nanos = to_nanos(text)
    except MalformedQuantityError:
        return None
    return nanos if nanos >= 0 else None


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
