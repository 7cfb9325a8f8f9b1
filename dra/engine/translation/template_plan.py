"""Decisions about one template: make it, keep it, mark it as unused, delete it.

A template exists while a pod names it, and an hour longer. The hour counts from a time in an annotation, so it survives
restarts of the controller. Specs of templates are immutable: a template that lacks a card size, or that another version
or configuration of dra-reserve made otherwise, is deleted, and made anew if a pod names it. Where the controller
generates claims (mode replace), unallocated claims that lack a card size are deleted, too, and generated again;
elsewhere Events report them.

A template without the label is somebody else's: nothing here writes it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from hashlib import blake2b
from typing import Any, Final, TypeAlias

from dra.api.koordinator import well_known
from dra.api.parameters.cpu_policies import CpuBindPolicy
from dra.engine.claims.codes import Code
from dra.engine.claims.reasons import Reason, list_names, pod_reason
from dra.engine.instants import NEVER, Instant, Moment
from dra.engine.plan import Plan
from dra.engine.translation import template_names
from dra.engine.translation.device_requests import MAX_ALTERNATIVES
from dra.engine.translation.requests import Request, gpu_shares
from dra.engine.translation.template_index import NamingPod, TemplateView
from dra.engine.translation.templates import template_manifest
from dra.model import quantities
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, Struct, Uid
from dra.model.templates import ResourceClaimTemplate

KEPT_UNUSED: Final = timedelta(hours=1)
"""Time for which a template is kept after the last pod that named it."""

RECHECK: Final = timedelta(minutes=1)
"""Time until the deletion of a template is considered again while pods are not known."""

_EXAMPLE_SIZES: Final = (2**34, 2**36)

Devices: TypeAlias = Mapping[str, Any]
"""``spec.devices`` of a claim."""


class CreateTemplate(Struct, frozen=True):
    """Create the template for a request."""

    key: Key
    manifest: Mapping[str, Any]


class DeleteTemplate(Struct, frozen=True):
    """Delete a template in the version that the decision has seen."""

    key: Key
    uid: Uid
    resource_version: str


class MarkTemplate(Struct, frozen=True):
    """Set or remove (None) the time since which no pod names a template."""

    key: Key
    uid: Uid
    resource_version: str
    unused_since: datetime | None


class DeleteClaim(Struct, frozen=True):
    """Delete a claim in the version that the decision has seen: an allocated claim has another one."""

    key: Key
    uid: Uid
    resource_version: str
    reason: Reason
    """The reason to report once the claim is deleted."""


TemplateAction: TypeAlias = CreateTemplate | DeleteTemplate | MarkTemplate | DeleteClaim


TemplatePlan: TypeAlias = Plan[TemplateAction, Reason]
"""The writes that a template needs now, and the reasons to report on the pods that name it."""


def decide(view: TemplateView, *, now: Moment, generates_claims: bool) -> TemplatePlan:
    """Return the plan for a template; ``generates_claims``: whether this controller generates claims (mode replace)."""
    plan = _decide(view, now=datetime.fromtimestamp(now.wall, tz=UTC), generates_claims=generates_claims)
    due = max((_due(action, view) for action in plan.actions), default=-NEVER)
    return plan if now.instant >= due else TemplatePlan(wake_at=due)


def _due(action: TemplateAction, view: TemplateView) -> Instant:
    match action:
        case CreateTemplate():
            return view.created_from
        case DeleteTemplate():
            return view.deleted_from
        case MarkTemplate() | DeleteClaim():
            return -NEVER


def _decide(view: TemplateView, *, now: datetime, generates_claims: bool) -> TemplatePlan:
    name = view.key[1]
    request, template = template_names.parse(name), view.template
    if request is None:
        return TemplatePlan()
    if template is None:
        return _missing(view, request)
    if template.metadata.deleting or not is_ours(template):
        # A pod that is bound already has the devices that the template of somebody else requests.
        foreign = () if is_ours(template) else view.pods
        return TemplatePlan(reasons=tuple(_reason(pod, Code.FOREIGN_TEMPLATE, template=name) for pod in foreign))
    wanted = _size_by_selector(view, request)
    made_otherwise = _form(template) not in {None, form(name, default_policy=view.default_policy)}
    if made_otherwise or wanted.keys() - _selectors(template.spec.spec.get("devices")):
        return TemplatePlan(actions=(_deletion(template),))
    if not view.in_use:
        return _unused(view, template, now=now)
    actions, reasons = _claims(view, wanted, generates_claims=generates_claims)
    marked = template.metadata.annotation(well_known.ANNOTATION_UNUSED_SINCE) is not None
    return TemplatePlan(
        actions=(*([_mark(template, None)] if marked else []), *actions), reasons=(*_exceeded(view, request), *reasons)
    )


def form(name: str, *, default_policy: CpuBindPolicy = CpuBindPolicy.FULL_PCPUS) -> str:
    """Return a digest of the template that this version makes for a name, with cards of two sizes as an example."""
    request, manifest = template_names.parse(name), None
    if request is not None:
        manifest = template_manifest(name, "", request, card_sizes=_EXAMPLE_SIZES, default_policy=default_policy)
    return blake2b(json.dumps(manifest, sort_keys=True).encode(), digest_size=8).hexdigest()


def _form(template: ResourceClaimTemplate) -> str | None:
    return template.metadata.annotation(well_known.ANNOTATION_FORM)


def is_ours(template: ResourceClaimTemplate) -> bool:
    """Return whether the controller made a template."""
    return (template.metadata.labels or {}).get(well_known.LABEL_MADE_FROM) == well_known.KOORDINATOR


def _missing(view: TemplateView, request: Request) -> TemplatePlan:
    if not view.in_use:
        return TemplatePlan()
    namespace, name = view.key
    manifest = template_manifest(
        name, namespace, request, card_sizes=view.card_sizes, default_policy=view.default_policy
    )
    if manifest is None:
        return TemplatePlan(reasons=tuple(_about(view, Code.WAITS_FOR_CARDS)))
    digest = form(name, default_policy=view.default_policy)
    metadata = {**manifest["metadata"], "annotations": {well_known.ANNOTATION_FORM: digest}}
    action = CreateTemplate(key=view.key, manifest={**manifest, "metadata": metadata})
    return TemplatePlan(actions=(action,), reasons=_exceeded(view, request))  # later, the pod may be bound already


def _exceeded(view: TemplateView, request: Request) -> tuple[Reason, ...]:
    """Return the reasons to report if the template has no room for all sizes of cards."""
    left_out = _sizes_of_ratio(view, request)[MAX_ALTERNATIVES:]
    if not left_out:
        return ()
    return tuple(_about(view, Code.CARD_SIZES_EXCEEDED, sizes=_size_names(left_out), limit=MAX_ALTERNATIVES))


def _claims(
    view: TemplateView, wanted: Mapping[str, int], *, generates_claims: bool
) -> tuple[list[DeleteClaim], list[Reason]]:
    """Return the deletions of unallocated claims that lack a card size, or the reasons to report on their pods."""
    deletions, reasons = [], []
    for pod in filter(lambda waiting: waiting.is_waiting, view.pods):
        for claim in pod.claims:
            lacking = wanted.keys() - _selectors(claim.spec.devices)
            if not lacking or claim.status.allocation is not None or claim.metadata.deleting:
                continue
            sizes = _size_names(wanted[template] for template in lacking)
            if generates_claims:
                deletions.append(_claim_deletion(claim, pod, sizes))
            else:
                reasons.append(_reason(pod, Code.CLAIM_LACKS_CARD_SIZES, claim=claim.metadata.name, sizes=sizes))
    return deletions, reasons


def _unused(view: TemplateView, template: ResourceClaimTemplate, *, now: datetime) -> TemplatePlan:
    since = _time(template.metadata.annotation(well_known.ANNOTATION_UNUSED_SINCE))
    if since is None or since > now:
        return TemplatePlan(actions=(_mark(template, now),), wake_at_wall=(now + KEPT_UNUSED).timestamp())
    if now < since + KEPT_UNUSED:
        return TemplatePlan(wake_at_wall=(since + KEPT_UNUSED).timestamp())
    if not view.pods_known:
        return TemplatePlan(wake_at_wall=(now + RECHECK).timestamp())
    return TemplatePlan(actions=(_deletion(template),))


def _deletion(template: ResourceClaimTemplate) -> DeleteTemplate:
    meta = template.metadata
    return DeleteTemplate(key=meta.key, uid=meta.uid, resource_version=meta.resource_version)


def _mark(template: ResourceClaimTemplate, unused_since: datetime | None) -> MarkTemplate:
    meta = template.metadata
    return MarkTemplate(key=meta.key, uid=meta.uid, resource_version=meta.resource_version, unused_since=unused_since)


def _claim_deletion(claim: ResourceClaim, pod: NamingPod, sizes: str) -> DeleteClaim:
    meta = claim.metadata
    reason = _reason(pod, Code.CLAIM_RENEWED, claim=meta.name, sizes=sizes)
    return DeleteClaim(key=meta.key, uid=meta.uid, resource_version=meta.resource_version, reason=reason)


def _reason(pod: NamingPod, code: Code, **arguments: str | int) -> Reason:
    return pod_reason(code, key=pod.key, uid=pod.uid, done=code is Code.CLAIM_RENEWED, **arguments)


def _about(view: TemplateView, code: Code, **arguments: str | int) -> Iterator[Reason]:
    """Yield a reason for each waiting pod that has changed."""
    return (_reason(pod, code, template=view.key[1], **arguments) for pod in view.pods if pod.is_waiting)


def creation_failed_reasons(view: TemplateView, error: str) -> tuple[Reason, ...]:
    """Return the reasons to report on the waiting pods after a template was not created."""
    return tuple(_about(view, Code.TEMPLATE_FAILED, error=error))


def _sizes_of_ratio(view: TemplateView, request: Request) -> tuple[int, ...]:
    """Return the card sizes that matter to a request: bytes are the same on cards of all sizes."""
    return view.card_sizes if any(share.ratio is not None for share in gpu_shares(request)) else ()


def _size_by_selector(view: TemplateView, request: Request) -> dict[str, int]:
    """Return the selectors that a template should have, with the size of card that each selects."""
    sizes = {}
    for size in _sizes_of_ratio(view, request)[:MAX_ALTERNATIVES]:
        manifest = template_manifest(view.key[1], view.key[0], request, card_sizes=(size,))
        for selector in _selectors(manifest["spec"]["spec"]["devices"] if manifest is not None else None):
            sizes[selector] = size
    return sizes


def _selectors(devices: Devices | None) -> frozenset[str]:
    """Return the selectors of the alternatives in the requests of a claim."""
    return frozenset(
        selector["cel"]["expression"]
        for request in (devices or {}).get("requests") or ()
        for alternative in request.get("firstAvailable") or ()
        for selector in alternative.get("selectors") or ()
        if selector.get("cel")
    )


def _size_names(sizes: Iterable[int]) -> str:
    return list_names(quantities.canonical(Fraction(size), quantities.Format.BINARY_SI) for size in sorted(sizes))


def _time(text: str | None) -> datetime | None:
    """Return the time of an annotation; None for any other text, which anybody may have written."""
    try:
        parsed = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return parsed if parsed.tzinfo is not None else None
