"""Defines ResourceClaims and ResourceClaimTemplates (``resource.k8s.io/v1``).

With KEP-5194 (``--api kep``), a claim may name the workload for which it is reserved (``spec.reservedFor``), and an
allocation may permit every pod (``reservedForAnyPod``). Without the KEP, decoding drops these fields, which the schemas
do not contain.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from dra.model.releases import Traits
from localplane.kinds import claim_status, columns, device_validation, field_errors, objectmeta, stricter_devices
from localplane.kinds.kind import Kind, NoStatusStrategy, Strategy
from localplane.objects import Object, ObjectLister
from localplane.status_errors import FieldError

GROUP: Final = "resource.k8s.io"
ADMIN_ACCESS_LABEL: Final = "resource.kubernetes.io/admin-access"
"""Label of namespaces whose claims may request admin access to devices in use."""


class ResourceClaimStrategy(Strategy):
    """The strategy of ResourceClaims: the spec is immutable; schedulers, controllers and drivers change the status."""

    def __init__(self, traits: Traits) -> None:
        """Create the strategy of a release of Kubernetes."""
        self._generated = traits.generated_validation
        self._stricter = traits.stricter_devices

    def default(self, obj: Object) -> None:
        """Default each request to exactly one device."""
        obj.setdefault("spec", {})
        device_validation.set_request_defaults(obj["spec"].setdefault("devices", {}))
        obj.setdefault("status", {})

    def prepare_for_create(self, obj: Object) -> None:
        """Set an empty status, without an allocation."""
        obj["status"] = {}

    def prepare_for_status_update(self, new: Object, old: Object) -> None:
        """Restore all fields except the status, and drop the statuses of deallocated devices."""
        super().prepare_for_status_update(new, old)
        claim_status.drop_deallocated_device_statuses(new.setdefault("status", {}), old.get("status") or {})

    def admit(self, obj: Object, objects: ObjectLister) -> list[FieldError]:
        """Refuse admin access in namespaces without the admin access label."""
        return authorize_admin_access(obj["metadata"].get("namespace", ""), obj["spec"], objects)

    def validate(self, obj: Object) -> list[FieldError]:
        """Return the errors in the spec."""
        return validate_spec("spec", obj["spec"], stricter=self._stricter)

    def validate_update(self, new: Object, old: Object) -> list[FieldError]:
        """Return the errors of an update: the spec is immutable, the status is validated."""
        if self._generated:
            causes = field_errors.validate_unmodified("spec", new["spec"], old["spec"])
        else:
            causes = field_errors.validate_immutable("spec", new["spec"], old["spec"])
        if new.get("status") != old.get("status"):
            causes += claim_status.validate(new, old, generated=self._generated, stricter=self._stricter)
        return causes

    def table_cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the cells of ``kubectl get resourceclaims``."""
        status, deleted = obj.get("status") or {}, "deletionTimestamp" in obj["metadata"]
        states = ["deleted"] if deleted else []
        if status.get("allocation") is not None:
            states.append("allocated")
            states += ["reserved"] if status.get("reservedFor") else []
        elif not deleted:
            states.append("pending")
        return {"State": ",".join(states), "Age": columns.age(obj, now)}


class ResourceClaimTemplateStrategy(NoStatusStrategy):
    """The strategy of ResourceClaimTemplates, whose spec is immutable, like that of claims."""

    def __init__(self, traits: Traits) -> None:
        """Create the strategy of a release of Kubernetes."""
        self._stricter = traits.stricter_devices

    def default(self, obj: Object) -> None:
        """Default each request to exactly one device."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("metadata", {})
        device_validation.set_request_defaults(spec.setdefault("spec", {}).setdefault("devices", {}))

    def admit(self, obj: Object, objects: ObjectLister) -> list[FieldError]:
        """Refuse admin access in namespaces without the admin access label."""
        return authorize_admin_access(obj["metadata"].get("namespace", ""), obj["spec"]["spec"], objects)

    def validate(self, obj: Object) -> list[FieldError]:
        """Return the errors in the metadata and the spec of the template's claims."""
        spec = obj["spec"]
        causes = objectmeta.validate_template(spec["metadata"], "spec.metadata")
        return causes + validate_spec("spec.spec", spec["spec"], stricter=self._stricter)

    def validate_update(self, new: Object, old: Object) -> list[FieldError]:
        """Return the errors of an update; the spec is immutable."""
        return field_errors.validate_immutable("spec", new["spec"], old["spec"])

    def table_cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the cells of ``kubectl get resourceclaimtemplates``."""
        return {"Age": columns.age(obj, now)}


def validate_spec(path: str, spec: Object, *, stricter: bool) -> list[FieldError]:
    """Return the errors in the spec of a claim; the uid in ``reservedFor`` is optional, it may be unknown yet.

    `stricter`: capacities are checked as since 1.38, too.
    """
    devices = spec.get("devices") or {}
    causes = device_validation.validate(f"{path}.devices", devices)
    if stricter:
        causes += stricter_devices.validate_requests(f"{path}.devices.requests", devices.get("requests") or ())
    if spec.get("reservedFor") is not None:  # KEP-5194
        causes += claim_status.validate_consumer_reference(f"{path}.reservedFor", spec["reservedFor"], uid=False)
    return causes


def authorize_admin_access(namespace: str, spec: Object, objects: ObjectLister) -> list[FieldError]:
    """Return the error of admin access in a namespace without the admin access label."""
    for index, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        if (request.get("exactly") or {}).get("adminAccess"):
            stored = objects.get_object("namespaces", namespace) or {"metadata": {}}
            if (stored["metadata"].get("labels") or {}).get(ADMIN_ACCESS_LABEL) == "true":
                return []
            detail = (
                f"admin access to devices requires the `{ADMIN_ACCESS_LABEL}: true` label on the containing namespace"
            )
            return [field_errors.forbidden(f"spec.devices.requests[{index}].adminAccess", detail)]
    return []


def claim_kinds(traits: Traits) -> tuple[Kind, ...]:
    """Return the kinds of a release of Kubernetes."""
    return (
        Kind(
            group=GROUP,
            plural="resourceclaims",
            name="ResourceClaim",
            has_generation=False,
            strategy=ResourceClaimStrategy(traits),
            columns=(columns.NAME, *columns.strings("State"), columns.AGE),
        ),
        Kind(
            group=GROUP,
            plural="resourceclaimtemplates",
            name="ResourceClaimTemplate",
            subresources=(),
            has_generation=False,
            strategy=ResourceClaimTemplateStrategy(traits),
            columns=(columns.NAME, columns.AGE),
        ),
    )
