"""Objects of a cluster with translated pods: pods, templates, claims, slices with cards."""

from typing import Any

from dra.api.koordinator import well_known
from dra.engine.translation import template_names
from dra.engine.translation.templates import template_manifest
from dra.model.claims import AllocationResult, ResourceClaim, ResourceClaimSpec, ResourceClaimStatus
from dra.model.meta import ObjectMeta, OwnerReference, Uid
from dra.model.pods import Pod, PodResourceClaim, PodResourceClaimStatus, PodSpec, PodStatus
from dra.model.slices import (
    Device,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from dra.model.templates import ResourceClaimTemplate, ResourceClaimTemplateSpec

NAMESPACE = "ml"
HALF = "koord-gpu-c50-r50-s1"
BYTES = "koord-gpu-m8192-s1"
GIBI = 2**30
LABELS = {well_known.LABEL_MADE_FROM: well_known.KOORDINATOR}


def devices(name: str = HALF, *sizes: int) -> dict[str, Any]:
    """Return what the claims of a template request."""
    request = template_names.parse(name)
    assert request is not None
    manifest = template_manifest(name, NAMESPACE, request, card_sizes=sizes or (16 * GIBI,))
    assert manifest is not None
    found: dict[str, Any] = manifest["spec"]["spec"]
    return found


def meta(name: str, *, version: int = 1, **fields: Any) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=NAMESPACE, uid=Uid(f"uid-{name}"), resource_version=str(version), **fields)


def template(
    name: str = HALF,
    *sizes: int,
    labels: dict[str, str] | None = LABELS,
    unused_since: str = "",
    form: str = "",
    version: int = 1,
    deleting: bool = False,
) -> ResourceClaimTemplate:
    given = {well_known.ANNOTATION_UNUSED_SINCE: unused_since, well_known.ANNOTATION_FORM: form}
    annotations = {key: value for key, value in given.items() if value} or None
    deletion = "2026-11-20T12:00:00Z" if deleting else None
    metadata = meta(name, version=version, labels=labels, annotations=annotations, deletion_timestamp=deletion)
    return ResourceClaimTemplate(metadata=metadata, spec=ResourceClaimTemplateSpec(spec=devices(name, *sizes)))


def pod(name: str = "p", *templates: str, node: str = "", phase: str = "", claims: bool = False) -> Pod:
    names = templates or (HALF,)
    entries = [
        PodResourceClaim(name=f"koord-gpu-{index}", resource_claim_template_name=each)
        for index, each in enumerate(names)
    ]
    statuses = [
        PodResourceClaimStatus(name=each.name, resource_claim_name=f"{name}-{index}")
        for index, each in enumerate(entries)
    ]
    return Pod(
        metadata=meta(name),
        spec=PodSpec(node_name=node, resource_claims=entries),
        status=PodStatus(phase=phase, resource_claim_statuses=statuses if claims else None),
    )


def claim(name: str = "p-0", *sizes: int, owner: str = "p", allocated: bool = False) -> ResourceClaim:
    by = OwnerReference(api_version="v1", kind="Pod", name=owner, uid=Uid(f"uid-{owner}"), controller=True)
    return ResourceClaim(
        metadata=meta(name, owner_references=[by]),
        spec=ResourceClaimSpec(devices=devices(HALF, *sizes)["devices"]),
        status=ResourceClaimStatus(allocation=AllocationResult() if allocated else None),
    )


def cards(
    name: str,
    *memory: str,
    driver: str = well_known.GPU_DRIVER,
    generation: int = 1,
    shared: bool = True,
    pool: str = "",
) -> ResourceSlice:
    """Return a slice with a card for each amount of memory."""
    found = [
        Device(name=f"gpu-{index}", capacity={"memory": {"value": each}}, allow_multiple_allocations=shared)
        for index, each in enumerate(memory)
    ]
    spec = ResourceSliceSpec(driver=driver, pool=ResourcePool(name=pool or name, generation=generation), devices=found)
    return ResourceSlice(metadata=ObjectMeta(name=name), spec=spec)
