"""Translation of pods: the entries that a pod's labels, annotations and resources ask for, and the pod with them.

This is the only definition; the admission policies (`dra.cli.translation_policies`) are made from the same constants
and tested against this module. A translated pod translates to nothing, so it can pass admission any number of times.
"""

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from dra.api.koordinator import well_known
from dra.engine.translation import (
    aligned_requests,
    classes,
    cpu_requests,
    device_rules,
    gpu_requests,
    pod_fields,
    template_names,
)
from dra.engine.translation.requests import ClaimEntry, Refusal, Translation


def translate(pod: Mapping[str, Any]) -> Translation:
    """Return the entries for a pod in the form of the API, or the refusals."""
    if pod_fields.is_mirror(pod):
        return Translation()
    refusals = (
        *classes.class_refusals(pod),
        *cpu_requests.annotation_refusals(pod),
        *cpu_requests.cpu_refusals(pod),
        *gpu_requests.gpu_refusals(pod),
        *aligned_requests.alignment_refusals(pod),
        *device_rules.rule_refusals(pod),
    )
    if refusals:
        return Translation(refusals=refusals)
    cpus, gpus = cpu_requests.cpu_entry(pod), device_rules.scoped_entries(pod, gpu_requests.gpu_entries(pod))
    return Translation(entries=aligned_requests.aligned_entries(pod, cpus=cpus, gpus=gpus))


def change_refusals(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Refusal]:
    """Return the refusals of an update of a pod, or of its resources (``pods/resize``)."""
    return [*classes.change_refusals(old, new), *cpu_requests.resize_refusals(old, new)]


def lacks_cpu_claim(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod of QoS class LSE or LSR has no claim for CPUs that it would get if it were created now.

    Such a pod was created before its namespace was labelled, and a running pod cannot get a claim.
    """
    return not translate(pod).refusals and cpu_requests.cpu_entry(pod) is not None


def translated_pod(pod: Mapping[str, Any], entries: Iterable[ClaimEntry]) -> dict[str, Any]:
    """Return a pod with the given entries and without the GPU resources that they stand for."""
    made = deepcopy(dict(pod))
    entries = tuple(entries)
    if not entries:
        return made
    spec = made["spec"]
    if taken := _take_gpu_resources(made):
        text = json.dumps({"containers": taken}, separators=(",", ":"))
        metadata = pod_fields.mapping(made.get("metadata"))
        annotations = pod_fields.mapping(metadata.get("annotations"))
        kept = {well_known.ANNOTATION_EXTENDED_RESOURCE_SPEC: text}
        made["metadata"] = {**metadata, "annotations": {**annotations, **kept}}
    spec["resourceClaims"] = [
        *pod_fields.items(spec.get("resourceClaims")),
        *(
            {"name": claim_entry.name, "resourceClaimTemplateName": template_names.name_of(claim_entry.request)}
            for claim_entry in entries
        ),
    ]
    for entry in entries:
        for field, index in entry.containers:
            container = spec[field][index]
            resources = dict(pod_fields.mapping(container.get("resources")))
            name = entry.request_name((field, index))
            reference = {"name": entry.name} | ({"request": name} if name else {})
            resources["claims"] = [*pod_fields.items(resources.get("claims")), reference]
            container["resources"] = resources
    return made


def _take_gpu_resources(made: dict[str, Any]) -> dict[str, dict[str, dict[str, str]]]:
    """Take the GPU resources off all containers; return them by name of the container, as Koordinator writes them."""
    taken = {}
    for container in pod_fields.containers(made):
        names = gpu_requests.asked_names(container)
        if not names:
            continue
        amounts = {name: pod_fields.quantity_text(container.limits[name]) for name in names}
        taken[container.name] = {"requests": amounts, "limits": amounts}
        field, index = container.at
        resources = made["spec"][field][index]["resources"]
        for kind in ("requests", "limits"):
            given = pod_fields.mapping(resources.get(kind))
            if left := {name: text for name, text in given.items() if name not in names}:
                resources[kind] = left
            else:
                resources.pop(kind, None)
    return taken
