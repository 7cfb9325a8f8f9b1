"""Defines Pods with the subresources binding and eviction."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from dra.kube.clock import rfc3339
from dra.model.name_validation import NameFormat
from dra.model.releases import Traits
from localplane import status_errors
from localplane.kinds import (
    colocation_profiles,
    evictions,
    field_errors,
    koordinator_requests,
    objectmeta,
    pod_columns,
    pod_defaults,
    pod_validation,
    priority_classes,
)
from localplane.kinds.kind import Kind, NoStatusStrategy, Strategy
from localplane.kinds.subresource import STATUS, ActionResult, DeleteOptions, Subresource
from localplane.objects import Object, ObjectLister, metadata
from localplane.status_errors import FieldError, StatusError

FINISHED_PHASES: Final = ("Succeeded", "Failed")

_GATED_MESSAGE: Final = "Scheduling is blocked due to non-empty scheduling gates"
_ALREADY_BOUND_MESSAGE: Final = "may not be set on pods that are already bound to a node"


class PodStrategy(Strategy):
    """The strategy of Pods, whose spec hardly changes: schedulers bind pods, kubelets write their status."""

    def __init__(self, traits: Traits) -> None:
        """Create the strategy of a release."""
        self._names_gated_fields = traits.names_gated_fields

    def default(self, obj: Object) -> None:
        """Set the defaults of the pod spec."""
        pod_defaults.set_pod_defaults(obj.setdefault("spec", {}))

    def prepare_for_create(self, obj: Object) -> None:
        """Set admission defaults, phase Pending and, for a gated pod, the condition SchedulingGated."""
        spec = obj["spec"]
        pod_defaults.set_admission_defaults(spec)
        obj["status"] = {"phase": "Pending", "qosClass": pod_defaults.compute_qos_class(spec)}
        if spec.get("schedulingGates"):
            at = obj["metadata"]["creationTimestamp"]
            set_condition(obj, "PodScheduled", status="False", at=at, reason="SchedulingGated", message=_GATED_MESSAGE)

    def prepare_for_update(self, new: Object, old: Object) -> None:
        """Restore the status, and keep the fields that admission has set."""
        super().prepare_for_update(new, old)
        for name in ("priority", "preemptionPolicy", "serviceAccountName", "serviceAccount"):
            if name in old["spec"]:
                new["spec"].setdefault(name, old["spec"][name])

    def prepare_for_status_update(self, new: Object, old: Object) -> None:
        """Restore spec, owner references and QoS class; a status update may also change labels and annotations."""
        new["spec"] = old["spec"]
        meta, before = metadata(new), metadata(old)
        meta.pop("ownerReferences", None)
        if "ownerReferences" in before:
            meta["ownerReferences"] = before["ownerReferences"]
        had = old.get("status") or {}
        status = new.setdefault("status", {})
        if had.get("qosClass"):
            status.setdefault("qosClass", had["qosClass"])

    def admit(self, obj: Object, objects: ObjectLister) -> list[FieldError]:
        """Set the priority of the pod from its PriorityClass, apply profiles, and translate Koordinator's requests."""
        priority_classes.set_pod_priority(obj, objects)
        refused = colocation_profiles.admit_pod(obj, objects)
        return refused or koordinator_requests.admit_pod(obj, objects)

    def admit_update(self, new: Object, old: Object, objects: ObjectLister) -> list[FieldError]:
        """Return the errors of a change of classes that Koordinator's form makes immutable."""
        return koordinator_requests.admit_pod_update(new, old, objects)

    def validate(self, obj: Object) -> list[FieldError]:
        """Return the errors in the spec of a new pod."""
        spec = obj["spec"]
        causes = pod_validation.validate("spec", spec)
        if spec.get("nodeName") and spec.get("schedulingGates"):
            detail = "cannot be set until all schedulingGates have been cleared"
            causes.append(field_errors.forbidden("spec.nodeName", detail))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[FieldError]:
        """Return the errors of an update: most of the spec is immutable, and the status is validated."""
        causes = pod_validation.validate_update(new, old, names_gated_fields=self._names_gated_fields)
        if new["spec"] != old["spec"]:
            causes = pod_validation.validate("spec", new["spec"]) + causes
        status, had = new.get("status") or {}, old.get("status") or {}
        if status == had:
            return causes
        causes += field_errors.validate_immutable(
            "status.qosClass", status.get("qosClass", ""), had.get("qosClass", "")
        )
        nominated = status.get("nominatedNodeName", "")
        if nominated and nominated != had.get("nominatedNodeName") and old["spec"].get("nodeName"):
            causes.append(field_errors.forbidden("status.nominatedNodeName", _ALREADY_BOUND_MESSAGE))
        return causes + pod_validation.validate_resource_claim_statuses(new)

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Return the fields that field selectors support."""
        spec, status = obj["spec"], obj.get("status") or {}
        addresses = status.get("podIPs") or [{}]
        return {
            "spec.nodeName": spec.get("nodeName", ""),
            "spec.restartPolicy": spec.get("restartPolicy", ""),
            "spec.schedulerName": spec.get("schedulerName", ""),
            "spec.serviceAccountName": spec.get("serviceAccountName", ""),
            "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
            "status.phase": status.get("phase", ""),
            "status.podIP": addresses[0].get("ip", ""),
            "status.nominatedNodeName": status.get("nominatedNodeName", ""),
        }

    def table_cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the cells of ``kubectl get pods``."""
        return pod_columns.cells(obj, now=now)

    def grace_period_seconds(self, obj: Object, requested: int | None) -> int:
        """Return the grace period for the kubelet; 0 for a pod that is unscheduled or finished."""
        spec = obj["spec"]
        if not spec.get("nodeName") or (obj.get("status") or {}).get("phase") in FINISHED_PHASES:
            return 0
        seconds = spec.get("terminationGracePeriodSeconds", 0) if requested is None else requested
        return 1 if seconds < 0 else int(seconds)


class BindingSubresource(Subresource):
    """The subresource ``pods/binding``, by which a scheduler assigns a pod to a node."""

    name = "binding"
    version = "v1"
    kind = "Binding"
    verbs = ("create",)

    def __init__(self, traits: Traits) -> None:
        """Create the subresource of a release."""
        self._stricter = traits.stricter_bindings

    def create(self, obj: Object, body: Object, *, objects: ObjectLister, now: datetime) -> ActionResult:
        """Set the node of the pod; raises `StatusError` if the pod cannot be bound."""
        del objects
        meta, spec = metadata(obj), obj["spec"]
        name, binding_metadata, target = meta["name"], body.get("metadata") or {}, body.get("target") or {}
        if binding_metadata.get("name", name) != name:
            raise status_errors.bad_request("name in URL does not match name in Binding object")
        _check_binding(target, binding_metadata if self._stricter else {})
        _check_preconditions(meta, binding_metadata)
        if "deletionTimestamp" in meta:
            raise _binding_conflict(name, f"pod {name} is being deleted, cannot be assigned to a host")
        if spec.get("nodeName"):
            raise _binding_conflict(name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
        if spec.get("schedulingGates"):
            raise _binding_conflict(name, f"pod {name} has non-empty .spec.schedulingGates")
        spec["nodeName"] = target["name"]
        obj.setdefault("status", {}).pop("nominatedNodeName", None)
        for field_name in ("annotations", "labels"):
            if binding_metadata.get(field_name):
                meta[field_name] = {**(meta.get(field_name) or {}), **binding_metadata[field_name]}
        set_condition(obj, "PodScheduled", status="True", at=rfc3339(now))
        return ActionResult()


class EvictionSubresource(Subresource):
    """The subresource ``pods/eviction``, which deletes a pod if the pod's PodDisruptionBudget allows a disruption."""

    name = "eviction"
    group = "policy"
    version = "v1"
    kind = "Eviction"
    verbs = ("create",)

    def create(self, obj: Object, body: Object, *, objects: ObjectLister, now: datetime) -> ActionResult:
        """Set the condition DisruptionTarget; return the deletion and the changed PodDisruptionBudget."""
        name, options = metadata(obj)["name"], body.get("deleteOptions") or {}
        if (body.get("metadata") or {}).get("name", name) != name:
            raise status_errors.bad_request("name in URL does not match name in Eviction object")
        preconditions = options.get("preconditions") or {}
        evictions.check_preconditions(metadata(obj), preconditions)  # before the condition changes the version
        changed = evictions.take_disruption(obj, objects, now=now)
        why = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
        set_condition(obj, "DisruptionTarget", status="True", at=rfc3339(now), **why)
        delete = DeleteOptions(
            grace_period_seconds=options.get("gracePeriodSeconds"),
            propagation_policy=options.get("propagationPolicy"),
            uid=preconditions.get("uid"),
        )
        return ActionResult(delete=delete, changed=changed, dry_run=bool(options.get("dryRun")))


def set_condition(pod: Object, kind: str, *, status: str, at: str, reason: str = "", message: str = "") -> None:
    """Set a condition of a pod; lastTransitionTime changes only together with the condition's status."""
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    condition = next((entry for entry in conditions if entry.get("type") == kind), None)
    if condition is None:
        condition = {"type": kind}
        conditions.append(condition)
    since = condition.get("lastTransitionTime", at) if condition.get("status") == status else at
    probed = condition.get("lastProbeTime")
    condition.clear()
    condition.update({"type": kind, "status": status, "lastProbeTime": probed, "lastTransitionTime": since})
    condition.update({name: text for name, text in (("reason", reason), ("message", message)) if text})


def _check_binding(target: Object, written: Object) -> None:
    """Raise `StatusError` for a target that is no node, or for metadata that no object may have."""
    kind = target.get("kind", "")
    errors = [] if kind in ("", "Node") else [field_errors.not_supported("target.kind", kind, ("Node", "<empty>"))]
    if not target.get("name"):
        errors.append(field_errors.required("target.name"))
    errors += objectmeta.validate_annotations("metadata.annotations", written.get("annotations") or {})
    errors += objectmeta.validate_labels("metadata.labels", written.get("labels") or {})
    if errors:  # upstream returns the bare field error, which becomes an internal error
        texts = ", ".join(f"{error.field}: {error.message}" for error in errors)
        message = f"[{texts}]" if len(errors) > 1 else texts
        raise StatusError(
            500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]}
        )


def _check_preconditions(meta: Object, wanted: Object) -> None:
    for what, name in (("UID", "uid"), ("ResourceVersion", "resourceVersion")):
        if wanted.get(name) and wanted[name] != meta[name]:
            why = f"Precondition failed: {what} in precondition: {wanted[name]}, {what} in object meta: {meta[name]}"
            raise status_errors.conflict("pods", "", meta["name"], why)


def _binding_conflict(name: str, why: str) -> StatusError:
    return status_errors.conflict("pods/binding", "", name, why)


BINDINGS: Final = Kind(
    plural="bindings",
    name="Binding",
    subresources=(),
    verbs=("create",),
    strategy=NoStatusStrategy(),
    name_format=NameFormat.ANY,
    is_virtual=True,
)
"""Legacy resource for ``pods/binding``, with the name of the pod only in the body."""


def pod_kinds(traits: Traits) -> tuple[Kind, ...]:
    """Return the kinds of a release of Kubernetes."""
    pods = Kind(
        plural="pods",
        name="Pod",
        short_names=("po",),
        categories=("all",),
        subresources=(STATUS, BindingSubresource(traits), EvictionSubresource()),
        strategy=PodStrategy(traits),
        columns=pod_columns.COLUMNS,
    )
    return (pods, BINDINGS)
