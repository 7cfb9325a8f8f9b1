"""Deployments and ReplicaSets: pods that are to stay."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from dra.local.kinds import causes, columns, label_selectors, objectmeta, pod_defaults, pod_rules
from dra.local.kinds.kind import Kind, Strategy
from dra.local.kinds.scales import Scale
from dra.local.kinds.subresource import STATUS
from dra.local.objects import Object
from dra.local.refusals import Cause

_ROLLING: Final = "RollingUpdate"
_RECREATE: Final = "Recreate"
_QUARTER: Final = "25%"
_PERCENT: Final = re.compile("([0-9]+)%")
_PERCENT_FAULT: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
_DEPLOYMENT: Final[Mapping[str, Any]] = {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}


class ReplicaSetStrategy(Strategy):
    """So many pods of one template; which are its own, the selector says for good."""

    def default(self, obj: Object) -> None:
        """Want one."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        template = spec.setdefault("template", {})
        template.setdefault("metadata", {})
        pod_defaults.template(template.setdefault("spec", {}))
        obj.setdefault("status", {"replicas": 0})

    def prepare_create(self, obj: Object) -> None:
        """Begin with none."""
        obj["status"] = {"replicas": 0}

    def validate(self, obj: Object) -> list[Cause]:
        """Check numbers, selector and template."""
        return _replicated(obj["spec"], obj["spec"].get("replicas", 0))

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Keep the selector."""
        if new["spec"] == old["spec"]:
            return []
        found = self.validate(new)
        return found + causes.immutable("spec.selector", new["spec"].get("selector"), old["spec"].get("selector"))

    def fields(self, obj: Object) -> Mapping[str, str]:
        """Return what can be selected by."""
        return {"status.replicas": str((obj.get("status") or {}).get("replicas", 0))}

    def cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return what ``kubectl get replicasets`` shows."""
        status = obj.get("status") or {}
        return {
            "Desired": obj["spec"].get("replicas", 0),
            "Current": status.get("replicas", 0),
            "Ready": status.get("readyReplicas", 0),
            "Age": columns.age(obj, now),
            **columns.template(obj),
        }


class DeploymentStrategy(ReplicaSetStrategy):
    """ReplicaSets in turn, as the template changes."""

    def default(self, obj: Object) -> None:
        """Replace a quarter at a time."""
        spec = obj.setdefault("spec", {})
        for name, value in _DEPLOYMENT.items():
            spec.setdefault(name, value)
        strategy = spec.setdefault("strategy", {})
        strategy.setdefault("type", _ROLLING)
        if strategy["type"] == _ROLLING:
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", _QUARTER)
            rolling.setdefault("maxSurge", _QUARTER)
        obj.setdefault("status", {})
        super().default(obj)

    def prepare_create(self, obj: Object) -> None:
        """Begin without a status."""
        obj["status"] = {}

    def validate(self, obj: Object) -> list[Cause]:
        """Check also how it is rolled out."""
        spec = obj["spec"]
        found = super().validate(obj) + _rollout(spec["strategy"])
        for name in ("revisionHistoryLimit", "progressDeadlineSeconds"):
            found += causes.not_negative("spec", spec, name)
        if spec["progressDeadlineSeconds"] <= spec.get("minReadySeconds", 0):
            detail = "must be greater than minReadySeconds"
            found.append(causes.invalid("spec.progressDeadlineSeconds", spec["progressDeadlineSeconds"], detail))
        return found

    def fields(self, obj: Object) -> Mapping[str, str]:
        """Return what can be selected by: nothing of its own."""
        del obj
        return {}

    def cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return what ``kubectl get deployments`` shows."""
        status = obj.get("status") or {}
        return {
            "Ready": f"{status.get('readyReplicas', 0)}/{obj['spec'].get('replicas', 0)}",
            "Up-to-date": status.get("updatedReplicas", 0),
            "Available": status.get("availableReplicas", 0),
            "Age": columns.age(obj, now),
            **columns.template(obj),
        }


def _replicated(spec: Object, replicas: int) -> list[Cause]:
    found = causes.not_negative("spec", {"replicas": replicas}, "replicas")
    found += causes.not_negative("spec", spec, "minReadySeconds")
    selector, template = spec.get("selector"), spec["template"]
    labels = template["metadata"].get("labels") or {}
    if selector is None:
        found.append(causes.required("spec.selector"))
    else:
        found += label_selectors.validate("spec.selector", selector)
        if not (selector.get("matchLabels") or selector.get("matchExpressions")):
            found.append(causes.invalid("spec.selector", selector, "empty selector is invalid for deployment"))
    if selector is None or not label_selectors.matches(selector, labels):  # none selects nothing
        detail = "`selector` does not match template `labels`"
        found.append(causes.invalid("spec.template.metadata.labels", labels or None, detail))
    found += objectmeta.validate_template(template["metadata"], "spec.template.metadata")
    found += pod_rules.validate("spec.template.spec", template["spec"])
    if (policy := template["spec"].get("restartPolicy")) != "Always":
        found.append(causes.unsupported("spec.template.spec.restartPolicy", policy, ("Always",)))
    if template["spec"].get("activeDeadlineSeconds") is not None:
        detail = "activeDeadlineSeconds in ReplicaSet is not Supported"
        found.append(causes.forbidden("spec.template.spec.activeDeadlineSeconds", detail))
    return found


def _rollout(strategy: Object) -> list[Cause]:
    kind, rolling = strategy["type"], strategy.get("rollingUpdate")
    path = "spec.strategy.rollingUpdate"
    if kind == _RECREATE:
        detail = "may not be specified when strategy `type` is 'Recreate'"
        return [] if rolling is None else [causes.forbidden(path, detail)]
    if kind != _ROLLING or rolling is None:
        go = {"Type": kind, "RollingUpdate": rolling}
        return [causes.unsupported("spec.strategy", go, (_RECREATE, _ROLLING))]
    away, more = rolling["maxUnavailable"], rolling["maxSurge"]
    found = _share(f"{path}.maxUnavailable", away) + _share(f"{path}.maxSurge", more)
    if not found and _number(away) == 0 and _number(more) == 0:
        found.append(causes.invalid(f"{path}.maxUnavailable", away, "may not be 0 when `maxSurge` is 0"))
    if isinstance(away, str) and _number(away) > 100:  # noqa: PLR2004 - percent
        found.append(causes.invalid(f"{path}.maxUnavailable", away, "must not be greater than 100%"))
    return found


def _share(path: str, value: int | str) -> list[Cause]:
    if isinstance(value, str):
        return [] if _PERCENT.fullmatch(value) else [causes.invalid(path, value, _PERCENT_FAULT)]
    return [] if value >= 0 else [causes.invalid(path, value, "must be greater than or equal to 0")]


def _number(value: int | str) -> int:
    if isinstance(value, int):
        return value
    found = _PERCENT.fullmatch(value)
    return int(found[1]) if found else 0


KINDS: Final = (
    Kind(
        group="apps",
        plural="deployments",
        name="Deployment",
        short_names=("deploy",),
        categories=("all",),
        subresources=(STATUS, Scale()),
        strategy=DeploymentStrategy(),
        columns=(
            columns.NAME,
            *columns.plain("Ready", "Up-to-date", "Available"),
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
        subresources=(STATUS, Scale()),
        strategy=ReplicaSetStrategy(),
        columns=(columns.NAME, *columns.numbers("Desired", "Current", "Ready"), columns.AGE, *columns.CONTAINERS),
    ),
)
