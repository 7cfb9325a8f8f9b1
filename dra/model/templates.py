"""What claims are made from: ResourceClaimTemplates, and PodGroups, which own claims as pods do."""

from typing import Any, Final

import msgspec

from dra.model.meta import ObjectMeta, OwnerReference, Struct
from dra.model.pods import PodResourceClaim, PodResourceClaimStatus
from dra.model.references import POD_GROUPS

POD_GROUP: Final = "PodGroup"


def is_pod_group(owner: OwnerReference) -> bool:
    """Whether an owner is a PodGroup of Kubernetes: kinds of other API groups may bear that name (Volcano's does)."""
    return owner.kind == POD_GROUP and owner.api_version.partition("/")[0] == POD_GROUPS.group


class TemplateMetadata(Struct, frozen=True):
    """``spec.metadata``: only these two are copied, whatever else a template says."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class ResourceClaimTemplateSpec(Struct, frozen=True):
    """``spec``; what the claims ask for stays plain data, so that nothing of it is lost on the way."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class ResourceClaimTemplate(Struct, frozen=True):
    """A template."""

    metadata: ObjectMeta
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class PodGroupSpec(Struct, frozen=True):
    """``spec``: what it says of claims."""

    resource_claims: list[PodResourceClaim] | None = None


class PodGroupStatus(Struct, frozen=True):
    """``status``: which claims were made for it."""

    resource_claim_statuses: list[PodResourceClaimStatus] | None = None


class PodGroup(Struct, frozen=True):
    """A group of pods that are scheduled together and may share claims."""

    metadata: ObjectMeta
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


def requests_admin_access(devices: dict[str, Any] | None) -> bool:
    """Whether a request in a claim's ``spec.devices`` asks for adminAccess; subrequests cannot."""
    requests = (devices or {}).get("requests") or ()
    return any((request.get("exactly") or {}).get("adminAccess") is True for request in requests)
