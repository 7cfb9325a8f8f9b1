"""Control groups of resctrl: which one a pod's threads belong to, and how many more a machine can have.

The names are Koordinator's. Each control group takes a class of service of the hardware (a closid), of which there are
4 to 16: as many as the resource with the fewest has. The root group takes one, and groups of other tools the rest.
Groups of other tools are never written and never removed, and the threads in them stay: their owner put them there.
"""

from enum import StrEnum
from typing import Final

from dra.model.koordinator_classes import LABEL_QOS_CLASS, QosClass, effective_qos_class
from dra.model.pods import Pod

ROOT_GROUPS: Final = 1
"""Number of control groups that exist at all times: the root."""

SHAREABLE: Final = "shareable"
"""Mode of a group whose ways other groups may use, too; groups in any other mode belong to somebody."""

_SYSTEM: Final = "SYSTEM"


class ResctrlGroup(StrEnum):
    """A control group of ours, in the order in which groups are made while there are closids.

    BE comes first: it holds back the pods that the others are to be protected from.
    """

    BE = "BE"
    LS = "LS"
    LSR = "LSR"


_GROUPS: Final = {
    QosClass.BE: ResctrlGroup.BE,
    QosClass.LS: ResctrlGroup.LS,
    QosClass.LSR: ResctrlGroup.LSR,
    QosClass.LSE: ResctrlGroup.LSR,
}


def resctrl_group(pod: Pod, *, kubernetes_qos: str) -> ResctrlGroup | None:
    """Return the group of a pod's threads; None for pods of the class SYSTEM, which stay in the root group.

    Without a label of a QoS class, Kubernetes' class counts.
    """
    if (pod.metadata.labels or {}).get(LABEL_QOS_CLASS) == _SYSTEM:
        return None
    return _GROUPS.get(effective_qos_class(pod, kubernetes_qos=kubernetes_qos))


def runs_in_virtual_machine(runtime_class: str) -> bool:
    """Report whether the RuntimeClass of a pod is one of Kata Containers.

    The threads of such a pod are the virtual CPUs of a machine, which the runtime distributes over cgroups of its own.
    """
    return "kata" in runtime_class.lower()
