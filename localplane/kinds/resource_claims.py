"""ResourceClaims and their templates (``resource.k8s.io/v1``).

With KEP-5194 (``--api kep``) a claim may name the workload that it is for, and an allocation may say that any pod may
use it. A server without the KEP never sees these fields here: its schemas do not have them.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from localplane.kinds import claim_status, columns, device_validation, field_errors, go_format, objectmeta
from localplane.kinds.kind import Kind, NoStatusStrategy, ObjectLister, Strategy
from localplane.objects import Object
from localplane.schemas.releases import Traits
from localplane.status_errors import FieldError

GROUP: Final = "resource.k8s.io"
ADMIN_ACCESS_LABEL: Final = "resource.kubernetes.io/admin-access"
"""Label of namespaces whose claims may have access beside the users of a device."""


class ResourceClaimStrategy(Strategy):
    """A claim: its spec is for good, its status is changed by schedulers, controllers and drivers."""

    def __init__(self, *, generated: bool) -> None:
        """``generated``: what generated validation refuses is refused in its words."""
        self._generated = generated

    def default(self, obj: Object) -> None:
        """Ask for one device where nothing is said."""
        obj.setdefault("spec", {})
        device_validation.set_request_defaults(obj["spec"].setdefault("devices", {}))
        obj.setdefault("status", {})

    def prepare_for_create(self, obj: Object) -> None:
        """Begin without an allocation."""
        obj["status"] = {}

    def prepare_for_status_update(self, new: Object, old: Object) -> None:
        """Take back all but the status, and drop what is said of devices that are lost."""
        super().prepare_for_status_update(new, old)
        claim_status.drop_deallocated_device_statuses(new.setdefault("status", {}), old.get("status") or {})

    def admit(self, obj: Object, others: ObjectLister) -> list[FieldError]:
        """Grant admin access only in namespaces that are meant for it."""
        return authorize_admin_access(obj["metadata"].get("namespace", ""), obj["spec"], others)

    def validate(self, obj: Object) -> list[FieldError]:
        """Check what is asked for."""
        return validate_spec("spec", obj["spec"])

    def validate_update(self, new: Object, old: Object) -> list[FieldError]:
        """Keep the spec, and check the status."""
        if self._generated:
            found = field_errors.validate_unmodified("spec", new["spec"], old["spec"])
        else:
            found = field_errors.validate_immutable(
                "spec", new["spec"], old["spec"], text=go_format.format_claim_spec(new["spec"])
            )
        if new.get("status") != old.get("status"):
            found += claim_status.validate(new, old, generated=self._generated)
        return found

    def cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return what ``kubectl get resourceclaims`` shows."""
        status, deleted = obj.get("status") or {}, "deletionTimestamp" in obj["metadata"]
        states = ["deleted"] if deleted else []
        if status.get("allocation") is not None:
            states.append("allocated")
            states += ["reserved"] if status.get("reservedFor") else []
        elif not deleted:
            states.append("pending")
        return {"State": ",".join(states), "Age": columns.age(obj, now)}


class ResourceClaimTemplateStrategy(NoStatusStrategy):
    """A template of claims: for good, like what is made from it."""

    def default(self, obj: Object) -> None:
        """Ask for one device where nothing is said."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("metadata", {})
        device_validation.set_request_defaults(spec.setdefault("spec", {}).setdefault("devices", {}))

    def admit(self, obj: Object, others: ObjectLister) -> list[FieldError]:
        """Grant admin access only in namespaces that are meant for it."""
        return authorize_admin_access(obj["metadata"].get("namespace", ""), obj["spec"]["spec"], others)

    def validate(self, obj: Object) -> list[FieldError]:
        """Check what the claims will ask for."""
        spec = obj["spec"]
        found = objectmeta.validate_template(spec["metadata"], "spec.metadata")
        return found + validate_spec("spec.spec", spec["spec"])

    def validate_update(self, new: Object, old: Object) -> list[FieldError]:
        """Keep all but the metadata."""
        return field_errors.validate_immutable(
            "spec", new["spec"], old["spec"], text=go_format.format_template_spec(new["spec"])
        )

    def cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return what ``kubectl get resourceclaimtemplates`` shows."""
        return {"Age": columns.age(obj, now)}


def validate_spec(path: str, spec: Object) -> list[FieldError]:
    """Return what is wrong with the spec of a claim; the uid of its workload may be found out later."""
    found = device_validation.validate(f"{path}.devices", spec.get("devices") or {})
    if spec.get("reservedFor") is not None:  # KEP-5194
        found += claim_status.validate_consumer_reference(f"{path}.reservedFor", spec["reservedFor"], uid=False)
    return found


def authorize_admin_access(namespace: str, spec: Object, others: ObjectLister) -> list[FieldError]:
    """Refuse admin access outside of namespaces that are meant for it."""
    for index, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        if (request.get("exactly") or {}).get("adminAccess"):
            found = others.find("namespaces", namespace) or {"metadata": {}}
            if (found["metadata"].get("labels") or {}).get(ADMIN_ACCESS_LABEL) == "true":
                return []
            detail = (
                f"admin access to devices requires the `{ADMIN_ACCESS_LABEL}: true` label on the containing namespace"
            )
            return [field_errors.forbidden(f"spec.devices.requests[{index}].adminAccess", detail)]
    return []


def claim_kinds(traits: Traits) -> tuple[Kind, ...]:
    """Return the kinds as a version of Kubernetes has them."""
    return (
        Kind(
            group=GROUP,
            plural="resourceclaims",
            name="ResourceClaim",
            generations=False,
            strategy=ResourceClaimStrategy(generated=traits.generated_validation),
            columns=(columns.NAME, *columns.strings("State"), columns.AGE),
        ),
        Kind(
            group=GROUP,
            plural="resourceclaimtemplates",
            name="ResourceClaimTemplate",
            subresources=(),
            generations=False,
            strategy=ResourceClaimTemplateStrategy(),
            columns=(columns.NAME, columns.AGE),
        ),
    )
