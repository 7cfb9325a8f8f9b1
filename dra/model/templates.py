"""ResourceClaimTemplates, from which claims are generated, and PodGroups, which own claims as pods do."""

from typing import Any, Final

import msgspec

from dra.model.meta import ObjectMeta, OwnerReference, Struct
from dra.model.pods import PodResourceClaim, PodResourceClaimStatus
from dra.model.references import POD_GROUPS

POD_GROUP: Final = "PodGroup"


def is_pod_group(owner: OwnerReference) -> bool:
    """Report whether an owner is a PodGroup of Kubernetes; other API groups have kinds of that name (Volcano does)."""
    return owner.kind == POD_GROUP and owner.api_version.partition("/")[0] == POD_GROUPS.group


class TemplateMetadata(Struct, frozen=True):
    """``spec.metadata`` of a template: only labels and annotations are copied to claims."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class ResourceClaimTemplateSpec(Struct, frozen=True):
    """``spec`` of a template; the spec of the claims stays plain data, so that no field of it is lost."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class ResourceClaimTemplate(Struct, frozen=True):
    """A ResourceClaimTemplate, from which claims of pods are generated."""

    metadata: ObjectMeta
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class PodGroupSpec(Struct, frozen=True):
    """``spec`` of a PodGroup, as far as claims are concerned."""

    resource_claims: list[PodResourceClaim] | None = None


class PodGroupStatus(Struct, frozen=True):
    """``status`` of a PodGroup: the claims that were generated for it."""

    resource_claim_statuses: list[PodResourceClaimStatus] | None = None


class PodGroup(Struct, frozen=True):
    """A PodGroup: pods that are scheduled together and may share claims."""

    metadata: ObjectMeta
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


def requests_admin_access(devices: dict[str, Any] | None) -> bool:
    """Report whether a request in a claim's ``spec.devices`` has adminAccess; subrequests cannot have it."""
    requests = (devices or {}).get("requests") or ()
    return any((request.get("exactly") or {}).get("adminAccess") is True for request in requests)
