"""Pods with the profiles that apply to them: the same function as the admission policy profiles.reserve.dra.

All profiles are matched with the pod as it was before; then each sets its fields, in name order, so that the last one
wins; then the requests of a batch pod are translated. An API server runs admission a second time once it has changed a
pod, so a profile that selects a label which another one sets applies in the second round.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dra.api.profiles.parameters import Copy, Entry, ResolvedProfile
from dra.engine.profiles.batch_requests import is_batch, translate_containers
from dra.engine.profiles.selectors import find_unmet
from dra.engine.translation import pod_fields

Json = dict[str, Any]

ROUNDS: Final = 2
"""How often an API server runs the policies on a pod that they change."""


def matching_profiles(
    profiles: Iterable[ResolvedProfile], *, pod_labels: Mapping[str, str], namespace_labels: Mapping[str, str]
) -> list[ResolvedProfile]:
    """Return the profiles that apply to a pod, in their order."""
    return [
        profile
        for profile in profiles
        if find_unmet(profile.namespace_requirements, namespace_labels) is None
        and find_unmet(profile.pod_requirements, pod_labels) is None
    ]


def profiled_pod(
    pod: Mapping[str, Any], profiles: Sequence[ResolvedProfile], *, namespace_labels: Mapping[str, str]
) -> Json:
    """Return a pod as it is after admission; the pod itself if no profile applies to it.

    The integer priority is left out where the class changes: admission computes it from the class.
    """
    made = dict(pod)
    for _ in range(ROUNDS):
        made = _with_profiles(made, profiles, namespace_labels=namespace_labels)
    return made


def _with_profiles(pod: Json, profiles: Sequence[ResolvedProfile], *, namespace_labels: Mapping[str, str]) -> Json:
    if pod_fields.is_mirror(pod):
        return pod
    labels, annotations = pod_fields.labels(pod), pod_fields.annotations(pod)
    matched = matching_profiles(profiles, pod_labels=labels, namespace_labels=namespace_labels)
    if not matched:
        return pod
    metadata = dict(pod_fields.mapping(pod.get("metadata")))
    new_labels = {
        **labels,
        **_set_values([(profile.labels, profile.label_copies) for profile in matched], given=labels),
    }
    new_annotations = {
        **annotations,
        **_set_values([(profile.annotations, profile.annotation_copies) for profile in matched], given=annotations),
    }
    metadata |= {
        field: values for field, values in (("labels", new_labels), ("annotations", new_annotations)) if values
    }
    spec, priority = _with_fields(pod_fields.mapping(pod.get("spec")), matched)
    if is_batch(labels=new_labels, annotations=new_annotations, priority=priority):
        spec = translate_containers(spec)
    return {**pod, "metadata": metadata, "spec": spec}


def _set_values(parts: Iterable[tuple[Iterable[Entry], Iterable[Copy]]], *, given: Mapping[str, str]) -> dict[str, str]:
    """Return what profiles set, in their order: entries, then copies of what the pod had before."""
    values: dict[str, str] = {}
    for entries, copies in parts:
        values |= {entry.key: entry.value for entry in entries}
        values |= {copy.target: given[copy.source] for copy in copies if copy.source in given}
    return values


def _with_fields(given: Mapping[str, Any], matched: Sequence[ResolvedProfile]) -> tuple[Json, int]:
    """Return a spec with the fields that profiles set, and the priority that the pod will have."""
    spec = dict(given)
    number = spec.get("priority")
    priority = number if isinstance(number, int) else 0
    for profile in matched:
        if profile.scheduler_name:
            spec["schedulerName"] = profile.scheduler_name
        if profile.termination_grace_period_seconds is not None:
            spec["terminationGracePeriodSeconds"] = profile.termination_grace_period_seconds
    classed = [profile for profile in matched if profile.priority_class_name]
    if classed:
        priority = classed[-1].priority
        if spec.get("priorityClassName", "") != classed[-1].priority_class_name:
            spec["priorityClassName"] = classed[-1].priority_class_name
            spec.pop("priority", None)
            spec.pop("preemptionPolicy", None)
    return spec, priority
