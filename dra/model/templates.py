"""ResourceClaimTemplates, from which claims are generated, and PodGroups, which own claims as pods do."""

from typing import Any, Final, Self

import msgspec

from dra.model.meta import BoundedObject, ObjectMeta, OwnerReference, Struct
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


class WatchedTemplate(ResourceClaimTemplate, BoundedObject, frozen=True):
    """A ResourceClaimTemplate as the controllers keep it."""

    is_reduced: bool = msgspec.field(default=False, name="-reduced")
    """Whether the spec is left out because it is large: it must be read before it is used."""

    def reduced(self) -> Self:
        """Return the template without its spec."""
        return msgspec.structs.replace(self, spec=ResourceClaimTemplateSpec(), is_reduced=True)


class _LargeTemplateSpec(Struct, frozen=True):
    metadata: TemplateMetadata = TemplateMetadata()
    spec: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)


class LargeTemplate(Struct, frozen=True):
    """A large ResourceClaimTemplate, read to create one claim: most of its spec stays in JSON."""

    metadata: ObjectMeta
    spec: _LargeTemplateSpec = _LargeTemplateSpec()

    def to_template(self) -> ResourceClaimTemplate:
        """Return the template, with only the requests of its spec as plain data. Raises msgspec.ValidationError."""
        spec: dict[str, Any] = dict(self.spec.spec)
        if "devices" in spec:
            devices: dict[str, Any] = msgspec.json.decode(spec["devices"], type=dict[str, msgspec.Raw])
            if "requests" in devices:
                devices["requests"] = msgspec.json.decode(devices["requests"])
            spec["devices"] = devices
        return ResourceClaimTemplate(
            metadata=self.metadata, spec=ResourceClaimTemplateSpec(metadata=self.spec.metadata, spec=spec)
        )


class PodGroupSpec(Struct, frozen=True):
    """``spec`` of a PodGroup, as far as claims are concerned."""

    resource_claims: list[PodResourceClaim] | None = None


class PodGroupStatus(Struct, frozen=True):
    """``status`` of a PodGroup: the claims that were generated for it."""

    resource_claim_statuses: list[PodResourceClaimStatus] | None = None


class PodGroup(BoundedObject, frozen=True):
    """A PodGroup: pods that are scheduled together and may share claims."""

    metadata: ObjectMeta
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


def requests_admin_access(devices: dict[str, Any] | None) -> bool:
    """Report whether a request in a claim's ``spec.devices`` has adminAccess; subrequests cannot have it."""
    requests = (devices or {}).get("requests") or ()
    return any((request.get("exactly") or {}).get("adminAccess") is True for request in requests)
