"""Assign claims held by reservations to pods, in place of newly generated claims.

1. Only owners of an available reservation, in the namespace of its template, get its claims; and its placeholder, when
   the placeholder is created again.
2. A held claim replaces a claim from the pod's template if it equals what the template would generate: the same spec,
   and the labels and annotations that the template requests.
3. All claims that a pod gets are of one reservation: claims held on two nodes could never be used together. Of several
   reservations the one that serves most entries of the pod is chosen, then the first by name.
4. One claim, one pod: a claim is handed over with a compare-and-swap, and only when no pod uses it. If its former user
   is about to end or to be deleted, the pod waits: with new devices it would take devices that other pods could have,
   and leave its own unused.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from dra.engine.reservations import filters
from dra.engine.reservations.pod_info import PodInfo
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.model.claims import ResourceClaim, ResourceClaimSpec
from dra.model.meta import OwnerReference, Struct, Uid
from dra.model.pods import PodResourceClaim
from dra.model.templates import ResourceClaimTemplate, WatchedTemplate


class HeldClaim(Struct, frozen=True):
    """A claim held by a reservation that a pod may get."""

    claim: ResourceClaim
    reservation: OwnerReference
    former: str = ""
    """Description of the present user, which is about to end or to be deleted; empty if there is none."""


NO_HELD_CLAIMS: Final[Mapping[str, HeldClaim]] = MappingProxyType({})


def may_consume(info: ReservationInfo, pod: PodInfo) -> bool:
    """Return whether a pod may use what a reservation holds; node labels are unknown here."""
    return not pod.ignores_reservations and filters.check_owner_and_affinity(info, pod, node_labels={}) is None


def matches_template(claim: ResourceClaim, template: ResourceClaimTemplate) -> bool:
    """Return whether a claim equals the claim that a template would generate; False if its spec is not in memory."""
    if isinstance(template, WatchedTemplate) and template.is_reduced:
        return False
    try:
        wanted = msgspec.convert(template.spec.spec, ResourceClaimSpec)
    except msgspec.ValidationError:
        return False
    meta, asked = claim.metadata, template.spec.metadata
    return (
        claim.spec == wanted
        and (asked.labels or {}).items() <= (meta.labels or {}).items()
        and (asked.annotations or {}).items() <= (meta.annotations or {}).items()
    )


def assign_held_claims(
    lacking: Sequence[PodResourceClaim],
    templates: Mapping[str, ResourceClaimTemplate],
    *,
    held: Iterable[HeldClaim],
    bound_to: Uid | None,
) -> Mapping[str, HeldClaim]:
    """Return the held claim that each entry of a pod gets, by the entry's name.

    `bound_to` is the reservation that the pod already has a claim of.
    """
    by_reservation: dict[tuple[str, Uid], list[HeldClaim]] = {}
    for claim in held:
        if bound_to is None or claim.reservation.uid == bound_to:
            by_reservation.setdefault((claim.reservation.name, claim.reservation.uid), []).append(claim)
    best: Mapping[str, HeldClaim] = NO_HELD_CLAIMS
    for _, offered in sorted(by_reservation.items()):
        matched = _match_entries(lacking, templates, offered)
        if len(matched) > len(best):
            best = matched
    return best


def _match_entries(
    lacking: Sequence[PodResourceClaim], templates: Mapping[str, ResourceClaimTemplate], offered: Sequence[HeldClaim]
) -> Mapping[str, HeldClaim]:
    left = sorted(offered, key=lambda held: (bool(held.former), held.claim.metadata.name))
    matched: dict[str, HeldClaim] = {}
    for entry in lacking:
        template = templates.get(entry.resource_claim_template_name or "")
        fit = next(
            (candidate for candidate in left if template is not None and matches_template(candidate.claim, template)),
            None,
        )
        if fit is not None:
            matched[entry.name] = fit
            left.remove(fit)
    return matched
