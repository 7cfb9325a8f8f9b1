"""Rules on QoS classes and priority classes: combinations that are refused, and fields that cannot be changed.

Pods that are bound to CPUs have the priority class koord-prod, pods with QoS class BE any lower one. As in Koordinator,
these rules read what a pod names, without defaults; unlike Koordinator, they apply to LSE as well as to LSR.
"""

from collections.abc import Mapping
from typing import Any, Final

from dra.api.koordinator import well_known
from dra.engine.translation import pod_fields
from dra.engine.translation.requests import Refusal
from dra.model.koordinator_classes import (
    LABEL_PRIORITY_CLASS,
    LABEL_QOS_CLASS,
    PRIORITY_CLASS_NAMES,
    PriorityClass,
    QosClass,
    find_priority_class,
)

BOUND_CLASSES: Final = ("LSE", "LSR")
"""Values of the QoS label for which a pod is bound to CPUs."""
BEST_EFFORT: Final = "BE"

ALLOWED_PRIORITY_CLASSES: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(BOUND_CLASSES, ("koord-prod",)),
    BEST_EFFORT: ("koord-mid", "koord-batch", "koord-free"),
}
"""QoS class → the priority classes with which it can be combined; other QoS classes have no limit."""

NO_CLASS: Final = "none"
BATCH_RESOURCES: Final = ("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory")

QOS_PATH: Final = f"metadata.labels[{LABEL_QOS_CLASS}]"
COMBINATION_TEXT: Final = (
    f"{LABEL_QOS_CLASS}={{qos}} and priorityClass={{class}} cannot be used in combination; "
    f"set priorityClassName or label {LABEL_PRIORITY_CLASS} to one of: {{allowed}}"
)
BATCH_TEXT: Final = (
    f"must specify koordinator QoS BE with koordinator colocation resources; set label {LABEL_QOS_CLASS} to BE"
)
IMMUTABLE_TEXT: Final = "field is immutable; create a new pod"

IMMUTABLE_LABELS: Final = (LABEL_QOS_CLASS, well_known.LABEL_PRIORITY)
PRIORITY_CLASS_PATH: Final = f"metadata.labels[{LABEL_PRIORITY_CLASS}]"

_NAMES: Final = {priority_class: name for name, priority_class in PRIORITY_CLASS_NAMES.items()} | {
    PriorityClass.NONE: NO_CLASS
}


def qos_label(pod: Mapping[str, Any]) -> str:
    """Return the value of a pod's QoS label; empty without one."""
    return pod_fields.labels(pod).get(LABEL_QOS_CLASS, "")


def bound_class(pod: Mapping[str, Any]) -> QosClass | None:
    """Return the QoS class of a pod that is bound to CPUs; None for any other pod."""
    label = qos_label(pod)
    return QosClass[label] if label in BOUND_CLASSES else None


def priority_class_name(pod: Mapping[str, Any]) -> str:
    """Return the name of a pod's priority class: by label, else by priority; `NO_CLASS` without either.

    Before admission a pod may have the name of a PriorityClass alone; Koordinator's are known by name.
    """
    spec = pod_fields.mapping(pod.get("spec"))
    priority, named = spec.get("priority"), spec.get("priorityClassName")
    if priority is None and isinstance(named, str) and named in PRIORITY_CLASS_NAMES and not _has_known_label(pod):
        return named
    number = priority if isinstance(priority, int) else 0
    return _NAMES[find_priority_class(pod_fields.labels(pod), priority=number)]


def class_refusals(pod: Mapping[str, Any]) -> list[Refusal]:
    """Return the refusals of a pod's classes: of the combination, then of batch resources in containers."""
    qos, refusals = qos_label(pod), []
    allowed, named = ALLOWED_PRIORITY_CLASSES.get(qos), priority_class_name(pod)
    if allowed is not None and named not in allowed:
        text = COMBINATION_TEXT.format_map({"qos": qos, "class": named, "allowed": ", ".join(allowed)})
        refusals.append(Refusal(QOS_PATH, text))
    if qos != BEST_EFFORT:
        refusals += [
            Refusal(f"{container.path}.requests[{name}]", BATCH_TEXT)
            for container in pod_fields.containers(pod)
            for name in BATCH_RESOURCES
            if container.requested(name) is not None
        ]
    return refusals


def change_refusals(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Refusal]:
    """Return the refusals of an update: the QoS class, the priority class and its sub-priority stay as they are."""
    before, after = pod_fields.labels(old), pod_fields.labels(new)
    changed = [f"metadata.labels[{name}]" for name in IMMUTABLE_LABELS if before.get(name) != after.get(name)]
    if priority_class_name(old) != priority_class_name(new):
        changed.append(PRIORITY_CLASS_PATH)
    return [Refusal(path, IMMUTABLE_TEXT) for path in changed]


def _has_known_label(pod: Mapping[str, Any]) -> bool:
    return pod_fields.labels(pod).get(LABEL_PRIORITY_CLASS) in PRIORITY_CLASS_NAMES
