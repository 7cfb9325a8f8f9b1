"""Generated nodes with their NodeMetrics and pods, each a question: how much may batch pods have?

`Kind` names what a node is about; the kinds of `SPECIAL` have the nodes on which dra-reserve is meant to differ from
Koordinator, or that no healthy agent reports.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from dra.model.meta import Struct

Json = dict[str, Any]


class Kind(StrEnum):
    """What a node is about."""

    PLAIN = "plain"
    """All pods are measured."""
    UNREPORTED = "unreported"
    """Pods without a measurement, measurements without a pod, pods that have ended or are being deleted."""
    REQUESTS = "requests"
    """Init containers, overhead, limits without requests, classes told in several ways."""
    RESERVED = "reserved"
    """Annotation ``node.koordinator.sh/reservation``, and what the kubelet reserves."""
    STRATEGY = "strategy"
    """Strategies of nodeConfigs, annotations and labels."""
    POLICIES = "policies"
    """Memory and CPU by usage, by request, and by the greater of both."""
    AGE = "age"
    """Measurements of different ages, and none."""
    AMOUNTS = "amounts"
    """Quantities in unusual forms."""
    HOST = "host"
    """Applications of the host, which run in no pod."""

    PARTIAL = "partial"
    """A measurement of a pod without its memory."""
    UNCLASSED = "unclassed"
    """An application of the host without a priority class."""
    SIDECARS = "sidecars"
    """Restartable init containers of pods without a measurement."""
    GREATER = "greater"
    """Pods without a measurement, where the greater of usage and request counts."""
    LYING = "lying"
    """Measurements that cannot be."""
    INCOMPLETE = "incomplete"
    """A measurement without the usage of the system."""
    HELD = "held"
    """Batch pods that hold more than is left."""
    RATIO = "ratio"
    """Ratios that have no exact binary form, and texts that are no ratios."""


NUMBERS: Final[Mapping[Kind, int]] = {
    Kind.PLAIN: 80,
    Kind.UNREPORTED: 60,
    Kind.REQUESTS: 50,
    Kind.RESERVED: 40,
    Kind.STRATEGY: 40,
    Kind.POLICIES: 30,
    Kind.AGE: 20,
    Kind.AMOUNTS: 20,
    Kind.HOST: 10,
    Kind.PARTIAL: 4,
    Kind.UNCLASSED: 4,
    Kind.SIDECARS: 6,
    Kind.GREATER: 4,
    Kind.LYING: 12,
    Kind.INCOMPLETE: 4,
    Kind.HELD: 12,
    Kind.RATIO: 12,
}

SPECIAL: Final = frozenset(NUMBERS) - {
    Kind.PLAIN,
    Kind.UNREPORTED,
    Kind.REQUESTS,
    Kind.RESERVED,
    Kind.STRATEGY,
    Kind.POLICIES,
    Kind.AGE,
    Kind.AMOUNTS,
    Kind.HOST,
}

POOL: Final = "scenario.dra/pool"
"""The label by which nodeConfigs select nodes."""
SITE: Final = "scenario.dra/site"

DEGRADE_MINUTES: Final = 60
"""A run takes minutes, and no measurement may become stale meanwhile."""

CONFIGURATION: Final[Json] = {
    "enable": True,
    "cpuReclaimThresholdPercent": 60,
    "memoryReclaimThresholdPercent": 65,
    "degradeTimeMinutes": DEGRADE_MINUTES,
    "updateTimeThresholdSeconds": 300,
    "resourceDiffThreshold": 0.1,
    "nodeConfigs": [
        {
            "name": "generous",
            "nodeSelector": {"matchLabels": {POOL: "generous"}},
            "cpuReclaimThresholdPercent": 85,
            "memoryReclaimThresholdPercent": 90,
        },
        {"name": "cautious", "nodeSelector": {"matchLabels": {POOL: "cautious"}}, "cpuReclaimThresholdPercent": 33},
        {"name": "off", "nodeSelector": {"matchLabels": {POOL: "off"}}, "enable": False},
        {
            "name": "over",
            "nodeSelector": {"matchLabels": {POOL: "over"}},
            "cpuReclaimThresholdPercent": 130,
            "memoryReclaimThresholdPercent": 110,
        },
        {
            "name": "request",
            "nodeSelector": {"matchLabels": {POOL: "request"}},
            "memoryCalculatePolicy": "request",
        },
        {
            "name": "greater",
            "nodeSelector": {"matchLabels": {POOL: "greater"}},
            "cpuCalculatePolicy": "maxUsageRequest",
            "memoryCalculatePolicy": "maxUsageRequest",
        },
        {
            "name": "by-expression",
            "nodeSelector": {"matchExpressions": [{"key": SITE, "operator": "In", "values": ["a", "b"]}]},
            "memoryReclaimThresholdPercent": 40,
        },
    ],
}
"""``colocation-config``."""

PRIORITIES: Final[Mapping[str, int]] = {"koord-prod": 9000, "koord-mid": 7000, "koord-batch": 5000, "koord-free": 3000}
"""Values of the PriorityClasses."""

OVERHEAD: Final[Mapping[str, str]] = {"cpu": "250m", "memory": "120Mi"}


class Usage(Struct, frozen=True, array_like=True):
    """An amount of CPUs and of memory, as quantities; empty: the resource is not named."""

    cpu: str
    memory: str


class Pod(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pod, its measurement, or both."""

    qos: str = ""
    """Label ``koordinator.sh/qosClass``."""
    priority_class: str = ""
    """``priorityClassName``, by which the API server sets the priority."""
    class_label: str = ""
    """Label ``koordinator.sh/priority-class``."""
    containers: tuple[Json, ...] = ()
    """Resources of each container."""
    init: tuple[Json, ...] = ()
    """Resources of each init container; with ``restartPolicy`` it is a sidecar."""
    overhead: bool = False
    """Whether the pod's RuntimeClass needs `OVERHEAD`."""
    phase: str = "Running"
    deleted: bool = False
    exists: bool = True
    """Whether there is a pod: else the measurement is of one that is gone."""
    usage: Usage | None = None


class Case(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node with what is on it."""

    number: int
    kind: Kind
    capacity: Usage
    allocatable: Usage
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    pods: tuple[Pod, ...] = ()
    measured: bool = True
    """Whether the NodeMetric has a status."""
    age: int = 0
    """Seconds since the measurement."""
    system: Usage | None = None
    host: tuple[tuple[str, str, Usage], ...] = ()
    """Priority class, QoS class and usage of each application of the host."""

    @property
    def name(self) -> str:
        """The name of the node and of its NodeMetric."""
        return f"batch-{self.number:03}"

    @property
    def digest(self) -> str:
        """A digest of the case, by which a record says what it is the answer to."""
        return hashlib.sha256(msgspec.json.encode((self, CONFIGURATION))).hexdigest()[:12]
