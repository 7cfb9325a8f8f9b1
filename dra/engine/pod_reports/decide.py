"""Decides on the reports of a pod: annotations with what the pod's claims were given.

The annotations are reports: no scheduler and no driver of this project reads them. So a report that is no longer true
is corrected, and one without claims behind it is left to whoever wrote it.
"""

from collections.abc import Iterable, Mapping
from typing import Never, TypeAlias

from dra.api.koordinator.well_known import ANNOTATION_DEVICE_ALLOCATED, ANNOTATION_RESOURCE_STATUS
from dra.engine.plan import Plan
from dra.engine.pod_reports.cards import CardIndex
from dra.engine.pod_reports.device_allocated import UnknownCardError, device_allocated
from dra.engine.pod_reports.resource_status import resource_status
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, Struct, Uid
from dra.model.pods import Pod


class PodReportView(Struct, frozen=True):
    """A pod in a namespace with reports, and what its reports depend on."""

    pod: Pod
    claims: tuple[ResourceClaim, ...]
    """The claims that the pod names, as far as they exist."""

    cards: CardIndex
    written: Mapping[str, str]
    """The reports written last."""


class WriteReports(Struct, frozen=True):
    """Write annotations of a pod."""

    pod: Key
    uid: Uid
    annotations: Mapping[str, str]


class AwaitCards(Struct, frozen=True):
    """Decide again once other GPUs are published: the pod is on GPUs that no slice publishes yet."""

    pod: Key
    error: str


PodReportPlan: TypeAlias = Plan[WriteReports | AwaitCards, Never]


def decide(view: PodReportView) -> PodReportPlan:
    """Return the write of a pod's reports, unless they are right."""
    pod = view.pod
    if not is_reported(pod):
        return PodReportPlan()
    try:
        wanted = reports(pod, view.claims, view.cards)
    except UnknownCardError as error:
        return PodReportPlan(actions=(AwaitCards(pod=pod.metadata.key, error=str(error)),))
    if _is_written(view, wanted):
        return PodReportPlan()
    write = WriteReports(pod=pod.metadata.key, uid=pod.metadata.uid, annotations=wanted)
    return PodReportPlan(actions=(write,))


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
        ANNOTATION_RESOURCE_STATUS: resource_status(status for claim in held for status in claim.status.devices or ()),
    }
    return {key: value for key, value in values.items() if value is not None}


def is_reported(pod: Pod) -> bool:
    """Return whether a pod is to have reports: it is bound and still runs."""
    return bool(pod.spec.node_name) and not pod.terminal and not pod.metadata.deleting


def _is_written(view: PodReportView, wanted: Mapping[str, str]) -> bool:
    """Return whether a pod has its reports; a cached pod with many annotations lacks some that were written."""
    present = view.pod.metadata.annotations or {}
    missing = [name for name, value in wanted.items() if present.get(name) != value]
    return all(name not in present and view.written.get(name) == wanted[name] for name in missing)
