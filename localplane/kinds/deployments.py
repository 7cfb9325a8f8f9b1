"""Defines Deployments and ReplicaSets."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from localplane.kinds import (
    columns,
    field_errors,
    int_or_percent,
    label_selectors,
    objectmeta,
    pod_defaults,
    pod_validation,
)
from localplane.kinds.kind import Kind, Strategy
from localplane.kinds.scale import WorkloadScale
from localplane.kinds.subresource import STATUS
from localplane.objects import Object
from localplane.status_errors import FieldError

_ROLLING: Final = "RollingUpdate"
_RECREATE: Final = "Recreate"
_QUARTER: Final = "25%"
_DEPLOYMENT_DEFAULTS: Final[Mapping[str, Any]] = {
    "replicas": 1,
    "revisionHistoryLimit": 10,
    "progressDeadlineSeconds": 600,
}


class ReplicaSetStrategy(Strategy):
    """The strategy of ReplicaSets: a number of pods from one template, with an immutable selector."""

    def default(self, obj: Object) -> None:
        """Default to one replica; set the defaults of the pod template."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        template = spec.setdefault("template", {})
        template.setdefault("metadata", {})
        pod_defaults.set_template_defaults(template.setdefault("spec", {}))
        obj.setdefault("status", {"replicas": 0})

    def prepare_for_create(self, obj: Object) -> None:
        """Set an initial status with zero replicas."""
        obj["status"] = {"replicas": 0}

    def validate(self, obj: Object) -> list[FieldError]:
        """Return the errors of numbers, selector and pod template."""
        return _validate_replica_set_spec(obj["spec"], obj["spec"].get("replicas", 0))

    def validate_update(self, new: Object, old: Object) -> list[FieldError]:
        """Return the errors of an update; the selector is immutable."""
        if new["spec"] == old["spec"]:
            return []
        causes = self.validate(new)
        return causes + field_errors.validate_immutable(
            "spec.selector", new["spec"].get("selector"), old["spec"].get("selector")
        )

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Return the fields that field selectors support."""
        return {"status.replicas": str((obj.get("status") or {}).get("replicas", 0))}

    def table_cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the cells of ``kubectl get replicasets``."""
        status = obj.get("status") or {}
        return {
            "Desired": obj["spec"].get("replicas", 0),
            "Current": status.get("replicas", 0),
            "Ready": status.get("readyReplicas", 0),
            "Age": columns.age(obj, now),
            **columns.pod_template_cells(obj),
        }


class DeploymentStrategy(ReplicaSetStrategy):
    """The strategy of Deployments, which roll out changes of their template by new ReplicaSets."""

    def default(self, obj: Object) -> None:
        """Default to a rolling update of a quarter of the pods at a time; set the other defaults."""
        spec = obj.setdefault("spec", {})
        for name, value in _DEPLOYMENT_DEFAULTS.items():
            spec.setdefault(name, value)
        strategy = spec.setdefault("strategy", {})
        strategy.setdefault("type", _ROLLING)
        if strategy["type"] == _ROLLING:
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", _QUARTER)
            rolling.setdefault("maxSurge", _QUARTER)
        obj.setdefault("status", {})
        super().default(obj)

    def prepare_for_create(self, obj: Object) -> None:
        """Set an empty initial status."""
        obj["status"] = {}

    def validate(self, obj: Object) -> list[FieldError]:
        """Return the errors of a ReplicaSet's fields and of the deployment strategy."""
        spec = obj["spec"]
        causes = super().validate(obj) + _validate_deployment_strategy(spec["strategy"])
        for name in ("revisionHistoryLimit", "progressDeadlineSeconds"):
            causes += field_errors.validate_non_negative("spec", spec, name)
        if spec["progressDeadlineSeconds"] <= spec.get("minReadySeconds", 0):
            detail = "must be greater than minReadySeconds"
            causes.append(field_errors.invalid("spec.progressDeadlineSeconds", spec["progressDeadlineSeconds"], detail))
        return causes

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Return no fields: Deployments support only metadata fields in field selectors."""
        del obj
        return {}

    def table_cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the cells of ``kubectl get deployments``."""
        status = obj.get("status") or {}
        return {
            "Ready": f"{status.get('readyReplicas', 0)}/{obj['spec'].get('replicas', 0)}",
            "Up-to-date": status.get("updatedReplicas", 0),
            "Available": status.get("availableReplicas", 0),
            "Age": columns.age(obj, now),
            **columns.pod_template_cells(obj),
        }


def _validate_replica_set_spec(spec: Object, replicas: int) -> list[FieldError]:
    causes = field_errors.validate_non_negative("spec", {"replicas": replicas}, "replicas")
    causes += field_errors.validate_non_negative("spec", spec, "minReadySeconds")
    selector, template = spec.get("selector"), spec["template"]
    labels = template["metadata"].get("labels") or {}
    if selector is None:
        causes.append(field_errors.required("spec.selector"))
    else:
        causes += label_selectors.validate("spec.selector", selector)
        if not (selector.get("matchLabels") or selector.get("matchExpressions")):
            causes.append(field_errors.invalid("spec.selector", selector, "empty selector is invalid for deployment"))
    if selector is None or not label_selectors.matches(selector, labels):  # a missing selector matches no labels
        detail = "`selector` does not match template `labels`"
        causes.append(field_errors.invalid("spec.template.metadata.labels", labels or None, detail))
    causes += objectmeta.validate_template(template["metadata"], "spec.template.metadata")
    causes += pod_validation.validate("spec.template.spec", template["spec"])
    if (policy := template["spec"].get("restartPolicy")) != "Always":
        causes.append(field_errors.not_supported("spec.template.spec.restartPolicy", policy, ("Always",)))
    if template["spec"].get("activeDeadlineSeconds") is not None:
        detail = "activeDeadlineSeconds in ReplicaSet is not Supported"
        causes.append(field_errors.forbidden("spec.template.spec.activeDeadlineSeconds", detail))
    return causes


def _validate_deployment_strategy(strategy: Object) -> list[FieldError]:
    kind, rolling = strategy["type"], strategy.get("rollingUpdate")
    path = "spec.strategy.rollingUpdate"
    if kind == _RECREATE:
        detail = "may not be specified when strategy `type` is 'Recreate'"
        return [] if rolling is None else [field_errors.forbidden(path, detail)]
    if kind != _ROLLING or rolling is None:
        go = {"Type": kind, "RollingUpdate": rolling}
        return [field_errors.not_supported("spec.strategy", go, (_RECREATE, _ROLLING))]
    away, more = rolling["maxUnavailable"], rolling["maxSurge"]
    causes = int_or_percent.validate(f"{path}.maxUnavailable", away) + int_or_percent.validate(f"{path}.maxSurge", more)
    if not causes and int_or_percent.number_of(away) == 0 and int_or_percent.number_of(more) == 0:
        causes.append(field_errors.invalid(f"{path}.maxUnavailable", away, "may not be 0 when `maxSurge` is 0"))
    causes += int_or_percent.validate_at_most_100_percent(f"{path}.maxUnavailable", away)
    return causes


KINDS: Final = (
    Kind(
        group="apps",
        plural="deployments",
        name="Deployment",
        short_names=("deploy",),
        categories=("all",),
        subresources=(STATUS, WorkloadScale()),
        strategy=DeploymentStrategy(),
        columns=(
            columns.NAME,
            *columns.strings("Ready", "Up-to-date", "Available"),
            columns.AGE,
            *columns.CONTAINERS,
        ),
    ),
    Kind(
        group="apps",
        plural="replicasets",
        name="ReplicaSet",
        short_names=("rs",),
        categories=("all",),
        subresources=(STATUS, WorkloadScale()),
        strategy=ReplicaSetStrategy(),
        columns=(columns.NAME, *columns.integers("Desired", "Current", "Ready"), columns.AGE, *columns.CONTAINERS),
    ),
)
