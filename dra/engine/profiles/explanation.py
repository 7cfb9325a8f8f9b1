"""Why a profile applies to a pod, or the first test that fails: of the profile, of the namespace, of the pod."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dra.api.profiles.model import Requirement
from dra.api.profiles.parameters import Entry, ResolvedProfile
from dra.engine.profiles.evaluation import Evaluation, Outcome
from dra.engine.profiles.selectors import find_unmet, requirement_text
from dra.engine.translation import pod_fields
from dra.model.meta import Struct


class Answer(Struct, frozen=True):
    """The answer for one profile and one pod."""

    profile: str
    applies: bool
    text: str
    """Why, and what to do."""


def explain(
    evaluation: Evaluation,
    pod: Mapping[str, Any],
    *,
    namespace_labels: Mapping[str, str],
    in_effect: Sequence[str],
    is_created: bool = True,
) -> Iterator[Answer]:
    """Yield the answers for all profiles, and for a pod that exists, or is only in a manifest.

    ``in_effect`` are the names of the profiles that the policy applies as they are.
    """
    for outcome in evaluation.outcomes:
        applies, text = _answer(
            outcome, pod, namespace_labels=namespace_labels, in_effect=in_effect, is_created=is_created
        )
        conflict = f"; {outcome.conflict_text}" if applies and outcome.conflicts else ""
        yield Answer(profile=outcome.name, applies=applies, text=f"{text}{conflict}")


def _answer(
    outcome: Outcome,
    pod: Mapping[str, Any],
    *,
    namespace_labels: Mapping[str, str],
    in_effect: Sequence[str],
    is_created: bool,
) -> tuple[bool, str]:
    profile = outcome.applied
    if profile is None:
        return False, outcome.reason[1]
    tests = (
        _namespace_fault(profile, pod, namespace_labels=namespace_labels),
        _selector_fault(profile, pod),
        "the pod is a mirror of a static pod, which no policy changes" if pod_fields.is_mirror(pod) else "",
        _effect_fault(profile, pod, is_in_effect=profile.name in in_effect),
        _content_fault(profile, pod) if is_created else "",
    )
    fault = next(filter(None, tests), "")
    return not fault, fault or "applies"


def _namespace_fault(profile: ResolvedProfile, pod: Mapping[str, Any], *, namespace_labels: Mapping[str, str]) -> str:
    unmet = find_unmet(profile.namespace_requirements, namespace_labels)
    if unmet is None:
        return ""
    namespace = str(pod_fields.mapping(pod.get("metadata")).get("namespace", ""))
    text = f"namespaceSelector: namespace {namespace} does not meet {requirement_text(unmet)}"
    return text + _remedy(unmet)


def _selector_fault(profile: ResolvedProfile, pod: Mapping[str, Any]) -> str:
    unmet = find_unmet(profile.pod_requirements, pod_fields.labels(pod))
    if unmet is None or _is_changed(unmet, profile):
        return ""
    text = f"selector: the pod does not meet {requirement_text(unmet)}"
    return f"{text}; profiles apply to new pods, so set the label in the pod template"


def _effect_fault(profile: ResolvedProfile, pod: Mapping[str, Any], *, is_in_effect: bool) -> str:
    """Return the fault of a profile that the policy does not apply.

    A pod may have all of it without a policy: from ``kubectl dra apply``, or from the local plane.
    """
    if is_in_effect or (_sets_fields(profile) and not _missing(profile, pod)):
        return ""
    return "the profile as it is now is not in effect; see: kubectl dra colocation apply --dry-run"


def _content_fault(profile: ResolvedProfile, pod: Mapping[str, Any]) -> str:
    missing = _missing(profile, pod)
    return missing and (
        f"it applies to new pods, but the pod lacks {missing}: the pod is older than the profile, "
        "or a later profile or a webhook has changed it; create the pod anew"
    )


def _remedy(unmet: Requirement) -> str:
    if unmet.operator != "In" or not unmet.values:
        return ""
    return f"; pods that are created once it has label {unmet.key}={unmet.values[0]} get the profile"


def _is_changed(unmet: Requirement, profile: ResolvedProfile) -> bool:
    """Report whether the profile itself sets the label that it selects by."""
    return any(label.key == unmet.key for label in profile.labels)


def _missing(profile: ResolvedProfile, pod: Mapping[str, Any]) -> str:
    """Return the first field that the profile sets and the pod does not have; empty if it has all."""
    spec = pod_fields.mapping(pod.get("spec"))
    for field, entries, values in (
        ("label", profile.labels, pod_fields.labels(pod)),
        ("annotation", profile.annotations, pod_fields.annotations(pod)),
    ):
        if (lacking := _first_missing(entries, values)) is not None:
            return f"{field} {lacking.key}={lacking.value}"
    for name, value in (
        ("schedulerName", profile.scheduler_name),
        ("priorityClassName", profile.priority_class_name),
        ("terminationGracePeriodSeconds", profile.termination_grace_period_seconds),
    ):
        if value not in ("", None) and spec.get(name) != value:
            return f"spec.{name}={value}"
    return ""


def _sets_fields(profile: ResolvedProfile) -> bool:
    """Report whether a pod shows that it has the profile: one that sets no field only translates requests."""
    return bool(
        profile.labels
        or profile.annotations
        or profile.scheduler_name
        or profile.priority_class_name
        or profile.termination_grace_period_seconds is not None
    )


def _first_missing(entries: Sequence[Entry], values: Mapping[str, str]) -> Entry | None:
    return next((entry for entry in entries if values.get(entry.key) != entry.value), None)
