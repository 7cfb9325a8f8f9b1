"""Decide which claims an owner lacks, and which existing claims its status should name.

The status is written whole: with server-side apply, a field that one write omits is removed. The status is written only
when no claim is lacking any longer: a pod with half of its claims cannot be scheduled anyway.

Rule Stock duties; upstream's ``syncPod`` and ``syncPodGroup`` (kube-controller-manager, pkg/controller/resourceclaim).
"""

from collections.abc import Mapping
from enum import Enum
from typing import TypeAlias

from dra.engine.claims.claim_holders import owner_reservations
from dra.engine.claims.codes import Code
from dra.engine.claims.generation.claim_owners import (
    ClaimOwner,
    ClaimOwnerKind,
    ClaimOwnerView,
    belongs_to_owner,
    claim_for_entry,
)
from dra.engine.claims.generation.held_claims import NO_HELD_CLAIMS, HeldClaim, assign_held_claims
from dra.engine.claims.reasons import Reason, Subject, claim_reason
from dra.model.meta import Struct
from dra.model.pods import PodResourceClaim, PodResourceClaimStatus
from dra.model.templates import ResourceClaimTemplate, WatchedTemplate, requests_admin_access


class CreateClaim(Struct, frozen=True):
    """Create a claim for an entry of its owner from a template."""

    owner: ClaimOwner
    entry: str
    template: ResourceClaimTemplate

    @property
    def needs_template(self) -> bool:
        """Return whether the template was too large for the cache, and must be read."""
        return isinstance(self.template, WatchedTemplate) and self.template.is_reduced

    @property
    def requests_admin_access(self) -> bool:
        """Return whether the claim requests devices that other claims hold, for administration."""
        return requests_admin_access(self.template.spec.spec.get("devices"))


class HandOverClaim(Struct, frozen=True):
    """Make the owner the controller of a claim that a reservation holds for the owner."""

    owner: ClaimOwner
    entry: str
    held: HeldClaim


class RecordClaims(Struct, frozen=True):
    """Record these claims in the owner's status."""

    owner: ClaimOwner
    claims: tuple[PodResourceClaimStatus, ...]


class GenerationPlan(Struct, frozen=True):
    """The writes and reasons for one owner now."""

    create: tuple[CreateClaim, ...] = ()
    hand_over: tuple[HandOverClaim, ...] = ()
    record: RecordClaims | None = None
    reasons: tuple[Reason, ...] = ()

    @property
    def done(self) -> bool:
        """Return whether there is nothing to write."""
        return not self.create and not self.hand_over and self.record is None


class MissingClaim(Enum):
    """The cause for which an entry has no claim, where none can be made now."""

    FOREIGN = "the status names a claim of another owner"
    GROUP = "the PodGroup's claim does not exist yet"
    TEMPLATE = "the template is missing"


class AwaitedClaim(Struct, frozen=True):
    """A held claim that the entry gets as soon as its former user has released the claim."""

    held: HeldClaim


EntryOutcome: TypeAlias = PodResourceClaimStatus | CreateClaim | HandOverClaim | AwaitedClaim | MissingClaim


def decide(view: ClaimOwnerView) -> GenerationPlan:
    """Return the plan for the owner. The function is idempotent.

    After the plan's own writes it plans nothing further.
    """
    if view.owner.needs_no_claims:
        return GenerationPlan()
    if view.group_unknown:
        return GenerationPlan(reasons=(_group_unread_reason(view),) if view.group_error else ())
    plan = _plan(view, replace_foreign=False)
    if plan.done and not plan.reasons:
        return plan
    # A claim that another client recorded is replaced only when there is something else to write.
    return _plan(view, replace_foreign=True)


def _plan(view: ClaimOwnerView, *, replace_foreign: bool) -> GenerationPlan:
    owner = view.owner
    findings: list[EntryOutcome] = []
    reasons: tuple[Reason, ...] = ()
    held = _held_claims_for_entries(view)
    for entry in owner.from_templates:
        finding = _decide_entry(view, entry, held.get(entry.name), replace_foreign=replace_foreign)
        if finding is MissingClaim.TEMPLATE:  # later entries wait, too: so does the scheduler
            reasons = (_no_template_reason(owner, entry),)
            break
        findings.append(finding)
    create = tuple(f for f in findings if isinstance(f, CreateClaim))
    take = tuple(f for f in findings if isinstance(f, HandOverClaim))
    claims = tuple(f for f in findings if isinstance(f, PodResourceClaimStatus))
    awaited = tuple(_awaited_reason(owner, f.held) for f in findings if isinstance(f, AwaitedClaim))
    if reasons or awaited or create or take or all(claim in owner.recorded for claim in claims):
        return GenerationPlan(create=create, hand_over=take, reasons=(*reasons, *awaited))
    return GenerationPlan(record=RecordClaims(owner=owner, claims=claims))


def _held_claims_for_entries(view: ClaimOwnerView) -> Mapping[str, HeldClaim]:
    """Return the held claims that the owner gets: one decision for all its entries."""
    if not view.held:
        return NO_HELD_CLAIMS
    recorded = {s.name for s in view.owner.recorded}
    lacking = [
        entry
        for entry in view.owner.from_templates
        if entry.name not in recorded
        and claim_for_entry(view.owned, entry.name) is None
        and not _is_of_pod_group(view, entry)
    ]
    before = (owner.uid for claim in view.owned for owner in owner_reservations(claim))
    return assign_held_claims(lacking, view.templates, held=view.held, bound_to=next(before, None))


def _decide_entry(
    view: ClaimOwnerView, entry: PodResourceClaim, held: HeldClaim | None, *, replace_foreign: bool
) -> EntryOutcome:
    owner, name = view.owner, entry.name
    record = owner.record(name)
    if record is not None:
        claim = view.named.get(record.resource_claim_name or "")
        # A record without a name is upstream's way to say that the pod needs no claim for the entry.
        if record.resource_claim_name is None or (claim is not None and belongs_to_owner(claim, view)):
            return record
        if claim is not None and not replace_foreign:
            return MissingClaim.FOREIGN
    of_group = _is_of_pod_group(view, entry)
    claim = claim_for_entry(view.group_owned if of_group else view.owned, name)
    if claim is not None:
        return PodResourceClaimStatus(name=name, resource_claim_name=claim.metadata.name)
    # The claim is made once, for the PodGroup (KEP-5729), whose own reconciliation creates it.
    if of_group:
        return MissingClaim.GROUP
    if held is not None:
        return AwaitedClaim(held=held) if held.former else HandOverClaim(owner=owner, entry=name, held=held)
    template = view.templates.get(entry.resource_claim_template_name or "")
    return MissingClaim.TEMPLATE if template is None else CreateClaim(owner=owner, entry=name, template=template)


def _is_of_pod_group(view: ClaimOwnerView, entry: PodResourceClaim) -> bool:
    """Return whether the claim belongs to the PodGroup: its spec has an equal entry (upstream's ``BindTo``)."""
    return view.group is not None and entry in view.group.entries


def _no_template_reason(owner: ClaimOwner, entry: PodResourceClaim) -> Reason:
    name = entry.resource_claim_template_name
    return creation_failed_reason(
        owner, entry.name, f'resource claim template "{name}": resourceclaimtemplate.resource.k8s.io "{name}" not found'
    )


def _group_unread_reason(view: ClaimOwnerView) -> Reason:
    return _owner_reason(view.owner, Code.WAITS_FOR_GROUP, group=view.owner.pod_group, error=view.group_error)


def _awaited_reason(owner: ClaimOwner, held: HeldClaim) -> Reason:
    claim, reservation = held.claim.metadata.name, held.reservation.name
    names = {"namespace": owner.key[0], "name": owner.key[1], "claim": claim, "reservation": reservation}
    return _owner_reason(owner, Code.WAITS_FOR_HELD, **names, former=held.former)


def handed_over_reason(action: HandOverClaim) -> Reason:
    """Return the reason reported for a claim that was handed over to its reservation's owner pod."""
    meta = action.held.claim.metadata
    reservation = action.held.reservation.name
    return claim_reason(Code.HANDED_OVER, key=meta.key, uid=meta.uid, pod=action.owner.key[1], reservation=reservation)


def _owner_reason(owner: ClaimOwner, code: Code, **arguments: str) -> Reason:
    subject = Subject(kind=owner.kind.value, key=owner.key, uid=owner.uid)
    return Reason(code=code, subject=subject, arguments=tuple(arguments.items()))


def creation_failed_reason(owner: ClaimOwner, entry: str, error: str) -> Reason:
    """Return the reason in the words of upstream's controller, since users search for these words."""
    kind = "PodResourceClaim" if owner.kind is ClaimOwnerKind.POD else "PodGroupResourceClaim"
    return _owner_reason(owner, Code.GENERATION_FAILED, kind=kind, entry=entry, error=error)
