"""Defines the kind Job (``batch/v1``)."""

from collections.abc import Mapping
from copy import deepcopy
from datetime import datetime
from typing import Any, Final

from localplane.kinds import columns, field_errors, label_selectors, objectmeta, pod_defaults, pod_validation
from localplane.kinds.kind import Kind, Strategy
from localplane.objects import Object
from localplane.status_errors import FieldError

COMPLETION_MODES: Final = ("NonIndexed", "Indexed")
UNLIMITED_BACKOFF: Final = 2**31 - 1

_UID_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")
_NAME_LABELS: Final = ("job-name", "batch.kubernetes.io/job-name")
_NON_NEGATIVE_FIELDS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_IMMUTABLE_FIELDS: Final = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_MUTABLE_WHILE_SUSPENDED: Final = ("nodeSelector", "tolerations", "schedulingGates", "affinity")
_MAX_INDEXED_PARALLELISM: Final = 100_000


class JobStrategy(Strategy):
    """The strategy of Jobs, which select their pods by uid and have an immutable pod template."""

    def default(self, obj: Object) -> None:
        """Default to one pod with six retries; set the other defaults."""
        spec = obj.setdefault("spec", {})
        if spec.get("completions") is None and spec.get("parallelism") is None:
            spec["completions"] = 1
        spec.setdefault("parallelism", 1)
        spec.setdefault("backoffLimit", UNLIMITED_BACKOFF if spec.get("backoffLimitPerIndex") is not None else 6)
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        policy = "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed"
        spec.setdefault("podReplacementPolicy", policy)
        spec.setdefault("manualSelector", False)
        template = spec.setdefault("template", {})
        labels = template.setdefault("metadata", {}).get("labels")
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)
        pod_defaults.set_template_defaults(template.setdefault("spec", {}))
        obj.setdefault("status", {})

    def prepare_for_create(self, obj: Object) -> None:
        """Set an empty status, and generate labels and selector unless ``manualSelector`` is set."""
        obj["status"] = {}
        spec, meta = obj["spec"], obj["metadata"]
        if spec["manualSelector"]:
            return
        labels = spec["template"]["metadata"].setdefault("labels", {})
        for keys, value in ((_NAME_LABELS, meta["name"]), (_UID_LABELS, meta["uid"])):
            for key in keys:
                labels.setdefault(key, value)
        chosen = spec.setdefault("selector", {}).setdefault("matchLabels", {})
        chosen.setdefault(_UID_LABELS[1], meta["uid"])
        if not meta.get("labels"):  # default again: upstream decodes, and so defaults, the stored object
            meta["labels"] = dict(labels)

    def validate(self, obj: Object) -> list[FieldError]:
        """Return the errors of numbers, selector and pod template."""
        spec = obj["spec"]
        causes = [] if spec.get("selector") else [field_errors.required("spec.selector")]
        return causes + _validate_spec(spec) + _validate_generated_selector(obj)

    def validate_update(self, new: Object, old: Object) -> list[FieldError]:
        """Return the errors of an update: the pod template is immutable, parallelism is not."""
        spec, before = new["spec"], old["spec"]
        if spec == before:
            return []
        causes = _validate_spec(spec)
        if spec.get("completions") != before.get("completions"):
            completions = spec.get("completions")
            if spec.get("completionMode") != "Indexed":
                causes += field_errors.validate_immutable("spec.completions", completions, before.get("completions"))
            elif completions is not None and completions != spec["parallelism"]:
                detail = "can only be modified in tandem with spec.parallelism"
                causes.append(field_errors.invalid("spec.completions", completions, detail))
        causes += field_errors.validate_immutable("spec.selector", spec.get("selector"), before.get("selector"))
        free = bool(before.get("suspend")) and not (old.get("status") or {}).get("startTime")
        causes += field_errors.validate_immutable(
            "spec.template",
            _immutable_template(spec["template"], free=free),
            _immutable_template(before["template"], free=free),
            text=spec["template"],
        )
        for name in _IMMUTABLE_FIELDS:
            causes += field_errors.validate_immutable(f"spec.{name}", spec.get(name), before.get(name))
        return causes

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Return the fields that field selectors support."""
        return {"status.successful": str((obj.get("status") or {}).get("succeeded", 0))}

    def table_cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the cells of ``kubectl get jobs``."""
        spec, status = obj["spec"], obj.get("status") or {}
        done, wanted, parallel = status.get("succeeded", 0), spec.get("completions"), spec.get("parallelism", 0)
        if wanted is None:
            wanted = f"1 of {parallel}" if parallel > 1 else "1"
        began, ended = columns.parse_time(status.get("startTime")), columns.parse_time(status.get("completionTime"))
        return {
            "Status": _status_cell(obj),
            "Completions": f"{done}/{wanted}",
            "Duration": "" if began is None else columns.human_duration(((ended or now) - began).total_seconds()),
            "Age": columns.age(obj, now),
            **columns.pod_template_cells(obj),
        }


def _validate_spec(spec: Object) -> list[FieldError]:
    causes = [
        cause for name in _NON_NEGATIVE_FIELDS for cause in field_errors.validate_non_negative("spec", spec, name)
    ]
    mode, parallelism = spec["completionMode"], spec["parallelism"]
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        causes.append(field_errors.required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if mode not in COMPLETION_MODES:
        causes.append(field_errors.not_supported("spec.completionMode", mode, COMPLETION_MODES))
    elif mode == "Indexed":
        if spec.get("completions") is None:
            causes.append(field_errors.required("spec.completions", "when completion mode is Indexed"))
        if parallelism > _MAX_INDEXED_PARALLELISM:
            detail = f"must be less than or equal to {_MAX_INDEXED_PARALLELISM} when completion mode is Indexed"
            causes.append(field_errors.invalid("spec.parallelism", parallelism, detail))
    else:
        causes += [
            field_errors.invalid(f"spec.{name}", spec[name], "requires indexed completion mode")
            for name in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")
            if spec.get(name) is not None
        ]
    template = spec["template"]
    causes += objectmeta.validate_template(template["metadata"], "spec.template.metadata")
    causes += pod_validation.validate("spec.template.spec", template["spec"])
    path, policy = "spec.template.spec.restartPolicy", template["spec"].get("restartPolicy")
    if policy == "Always":  # the default of pods, so the user has probably set none
        causes.append(field_errors.required(path, 'valid values: "OnFailure", "Never"'))
    elif policy == "OnFailure" and spec.get("podFailurePolicy") is not None:
        causes.append(
            field_errors.invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')
        )
    return causes


def _validate_generated_selector(job: Object) -> list[FieldError]:
    """Return the errors of a Job's selector; a generated selector must select exactly the Job's pods."""
    spec, meta = job["spec"], job["metadata"]
    labels, path = spec["template"]["metadata"].get("labels") or {}, "spec.template.metadata.labels"
    causes: list[FieldError] = []
    if not spec.get("selector"):
        return causes
    if not spec["manualSelector"]:
        for keys, value in ((_UID_LABELS, meta["uid"]), (_NAME_LABELS, meta["name"])):
            errors = [
                field_errors.invalid(path, labels, f"must be '{value}'") for key in keys if labels.get(key) != value
            ]
            causes += errors
        if (spec["selector"].get("matchLabels") or {}).get(_UID_LABELS[1]) != meta["uid"]:
            causes.append(field_errors.invalid("spec.selector", spec["selector"], "`selector` not auto-generated"))
    causes += label_selectors.validate("spec.selector", spec["selector"])
    if not label_selectors.matches(spec["selector"], labels):
        causes.append(field_errors.invalid(path, labels, "`selector` does not match template `labels`"))
    return causes


def _immutable_template(template: Object, *, free: bool) -> Object:
    """Return the immutable part of a pod template; `free` excludes scheduling fields, mutable before the Job starts."""
    if not free:
        return template
    rest = deepcopy(template)
    rest["metadata"] = {k: v for k, v in rest["metadata"].items() if k not in ("labels", "annotations")}
    rest["spec"] = {name: value for name, value in rest["spec"].items() if name not in _MUTABLE_WHILE_SUSPENDED}
    return rest


def _status_cell(job: Object) -> str:
    conditions = (job.get("status") or {}).get("conditions")
    for kind in ("Complete", "Failed"):
        if columns.is_condition_true(conditions, kind):
            return kind
    if "deletionTimestamp" in job["metadata"]:
        return "Terminating"
    states = ("Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((kind for kind in states if columns.is_condition_true(conditions, kind)), "Running")


KINDS: Final = (
    Kind(
        group="batch",
        plural="jobs",
        name="Job",
        categories=("all",),
        strategy=JobStrategy(),
        columns=(
            columns.NAME,
            *columns.strings("Status", "Completions", "Duration"),
            columns.AGE,
            *columns.CONTAINERS,
        ),
    ),
)
