"""The workloads that claims refer to."""

from collections.abc import Iterable
from contextlib import suppress

from dra.engine.claims.view import ENTRY_API_GROUP
from dra.engine.claims.workload_index import WorkloadKey
from dra.model.claims import ResourceClaim
from dra.model.references import MalformedReferenceError
from dra.model.workload_reservations import workload_reservation


def referenced_workloads(claim: ResourceClaim) -> Iterable[WorkloadKey]:
    """Yield the workloads that a claim refers to, in its annotations and in its list."""
    namespace = claim.metadata.namespace
    with suppress(MalformedReferenceError):
        reservation = workload_reservation(claim)
        if reservation is not None:
            yield WorkloadKey.from_reference(reservation.reference, namespace)
    for entry in claim.entries:
        if not entry.is_pod and entry.api_group != ENTRY_API_GROUP:
            yield WorkloadKey.from_reference(entry, namespace)
