"""Defines PriorityClasses, and sets the priority of new pods."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from dra.model.releases import Traits
from localplane import status_errors
from localplane.kinds import columns, field_errors
from localplane.kinds.kind import Kind, NoStatusStrategy
from localplane.objects import Object, ObjectLister
from localplane.status_errors import FieldError

PRIORITY_CLASSES: Final = "priorityclasses.scheduling.k8s.io"

_HIGHEST_USER_DEFINABLE_PRIORITY: Final = 1_000_000_000
"""Maximum value of a PriorityClass that a user creates."""

_PREEMPT_LOWER_PRIORITY: Final = "PreemptLowerPriority"
_PREEMPTION_POLICIES: Final = ("Never", _PREEMPT_LOWER_PRIORITY)
_SYSTEM_PREFIX: Final = "system-"

SYSTEM_PRIORITY_CLASSES: Final[tuple[Object, ...]] = tuple(
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": _PREEMPT_LOWER_PRIORITY,
        "description": f"Used for system critical pods that {must}.",
    }
    for name, value, must in (
        ("system-node-critical", 2_000_001_000, "must not be moved from their current node"),
        ("system-cluster-critical", 2_000_000_000, "must run in the cluster, but can be moved to another node"),
    )
)
"""PriorityClasses that exist from the start."""


class PriorityClassStrategy(NoStatusStrategy):
    """The strategy of PriorityClasses, whose value is immutable."""

    def __init__(self, traits: Traits) -> None:
        """Create the strategy of a release."""
        self._declared = traits.declared_priorities

    def default(self, obj: Object) -> None:
        """Default to preemption of lower priorities, and to value 0."""
        obj.setdefault("preemptionPolicy", _PREEMPT_LOWER_PRIORITY)
        obj.setdefault("value", 0)

    def validate(self, obj: Object) -> list[FieldError]:
        """Return the errors of names and values that are reserved for the system, and of the preemption policy."""
        name, value = obj["metadata"]["name"], obj["value"]
        causes = []
        if name.startswith(_SYSTEM_PREFIX):
            known = next(
                (
                    priority_class
                    for priority_class in SYSTEM_PRIORITY_CLASSES
                    if priority_class["metadata"]["name"] == name
                ),
                None,
            )
            if known is None or value != known["value"] or obj.get("globalDefault"):
                detail = "priority class names with 'system-' prefix are reserved for system use only. error: "
                why = (
                    f"{name} is not a known system priority class"
                    if known is None
                    else f"value of {name} PriorityClass must be {known['value']}"
                    if value != known["value"]
                    else f"globalDefault of {name} PriorityClass must be false"
                )
                causes.append(field_errors.forbidden("metadata.name", detail + why))
        elif value > _HIGHEST_USER_DEFINABLE_PRIORITY:
            detail = f"maximum allowed value of a user defined priority is {_HIGHEST_USER_DEFINABLE_PRIORITY}"
            causes.append(field_errors.forbidden("value", detail))
        return causes + field_errors.validate_enum("preemptionPolicy", obj["preemptionPolicy"], _PREEMPTION_POLICIES)

    def validate_update(self, new: Object, old: Object) -> list[FieldError]:
        """Return the errors of an update; value and preemptionPolicy are immutable."""
        causes = field_errors.validate_immutable("value", new["value"], old["value"])
        if causes and not self._declared:
            causes = [field_errors.forbidden("value", "may not be changed in an update.")]
        return causes + field_errors.validate_immutable(
            "preemptionPolicy", new["preemptionPolicy"], old["preemptionPolicy"]
        )

    def table_cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the cells of ``kubectl get priorityclasses``."""
        return {
            "Value": obj["value"],
            "Global-Default": bool(obj.get("globalDefault")),
            "Age": columns.age(obj, now),
            "PreemptionPolicy": obj.get("preemptionPolicy", ""),
        }


def set_pod_priority(pod: Object, objects: ObjectLister) -> None:
    """Set the priority of a new pod from its PriorityClass or the global default; raises `StatusError` 403."""
    spec, pod_name = pod["spec"], pod["metadata"]["name"]
    name = spec.get("priorityClassName")
    if name:
        priority_class = objects.get_object(PRIORITY_CLASSES, name)
        if priority_class is None:
            raise status_errors.forbidden("pods", "", pod_name, f"no PriorityClass with name {name} was found")
    else:
        defaults = [candidate for candidate in objects.list_objects(PRIORITY_CLASSES) if candidate.get("globalDefault")]
        priority_class = min(defaults, key=lambda candidate: candidate["value"], default=None)
        if priority_class is not None:
            spec["priorityClassName"] = priority_class["metadata"]["name"]
    value = 0 if priority_class is None else priority_class["value"]
    policy = (
        _PREEMPT_LOWER_PRIORITY
        if priority_class is None
        else priority_class.get("preemptionPolicy", _PREEMPT_LOWER_PRIORITY)
    )
    for what, word, wanted in (
        ("priority", "integer value of priority", value),
        ("preemptionPolicy", "string value of PreemptionPolicy", policy),
    ):
        if spec.get(what, wanted) != wanted:
            why = (
                f"the {word} ({spec[what]}) must not be provided in pod spec; "
                f"priority admission controller computed {wanted} from the given PriorityClass name"
            )
            raise status_errors.forbidden("pods", "", pod_name, why)
        spec[what] = wanted


def priority_class_kinds(traits: Traits) -> tuple[Kind, ...]:
    """Return the kind of a release of Kubernetes."""
    return (
        Kind(
            group="scheduling.k8s.io",
            plural="priorityclasses",
            name="PriorityClass",
            namespaced=False,
            short_names=("pc",),
            subresources=(),
            strategy=PriorityClassStrategy(traits),
            columns=(
                columns.NAME,
                *columns.integers("Value"),
                *columns.strings("Global-Default"),
                columns.AGE,
                *columns.wide("PreemptionPolicy"),
            ),
        ),
    )
