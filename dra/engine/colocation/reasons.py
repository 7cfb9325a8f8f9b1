"""The reasons in Events of Nodes and of the ConfigMap: one value feeds Event, log line and metric."""

from enum import StrEnum

from dra.model.event_type import EventType
from dra.model.meta import Key, Struct, Uid


class ColocationReason(StrEnum):
    """Reasons of Events, in CamelCase as Kubernetes has them. The set is closed; metric labels use it."""

    CONFIG_INVALID = "ColocationConfigInvalid"
    CONFIG_QUESTIONABLE = "ColocationConfigQuestionable"
    NODE_CONFIGS_OVERLAP = "NodeConfigsOverlap"
    NODE_STRATEGY_INVALID = "NodeStrategyInvalid"
    BATCH_DEGRADED = "BatchResourcesDegraded"
    BATCH_UNDONE = "BatchResourcesUndone"
    REPORT_FROM_FUTURE = "NodeMetricFromFuture"
    PODS_WITHOUT_REPORT = "PodsWithoutMetric"


class SubjectKind(StrEnum):
    """The kind of the object that an Event is about."""

    NODE = "Node"
    CONFIG_MAP = "ConfigMap"


class ColocationEvent(Struct, frozen=True):
    """A state that began and lasts; one Event reports it."""

    reason: ColocationReason
    kind: SubjectKind
    key: Key
    uid: Uid
    text: str
    """Begins with the object."""

    severity: EventType = EventType.WARNING
