"""Defines Leases (``coordination.k8s.io/v1``), for leader election and node heartbeats."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from localplane.kinds import columns, field_errors
from localplane.kinds.kind import Kind, NoStatusStrategy
from localplane.objects import Object
from localplane.status_errors import FieldError


class LeaseStrategy(NoStatusStrategy):
    """The strategy of Leases: validation and columns."""

    def validate(self, obj: Object) -> list[FieldError]:
        """Return the errors of leaseDurationSeconds and leaseTransitions."""
        spec = obj.get("spec") or {}
        causes = []
        if (duration := spec.get("leaseDurationSeconds")) is not None and duration <= 0:
            causes.append(field_errors.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        if (changes := spec.get("leaseTransitions")) is not None and changes < 0:
            causes.append(field_errors.invalid("spec.leaseTransitions", changes, "must be greater than or equal to 0"))
        return causes

    def table_cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the cells of ``kubectl get leases``."""
        return {"Holder": (obj.get("spec") or {}).get("holderIdentity", ""), "Age": columns.age(obj, now)}


KINDS: Final = (
    Kind(
        group="coordination.k8s.io",
        plural="leases",
        name="Lease",
        subresources=(),
        has_generation=False,
        strategy=LeaseStrategy(),
        columns=(columns.NAME, *columns.strings("Holder"), columns.AGE),
    ),
)
