"""Pods and PodGroups that ask for claims, and what was made for them."""

from dra.engine.claims.generation.owner_index import ClaimOwnerIndex
from dra.model.claims import POD_CLAIM_NAME, ResourceClaim
from dra.model.meta import ObjectMeta, OwnerReference, Uid
from dra.model.pods import Pod, PodResourceClaim, PodResourceClaimStatus, PodSpec, PodStatus, SchedulingGroup
from dra.model.templates import (
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
    TemplateMetadata,
)
from tests.dra.engine.examples import NAMESPACE

DEVICES = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}


def entry(name, template="t"):
    return PodResourceClaim(name=name, resource_claim_template_name=template)


def by_name(name, claim):
    return PodResourceClaim(name=name, resource_claim_name=claim)


def record(name, claim):
    return PodResourceClaimStatus(name=name, resource_claim_name=claim)


def meta(name, **more):
    return ObjectMeta(name=name, namespace=NAMESPACE, uid=Uid(f"uid-{name}"), **more)


def pod(*entries, records=(), phase="", group=None, deleted=False, name="p"):
    return Pod(
        metadata=meta(name, deletion_timestamp="2026-11-20T12:00:00Z" if deleted else None),
        spec=PodSpec(
            resource_claims=list(entries), scheduling_group=SchedulingGroup(pod_group_name=group) if group else None
        ),
        status=PodStatus(phase=phase, resource_claim_statuses=list(records)),
    )


def group(*entries, records=(), name="g"):
    return PodGroup(
        metadata=meta(name),
        spec=PodGroupSpec(resource_claims=list(entries)),
        status=PodGroupStatus(resource_claim_statuses=list(records)),
    )


def claim(name, *, owner="p", made_for=None, kind="Pod"):
    api_version = "v1" if kind == "Pod" else "scheduling.k8s.io/v1alpha2"
    by = OwnerReference(api_version=api_version, kind=kind, name=owner, uid=Uid(f"uid-{owner}"), controller=True)
    annotations = {POD_CLAIM_NAME: made_for} if made_for else None
    return ResourceClaim(metadata=meta(name, annotations=annotations, owner_references=[by]))


def template(name="t", *, labels=None, annotations=None):
    spec = ResourceClaimTemplateSpec(metadata=TemplateMetadata(labels=labels, annotations=annotations), spec=DEVICES)
    return ResourceClaimTemplate(metadata=meta(name), spec=spec)


def see(index, seen, claims):
    """Let the index take in an object."""
    match seen:
        case Pod():
            index.observe_pod(seen)
        case PodGroup():
            index.observe_group(seen)
        case ResourceClaimTemplate():
            index.observe_template(seen)
        case ResourceClaim():
            index.observe_claim(seen, claims.get(seen.metadata.key))
            claims[seen.metadata.key] = seen


def owners(*objects, groups_version=""):
    """An index that has seen these objects, and the claims among them."""
    index, claims = ClaimOwnerIndex(), {}
    index.groups_version = groups_version
    for seen in objects:
        see(index, seen, claims)
    return index, claims


def view(*objects, of="p", groups_version=""):
    """What is known around one owner when these objects have been seen."""
    index, claims = owners(*objects, groups_version=groups_version)
    return index.view(Uid(f"uid-{of}"), claim=claims.get)
