"""ResourceClaims and their templates (``resource.k8s.io/v1``).

With KEP-5194 (``--api kep``) a claim may name the workload that it is for, and an allocation may say that any pod may
use it. A server without the KEP never sees these fields here: its schemas do not have them.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from dra.local.kinds import allocations, causes, columns, devices, gotypes, objectmeta
from dra.local.kinds.kind import Kind, Others, Strategy, WholeStrategy
from dra.local.objects import Object
from dra.local.refusals import Cause
from dra.local.schemas.releases import Traits

GROUP: Final = "resource.k8s.io"
ADMIN_ACCESS: Final = "resource.kubernetes.io/admin-access"
"""Label of namespaces whose claims may have access beside the users of a device."""


class ClaimStrategy(Strategy):
    """A claim: its spec is for good, its status is changed by schedulers, controllers and drivers."""

    def __init__(self, *, generated: bool) -> None:
        """``generated``: what generated validation refuses is refused in its words."""
        self._generated = generated

    def default(self, obj: Object) -> None:
        """Ask for one device where nothing is said."""
        obj.setdefault("spec", {})
        devices.default(obj["spec"].setdefault("devices", {}))
        obj.setdefault("status", {})

    def prepare_create(self, obj: Object) -> None:
        """Begin without an allocation."""
        obj["status"] = {}

    def prepare_status(self, new: Object, old: Object) -> None:
        """Take back all but the status, and drop what is said of devices that are lost."""
        super().prepare_status(new, old)
        allocations.tidy(new.setdefault("status", {}), old.get("status") or {})

    def admit(self, obj: Object, others: Others) -> list[Cause]:
        """Grant admin access only in namespaces that are meant for it."""
        return admin_access(obj["metadata"].get("namespace", ""), obj["spec"], others)

    def validate(self, obj: Object) -> list[Cause]:
        """Check what is asked for."""
        return validate_spec("spec", obj["spec"])

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Keep the spec, and check the status."""
        if self._generated:
            found = causes.unmodified("spec", new["spec"], old["spec"])
        else:
            found = causes.immutable("spec", new["spec"], old["spec"], text=gotypes.claim_spec(new["spec"]))
        if new.get("status") != old.get("status"):
            found += allocations.validate(new, old, generated=self._generated)
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


class TemplateStrategy(WholeStrategy):
    """A template of claims: for good, like what is made from it."""

    def default(self, obj: Object) -> None:
        """Ask for one device where nothing is said."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("metadata", {})
        devices.default(spec.setdefault("spec", {}).setdefault("devices", {}))

    def admit(self, obj: Object, others: Others) -> list[Cause]:
        """Grant admin access only in namespaces that are meant for it."""
        return admin_access(obj["metadata"].get("namespace", ""), obj["spec"]["spec"], others)

    def validate(self, obj: Object) -> list[Cause]:
        """Check what the claims will ask for."""
        spec = obj["spec"]
        found = objectmeta.validate_template(spec["metadata"], "spec.metadata")
        return found + validate_spec("spec.spec", spec["spec"])

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Keep all but the metadata."""
        return causes.immutable("spec", new["spec"], old["spec"], text=gotypes.template_spec(new["spec"]))

    def cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return what ``kubectl get resourceclaimtemplates`` shows."""
        return {"Age": columns.age(obj, now)}


def validate_spec(path: str, spec: Object) -> list[Cause]:
    """Return what is wrong with the spec of a claim; the uid of its workload may be found out later."""
    found = devices.validate(f"{path}.devices", spec.get("devices") or {})
    if spec.get("reservedFor") is not None:  # KEP-5194
        found += allocations.reference(f"{path}.reservedFor", spec["reservedFor"], uid=False)
    return found


def admin_access(namespace: str, spec: Object, others: Others) -> list[Cause]:
    """Refuse admin access outside of namespaces that are meant for it."""
    for index, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        if (request.get("exactly") or {}).get("adminAccess"):
            found = others.find("namespaces", namespace) or {"metadata": {}}
            if (found["metadata"].get("labels") or {}).get(ADMIN_ACCESS) == "true":
                return []
            detail = f"admin access to devices requires the `{ADMIN_ACCESS}: true` label on the containing namespace"
            return [causes.forbidden(f"spec.devices.requests[{index}].adminAccess", detail)]
    return []


def kinds(traits: Traits) -> tuple[Kind, ...]:
    """Return the kinds as a version of Kubernetes has them."""
    return (
        Kind(
            group=GROUP,
            plural="resourceclaims",
            name="ResourceClaim",
            generations=False,
            strategy=ClaimStrategy(generated=traits.generated_validation),
            columns=(columns.NAME, *columns.plain("State"), columns.AGE),
        ),
        Kind(
            group=GROUP,
            plural="resourceclaimtemplates",
            name="ResourceClaimTemplate",
            subresources=(),
            generations=False,
            strategy=TemplateStrategy(),
            columns=(columns.NAME, columns.AGE),
        ),
    )
