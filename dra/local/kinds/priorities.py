"""PriorityClasses, and what they mean for a new pod."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from dra.local import refusals
from dra.local.kinds import causes, columns
from dra.local.kinds.kind import Kind, Others, WholeStrategy
from dra.local.objects import Object
from dra.local.refusals import Cause

COLLECTION: Final = "priorityclasses.scheduling.k8s.io"

_HIGHEST: Final = 1_000_000_000
"""Of classes that users make."""

_PREEMPT: Final = "PreemptLowerPriority"
_POLICIES: Final = ("Never", _PREEMPT)
_SYSTEM: Final = "system-"

SYSTEM_CLASSES: Final[tuple[Object, ...]] = tuple(
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": _PREEMPT,
        "description": f"Used for system critical pods that {must}.",
    }
    for name, value, must in (
        ("system-node-critical", 2_000_001_000, "must not be moved from their current node"),
        ("system-cluster-critical", 2_000_000_000, "must run in the cluster, but can be moved to another node"),
    )
)
"""What is there from the start."""


class PriorityClassStrategy(WholeStrategy):
    """A name for a number; the number stays what it is."""

    def default(self, obj: Object) -> None:
        """Let it preempt."""
        obj.setdefault("preemptionPolicy", _PREEMPT)
        obj.setdefault("value", 0)

    def validate(self, obj: Object) -> list[Cause]:
        """Keep the highest values and the prefix for the system."""
        name, value = obj["metadata"]["name"], obj["value"]
        found = []
        if name.startswith(_SYSTEM):
            known = next((each for each in SYSTEM_CLASSES if each["metadata"]["name"] == name), None)
            if known is None or value != known["value"] or obj.get("globalDefault"):
                detail = "priority class names with 'system-' prefix are reserved for system use only. error: "
                why = (
                    f"{name} is not a known system priority class"
                    if known is None
                    else f"value of {name} PriorityClass must be {known['value']}"
                    if value != known["value"]
                    else f"globalDefault of {name} PriorityClass must be false"
                )
                found.append(causes.forbidden("metadata.name", detail + why))
        elif value > _HIGHEST:
            detail = f"maximum allowed value of a user defined priority is {_HIGHEST}"
            found.append(causes.forbidden("value", detail))
        return found + causes.one_of("preemptionPolicy", obj["preemptionPolicy"], _POLICIES)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Keep the number."""
        found = []
        if new["value"] != old["value"]:
            found.append(causes.forbidden("value", "may not be changed in an update."))
        return found + causes.immutable("preemptionPolicy", new["preemptionPolicy"], old["preemptionPolicy"])

    def cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return what ``kubectl get priorityclasses`` shows."""
        return {
            "Value": obj["value"],
            "Global-Default": bool(obj.get("globalDefault")),
            "Age": columns.age(obj, now),
            "PreemptionPolicy": obj.get("preemptionPolicy", ""),
        }


def of_pod(pod: Object, others: Others) -> None:
    """Write the priority of its class, or of the default one, into a new pod; raises `Refusal` 403."""
    spec, pod_name = pod["spec"], pod["metadata"]["name"]
    name = spec.get("priorityClassName")
    if name:
        found = others.find(COLLECTION, name)
        if found is None:
            raise refusals.forbidden("pods", "", pod_name, f"no PriorityClass with name {name} was found")
    else:
        defaults = [each for each in others.every(COLLECTION) if each.get("globalDefault")]
        found = min(defaults, key=lambda each: each["value"], default=None)
        if found is not None:
            spec["priorityClassName"] = found["metadata"]["name"]
    value = 0 if found is None else found["value"]
    policy = _PREEMPT if found is None else found.get("preemptionPolicy", _PREEMPT)
    for what, word, wanted in (
        ("priority", "integer value of priority", value),
        ("preemptionPolicy", "string value of PreemptionPolicy", policy),
    ):
        if spec.get(what, wanted) != wanted:
            why = (
                f"the {word} ({spec[what]}) must not be provided in pod spec; "
                f"priority admission controller computed {wanted} from the given PriorityClass name"
            )
            raise refusals.forbidden("pods", "", pod_name, why)
        spec[what] = wanted


KINDS: Final = (
    Kind(
        group="scheduling.k8s.io",
        plural="priorityclasses",
        name="PriorityClass",
        namespaced=False,
        short_names=("pc",),
        subresources=(),
        strategy=PriorityClassStrategy(),
        columns=(
            columns.NAME,
            *columns.numbers("Value"),
            *columns.plain("Global-Default"),
            columns.AGE,
            *columns.wide("PreemptionPolicy"),
        ),
    ),
)
