"""Leases: who leads, and which nodes are alive."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from localplane.kinds import columns, field_errors
from localplane.kinds.kind import Kind, NoStatusStrategy
from localplane.objects import Object
from localplane.status_errors import FieldError


class LeaseStrategy(NoStatusStrategy):
    """A lease names its holder for a while."""

    def validate(self, obj: Object) -> list[FieldError]:
        """Check the numbers."""
        spec = obj.get("spec") or {}
        found = []
        if (duration := spec.get("leaseDurationSeconds")) is not None and duration <= 0:
            found.append(field_errors.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        if (changes := spec.get("leaseTransitions")) is not None and changes < 0:
            found.append(field_errors.invalid("spec.leaseTransitions", changes, "must be greater than or equal to 0"))
        return found

    def cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return what ``kubectl get leases`` shows."""
        return {"Holder": (obj.get("spec") or {}).get("holderIdentity", ""), "Age": columns.age(obj, now)}


KINDS: Final = (
    Kind(
        group="coordination.k8s.io",
        plural="leases",
        name="Lease",
        subresources=(),
        generations=False,
        strategy=LeaseStrategy(),
        columns=(columns.NAME, *columns.strings("Holder"), columns.AGE),
    ),
)
