"""Koordinator's QoS classes, priority classes and NUMA policies of pods: labels, priority ranges and defaults.

Source: ``apis/extension`` of Koordinator 1.6. Without a label, the priority class follows from the pod's priority. By
default, the QoS class follows from Kubernetes' QoS class, and the priority class from the QoS class.
"""

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Final

from dra.model.pods import Pod

LABEL_QOS_CLASS: Final = "koordinator.sh/qosClass"
LABEL_PRIORITY_CLASS: Final = "koordinator.sh/priority-class"


class PriorityClass(IntEnum):
    """Koordinator's priority class; pods of a smaller one are evicted first."""

    FREE = 1
    BATCH = 2
    MID = 3
    PROD = 4
    NONE = 5


class QosClass(IntEnum):
    """Koordinator's QoS class; pods of a smaller one are evicted first. LSE and SYSTEM rank equal."""

    BE = 1
    LS = 2
    LSR = 3
    LSE = 4
    NONE = 5


class NumaTopologyPolicy(StrEnum):
    """Koordinator's policy for the NUMA nodes that a pod's CPUs and devices come from; each pod and node may have one.

    The words are those of the kubelet's Topology Manager.
    """

    NONE = "None"
    BEST_EFFORT = "BestEffort"
    RESTRICTED = "Restricted"
    """One NUMA node, or as few as possible for a request that is larger than a NUMA node."""
    SINGLE_NUMA_NODE = "SingleNUMANode"


PRIORITY_CLASS_NAMES: Final = {
    "koord-free": PriorityClass.FREE,
    "koord-batch": PriorityClass.BATCH,
    "koord-mid": PriorityClass.MID,
    "koord-prod": PriorityClass.PROD,
}
PRIORITY_RANGES: Final = (
    (9000, 9999, PriorityClass.PROD),
    (7000, 7999, PriorityClass.MID),
    (5000, 5999, PriorityClass.BATCH),
    (3000, 3999, PriorityClass.FREE),
)
_QOS_NAMES: Final = {
    "BE": QosClass.BE,
    "LS": QosClass.LS,
    "LSR": QosClass.LSR,
    "LSE": QosClass.LSE,
    "SYSTEM": QosClass.LSE,
}
_QOS_DEFAULTS: Final = {"Guaranteed": QosClass.LSR, "Burstable": QosClass.LS, "BestEffort": QosClass.BE}


def priority_class(pod: Pod) -> PriorityClass:
    """Return the priority class of a pod: by its label, or by its priority."""
    return find_priority_class(pod.metadata.labels or {}, priority=pod.spec.priority)


def find_priority_class(labels: Mapping[str, str], *, priority: int) -> PriorityClass:
    """Return the priority class that a label names, or else the one of a priority."""
    named = labels.get(LABEL_PRIORITY_CLASS)
    if named in PRIORITY_CLASS_NAMES:
        return PRIORITY_CLASS_NAMES[named]
    for low, high, known in PRIORITY_RANGES:  # asked for each pod of a cluster in each round of the descheduler
        if low <= priority <= high:
            return known
    return PriorityClass.NONE


def qos_class(pod: Pod) -> QosClass:
    """Return the QoS class in the label of a pod."""
    return _QOS_NAMES.get((pod.metadata.labels or {}).get(LABEL_QOS_CLASS, ""), QosClass.NONE)


def effective_qos_class(pod: Pod, *, kubernetes_qos: str) -> QosClass:
    """Return the QoS class of a pod: of its label, or the one that fits Kubernetes' QoS class."""
    named = qos_class(pod)
    return _QOS_DEFAULTS.get(kubernetes_qos, QosClass.NONE) if named is QosClass.NONE else named


def effective_priority_class(pod: Pod, *, kubernetes_qos: str) -> PriorityClass:
    """Return the priority class of a pod: its own, or else the one that fits its QoS class."""
    given = priority_class(pod)
    if given is not PriorityClass.NONE:
        return given
    match effective_qos_class(pod, kubernetes_qos=kubernetes_qos):
        case QosClass.BE:
            return PriorityClass.BATCH
        case QosClass.NONE:
            return PriorityClass.NONE
    return PriorityClass.PROD
