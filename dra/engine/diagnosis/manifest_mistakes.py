"""Mistakes in manifests of pods and claims that no API server refuses, reported before a pod runs.

Each would otherwise show late: a container without its device, a claim that is released under another workload, an
annotation that nothing reads.
"""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Final

from dra.engine.claims.annotation_keys import unknown_annotations
from dra.engine.claims.reasons import list_names
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.model.claims import ResourceClaim
from dra.model.meta import Key
from dra.model.references import ConsumerReference, MalformedReferenceError
from dra.model.scheduling import SchedulerPod
from dra.model.workload_reservations import RESERVED_FOR, workload_reservation
from dra.model.workload_types import WORKLOAD_TYPES

_PREFIX: Final = "reserve.dra"
_DOMAIN_MAX: Final = 253
_FOREIGN_KEY: Final = re.compile(r"(?P<domain>[^/]+)/(?P<name>[^/]+)")
_OUR_NAMES: Final = (RESERVED_FOR.partition("/")[2], "when-suspended", "pre-list", "force-release")


def pod_mistakes(cluster: ClusterState, pod: SchedulerPod) -> Iterator[str]:
    """Yield the mistakes of a pod, object first."""
    subject = f"pod {'/'.join(pod.metadata.key)}"
    namespace = pod.metadata.namespace
    for entry in pod.spec.resource_claims or ():
        name, template = entry.resource_claim_name, entry.resource_claim_template_name
        if name and cluster.claim_cache.claim((namespace, name)) is None and (namespace, name) in cluster.templates:
            yield (
                f"{subject}: there is no ResourceClaim {name}, but a ResourceClaimTemplate of that name: write "
                "resourceClaimTemplateName"
            )
        is_claim = template and cluster.claim_cache.claim((namespace, template)) is not None
        if is_claim and (namespace, template) not in cluster.templates:
            yield (
                f"{subject}: there is no ResourceClaimTemplate {template}, but a ResourceClaim of that name: write "
                "resourceClaimName"
            )
    containers = (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))
    used = {claim.name for container in containers for claim in container.resources.claims or ()}
    if unused := [entry.name for entry in pod.spec.resource_claims or () if entry.name not in used]:
        yield (
            f"{subject}: no container names {list_names(unused)} in resources.claims, so no container gets the device; "
            "right only for devices of the whole pod, such as network interfaces"
        )


def claim_mistakes(cluster: ClusterState, claim: ResourceClaim) -> Iterator[str]:
    """Yield the mistakes of a claim, object first."""
    subject = f"claim {'/'.join(claim.metadata.key)}"
    for key, meant in unknown_annotations(claim.metadata.annotations):
        yield f"{subject}: annotation {key} has no effect{f': write {meant}' if meant else ''}"
    for key in sorted(claim.metadata.annotations or ()):
        if meant := _meant_key(key):
            yield f"{subject}: annotation {key} has no effect: write {meant}"
    try:
        reservation = workload_reservation(claim)
    except MalformedReferenceError as error:
        yield f"{subject}: {error}"
        return
    if reservation is None or not reservation.reference.name:
        return
    reference = reservation.reference
    if kind := _meant_kind(reference):
        yield f"{subject}: no kind {reference.group_resource}: write {kind}/{reference.name}"
        return
    owners = dict.fromkeys(_owner(pod) for pod in cluster.pods_of(claim.metadata.key))
    others = [f"{kind.lower()} {name}" for kind, name in owners if kind and not _is_named(reference, kind, name)]
    if not others:
        return
    if any(_is_named(reference, kind, name) for kind, name in owners if kind):
        yield (
            f"{subject}: reserved for {reference}, and pods of {list_names(others)} use it as well: when {reference} "
            "ends, the claim is kept only until these pods end, and pods that come later may get other devices"
        )
    else:
        yield f"{subject}: reserved for {reference}, but the pods that name it belong to {list_names(others)}"


def mistakes(cluster: ClusterState, *, pods: Iterable[SchedulerPod], claims: Iterable[ResourceClaim]) -> Iterator[str]:
    """Yield the mistakes of new pods and claims; of the pods of one workload, those of the first."""
    for claim in claims:
        yield from claim_mistakes(cluster, claim)
    first: dict[tuple[str, Key], SchedulerPod] = {}
    for pod in pods:
        owner = _owner(pod)
        first.setdefault((pod.metadata.namespace, owner if any(owner) else ("", pod.metadata.name)), pod)
    for pod in first.values():
        yield from pod_mistakes(cluster, pod)


def _meant_key(key: str) -> str:
    """Return the annotation of ours that a key of a similar domain means; empty if there is none."""
    parts = _FOREIGN_KEY.fullmatch(key[:_DOMAIN_MAX])
    if parts is None or parts["domain"] == _PREFIX or not get_close_matches(parts["domain"], [_PREFIX], cutoff=0.8):
        return ""
    near = get_close_matches(parts["name"], _OUR_NAMES, n=1, cutoff=0.8)
    return f"{_PREFIX}/{near[0]}" if near else ""


def _meant_kind(reference: ConsumerReference) -> str:
    """Return the kind that a reference without its group means, such as ``jobs.batch``; empty if it is right."""
    given = reference.group_resource
    known = [str(workload_type.resource) for workload_type in WORKLOAD_TYPES]
    if given.group or str(given) in known:
        return ""
    return next((name for name in known if name.partition(".")[0] == given.resource), "")


def _owner(pod: SchedulerPod) -> Key:
    owner = pod.metadata.controller
    return (owner.kind, owner.name) if owner is not None else ("", "")


def _is_named(reference: ConsumerReference, kind: str, name: str) -> bool:
    """Report whether a reference names a workload; of a kind whose pods have another controller, any name may be it."""
    plural = reference.resource
    if plural == f"{kind.lower()}s" and name == reference.name:
        return True
    row = next(
        (workload_type for workload_type in WORKLOAD_TYPES if workload_type.resource == reference.group_resource), None
    )
    return row is None or not row.controls_pods
