"""Decides which reports of a pod are written: those that are missing or no longer true."""

from collections.abc import Mapping
from typing import Never, TypeAlias

from dra.engine.plan import Plan
from dra.engine.pod_reports.cards import CardIndex
from dra.engine.pod_reports.device_allocated import UnknownCardError
from dra.engine.pod_reports.reports import is_reported, reports
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


def _is_written(view: PodReportView, wanted: Mapping[str, str]) -> bool:
    """Return whether a pod has its reports; a cached pod with many annotations lacks some that were written."""
    present = view.pod.metadata.annotations or {}
    missing = [name for name, value in wanted.items() if present.get(name) != value]
    return all(name not in present and view.written.get(name) == wanted[name] for name in missing)
