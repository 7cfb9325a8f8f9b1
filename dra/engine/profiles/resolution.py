"""Resolution of a profile: the fields that it sets in pods, or why no admission policy can apply it.

The order of the fields within one profile is Koordinator's: labels, copied keys, QoS class, priority, patch; later ones
win. A profile applies as a whole or not at all: half of it can be worse than nothing, as a QoS class without the
tolerations that its patch adds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from dra.api.koordinator.well_known import LABEL_PRIORITY
from dra.api.profiles.model import ClusterColocationProfile, Requirement
from dra.api.profiles.parameters import (
    MAX_ENTRIES,
    MAX_REQUIREMENTS,
    MAX_VALUE_LENGTH,
    MAX_VALUES,
    Copy,
    Entry,
    ResolvedProfile,
)
from dra.api.profiles.well_known import ANNOTATION_SKIP_RESOURCES
from dra.engine.profiles import keys
from dra.engine.translation import pod_fields
from dra.model.koordinator_classes import LABEL_QOS_CLASS
from dra.model.meta import Struct
from dra.model.preemption import PriorityClass

ALWAYS: Final = (None, 100, "100%")
NEVER: Final = (0, "0%", "0")
GRACE_PERIOD: Final = "terminationGracePeriodSeconds"
SYSTEM_CLASS_PREFIX: Final = "system-"


class Refusal(Struct, frozen=True):
    """A reason for which a profile is not applied: the path of a field, and what to do."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


class Resolution(Struct, frozen=True):
    """A profile as the policy applies it; None with the reasons if no policy can."""

    profile: ResolvedProfile | None = None
    refusals: tuple[Refusal, ...] = ()
    missing_class: str = ""
    """The PriorityClass that does not exist yet."""
    disabled: bool = False
    """Whether the probability is zero."""


def resolve(profile: ClusterColocationProfile, *, priorities: Mapping[str, int]) -> Resolution:
    """Return what a profile sets; ``priorities`` are the values of all PriorityClasses by name."""
    spec = profile.spec
    if spec.probability in NEVER:
        return Resolution(disabled=True)
    refusals = (
        *_unknown_fields(profile),
        *_probability_refusals(profile),
        *_selector_refusals(profile),
        *_class_refusals(spec.priority_class_name),
        *_value_refusals(profile),
        *_patch_refusals(spec.patch),
        *_key_refusals(profile),
        *_size_refusals(profile),
    )
    if refusals:
        return Resolution(refusals=refusals)
    if spec.priority_class_name and spec.priority_class_name not in priorities:
        return Resolution(missing_class=spec.priority_class_name)
    late_labels, late_annotations = _late_entries(profile)
    return Resolution(
        profile=ResolvedProfile(
            name=profile.metadata.name,
            namespace_requirements=spec.namespace_selector.requirements,
            pod_requirements=spec.selector.requirements,
            labels=_entries({**spec.labels, **late_labels}),
            label_copies=_copies(spec.label_keys_mapping, hidden=late_labels),
            annotations=_entries({**spec.annotations, **late_annotations}),
            annotation_copies=_copies(spec.annotation_keys_mapping, hidden=late_annotations),
            scheduler_name=spec.scheduler_name,
            priority_class_name=spec.priority_class_name,
            priority=priorities.get(spec.priority_class_name, 0),
            termination_grace_period_seconds=pod_fields.mapping(spec.patch.get("spec")).get(GRACE_PERIOD),
        )
    )


def priorities_of(classes: Iterable[PriorityClass]) -> dict[str, int]:
    """Return the values of PriorityClasses by name."""
    return {priority_class.metadata.name: priority_class.value for priority_class in classes}


def _late_entries(profile: ClusterColocationProfile) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels and annotations that win over copied keys."""
    spec = profile.spec
    labels = {}
    if spec.qos_class is not None:
        labels[LABEL_QOS_CLASS] = spec.qos_class.value
    if spec.koordinator_priority is not None:
        labels[LABEL_PRIORITY] = str(spec.koordinator_priority)
    patched = pod_fields.mapping(spec.patch.get("metadata"))
    annotations = dict(pod_fields.mapping(patched.get("annotations")))
    if ANNOTATION_SKIP_RESOURCES in profile.metadata.annotations:
        annotations[ANNOTATION_SKIP_RESOURCES] = profile.metadata.annotations[ANNOTATION_SKIP_RESOURCES]
    return {**labels, **pod_fields.mapping(patched.get("labels"))}, annotations


def _entries(values: Mapping[str, str]) -> tuple[Entry, ...]:
    return tuple(Entry(key=key, value=value) for key, value in sorted(values.items()))


def _copies(mapping: Mapping[str, str], *, hidden: Mapping[str, str]) -> tuple[Copy, ...]:
    return tuple(
        Copy(source=source, target=target) for source, target in sorted(mapping.items()) if target not in hidden
    )


def _unknown_fields(profile: ClusterColocationProfile) -> list[Refusal]:
    return [Refusal(f"spec.{name}", "is not supported; remove it") for name in sorted(profile.spec.model_extra or {})]


def _probability_refusals(profile: ClusterColocationProfile) -> list[Refusal]:
    if profile.spec.probability in ALWAYS:
        return []
    text = "admission policies draw no chance, so only 0% and 100% are supported; select pods by a label instead"
    return [Refusal("spec.probability", text)]


def _selector_refusals(profile: ClusterColocationProfile) -> list[Refusal]:
    return [
        Refusal(f"spec.{field}", text)
        for field, selector in (
            ("namespaceSelector", profile.spec.namespace_selector),
            ("selector", profile.spec.selector),
        )
        for requirement in selector.requirements
        for text in _requirement_refusals(requirement)
    ]


def _requirement_refusals(requirement: Requirement) -> list[str]:
    refusals = []
    if not keys.is_qualified_name(requirement.key):
        refusals.append(f"{requirement.key!r} is no key of a label")
    if wrong := [value for value in requirement.values if not keys.is_label_value(value)]:
        refusals.append(f"{requirement.key}: {wrong[0]!r} is no value of a label")
    if bool(requirement.values) != (requirement.operator in ("In", "NotIn")):
        refusals.append(f"{requirement.key}: operator {requirement.operator} has {len(requirement.values)} values")
    return refusals


def _class_refusals(name: str) -> list[Refusal]:
    if not name.startswith(SYSTEM_CLASS_PREFIX):
        return []
    return [Refusal("spec.priorityClassName", f"{name} is a class of the system; use one of Koordinator's")]


def _value_refusals(profile: ClusterColocationProfile) -> list[Refusal]:
    spec, refusals = profile.spec, []
    if spec.koordinator_priority is not None and spec.koordinator_priority < 0:
        refusals.append(Refusal("spec.koordinatorPriority", "must be 0 or more, since it becomes the value of a label"))
    refusals += [
        Refusal(f"spec.{field}", f"{value[:MAX_VALUE_LENGTH]!r} is no name")
        for field, value in (
            ("schedulerName", spec.scheduler_name),
            ("priorityClassName", spec.priority_class_name),
        )
        if not keys.is_object_name(value)
    ]
    return refusals


def _patch_refusals(patch: Mapping[str, Any]) -> list[Refusal]:
    """Return the parts of a patch other than labels, annotations and the grace period."""
    refusals = [_unsupported(f"patch.{part}") for part in sorted(patch.keys() - {"metadata", "spec"})]
    for part, fields in (("metadata", ("labels", "annotations")), ("spec", (GRACE_PERIOD,))):
        given = patch.get(part, {})
        if not isinstance(given, Mapping):
            refusals.append(_unsupported(f"patch.{part}"))
            continue
        refusals += [_unsupported(f"patch.{part}.{field}") for field in sorted(map(str, given.keys() - set(fields)))]
    metadata, spec = pod_fields.mapping(patch.get("metadata")), pod_fields.mapping(patch.get("spec"))
    for field in ("labels", "annotations"):
        given = metadata.get(field, {})
        if not isinstance(given, Mapping) or not all(isinstance(value, str) for value in given.values()):
            refusals.append(
                Refusal(f"spec.patch.metadata.{field}", "must map keys to texts; removals are not supported")
            )
    seconds = spec.get(GRACE_PERIOD, 0)
    if not isinstance(seconds, int) or isinstance(seconds, bool) or not 0 <= seconds < 2**31:
        refusals.append(Refusal(f"spec.patch.spec.{GRACE_PERIOD}", "must be a number of seconds, 0 or more"))
    return refusals


def _unsupported(path: str) -> Refusal:
    text = "is not supported: a profile patches metadata.labels, metadata.annotations and "
    return Refusal(f"spec.{path}", f"{text}spec.{GRACE_PERIOD}; set the field in the pod templates")


def _key_refusals(profile: ClusterColocationProfile) -> list[Refusal]:
    spec = profile.spec
    patched = pod_fields.mapping(spec.patch.get("metadata"))
    refusals = []
    fields: Sequence[tuple[str, object, Callable[[str], bool]]] = (
        ("labels", spec.labels, keys.is_label_value),
        ("annotations", spec.annotations, keys.is_annotation_value),
        ("patch.metadata.labels", patched.get("labels"), keys.is_label_value),
        ("patch.metadata.annotations", patched.get("annotations"), keys.is_annotation_value),
        ("labelKeysMapping", spec.label_keys_mapping, keys.is_settable),
        ("annotationKeysMapping", spec.annotation_keys_mapping, keys.is_settable),
    )
    for field, given, is_valid in fields:
        for key, value in sorted(pod_fields.mapping(given).items(), key=str):
            copied = field.endswith("KeysMapping")
            if not keys.is_qualified_name(key) or not (copied or keys.is_settable(key)):
                refusals.append(Refusal(f"spec.{field}[{key}]", _KEY_TEXT))
            elif isinstance(value, str) and not is_valid(value):
                limit = f"longer than {MAX_VALUE_LENGTH} characters" if "nnotations" in field else "no value of a label"
                refusals.append(Refusal(f"spec.{field}[{key}]", _KEY_TEXT if copied else limit))
    return refusals


_KEY_TEXT: Final = "is no key that a profile can set: not of Kubernetes' or dra-reserve's own, and a valid name"


def _size_refusals(profile: ClusterColocationProfile) -> list[Refusal]:
    spec = profile.spec
    labels, annotations = _late_entries(profile)
    sizes = {
        "labels": (len({**spec.labels, **labels}), MAX_ENTRIES),
        "annotations": (len({**spec.annotations, **annotations}), MAX_ENTRIES),
        "labelKeysMapping": (len(spec.label_keys_mapping), MAX_ENTRIES),
        "annotationKeysMapping": (len(spec.annotation_keys_mapping), MAX_ENTRIES),
        "namespaceSelector": (len(spec.namespace_selector.requirements), MAX_REQUIREMENTS),
        "selector": (len(spec.selector.requirements), MAX_REQUIREMENTS),
    }
    refusals = [
        Refusal(f"spec.{field}", f"has {size} entries, more than {limit}")
        for field, (size, limit) in sizes.items()
        if size > limit
    ]
    for field, selector in (("namespaceSelector", spec.namespace_selector), ("selector", spec.selector)):
        refusals += [
            Refusal(f"spec.{field}", f"{requirement.key}: has {len(requirement.values)} values, more than {MAX_VALUES}")
            for requirement in selector.requirements
            if len(requirement.values) > MAX_VALUES
        ]
    return refusals
