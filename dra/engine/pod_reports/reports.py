"""Decides on the reports of a pod: annotations with what the pod's claims were given.

The annotations are reports: no scheduler and no driver of this project reads them. So a report that is no longer true
is corrected, and one without claims behind it is left to whoever wrote it.
"""

from collections.abc import Iterable

from dra.api.koordinator.well_known import ANNOTATION_DEVICE_ALLOCATED, ANNOTATION_RESOURCE_STATUS
from dra.engine.pod_reports.cards import CardIndex
from dra.engine.pod_reports.device_allocated import device_allocated
from dra.engine.pod_reports.resource_status import resource_status
from dra.model.claims import ResourceClaim
from dra.model.pods import Pod


def reports(pod: Pod, claims: Iterable[ResourceClaim], cards: CardIndex) -> dict[str, str]:
    """Return the annotations that a pod is to have, given the claims that it names. Raises UnknownCardError.

    A claim that was generated for another pod counts only if the pod's spec names it: the status may be forged.
    """
    named = {entry.resource_claim_name for entry in pod.spec.resource_claims or ()}
    held = [
        claim
        for claim in claims
        if claim.status.allocation is not None
        and (claim.generated_for in (None, pod.metadata.uid) or claim.metadata.name in named)
    ]
    results = [
        result
        for claim in held
        if (allocation := claim.status.allocation) is not None
        for result in allocation.devices.results or ()
    ]
    values = {
        ANNOTATION_DEVICE_ALLOCATED: device_allocated(results, cards),
        ANNOTATION_RESOURCE_STATUS: resource_status(each for claim in held for each in claim.status.devices or ()),
    }
    return {key: value for key, value in values.items() if value is not None}


def is_reported(pod: Pod) -> bool:
    """Return whether a pod is to have reports: it is bound and still runs."""
    return bool(pod.spec.node_name) and not pod.terminal and not pod.metadata.deleting
