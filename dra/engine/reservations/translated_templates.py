"""Requests in Koordinator's form in the template of a reservation, which the placeholder makes like its owner pods.

The admission policies translate the placeholder as any pod, so its claims have the names and the templates of an owner
pod's claims, and the controller hands them over by name. For that, the placeholder asks as the owner pods do:

* its containers with GPUs have the indexes of the template's, since each container has a claim of its own; init
  containers that use the claim of another container are left out;
* the CPU limit of a pod that is bound to CPUs equals its request, which has the overhead of the template in it: a pod
  may have an overhead of its own only by a RuntimeClass.

Shares of GPUs are held as claims alone, never as an amount of a node.
"""

from collections.abc import Mapping
from typing import Any, Final

from dra.api.koordinator import well_known
from dra.engine.translation import classes, cpu_requests, gpu_requests, pod_fields
from dra.engine.translation.requests import ClaimEntry
from dra.engine.translation.translated_pods import translate, translated_pod
from dra.model.koordinator_classes import LABEL_PRIORITY_CLASS, LABEL_QOS_CLASS
from dra.model.quantities import Amounts

BOUND_PRIORITY_CLASS: Final = "koord-prod"

_Resources = dict[str, dict[str, Any]]


def without_gpus(amounts: Amounts) -> dict[str, int]:
    """Return amounts without shares of GPUs."""
    return {name: amount for name, amount in amounts.items() if name not in gpu_requests.GPU_NAMES}


def asks_for_gpus(template: Mapping[str, Any]) -> bool:
    """Report whether a container of a template asks for shares of GPUs."""
    return any(gpu_requests.asked_names(container) for container in pod_fields.containers(template))


def may_have_claims(template: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Report whether pods of a template get claims in a namespace that has the label."""
    bound = labels.get(LABEL_QOS_CLASS, classes.qos_label(template)) in classes.BOUND_CLASSES
    return bound or asks_for_gpus(template)


def translated(
    template: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str]
) -> Mapping[str, Any]:
    """Return a template with the claims that its pods get, which have the labels and annotations of the reservation."""
    if not may_have_claims(template, labels):
        return template
    pod = _owner_pod(template, labels, annotations)
    return translated_pod(pod, translate(pod).entries)


def entries(
    template: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str]
) -> tuple[ClaimEntry, ...]:
    """Return the entries that pods of a template get, which have the labels and annotations of the reservation."""
    return translate(_owner_pod(template, labels, annotations)).entries


def may_bind_cpus(template: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
    """Report whether pods of a template get a claim for CPUs in a namespace that has the label."""
    pod = _owner_pod(template, labels, annotations)
    return not cpu_requests.annotation_refusals(pod) and cpu_requests.cpu_entry(pod) is not None


def _owner_pod(
    template: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str]
) -> Mapping[str, Any]:
    metadata = {
        "labels": {**pod_fields.labels(template), **labels},
        "annotations": {**pod_fields.annotations(template), **annotations},
    }
    return {**template, "metadata": metadata}


def add_gpus(spec: dict[str, Any], template: Mapping[str, Any]) -> None:
    """Add the GPUs of a template to a placeholder's spec, which has one container."""
    if not asks_for_gpus(template):
        return
    (model,) = spec["containers"]
    bare = {key: value for key, value in model.items() if key != "resources"}
    lenders = gpu_requests.lenders(template)
    for container in pod_fields.containers(template):
        names = gpu_requests.asked_names(container)
        if not names or container.at not in lenders:
            continue
        field, index = container.at
        listed = spec.setdefault(field, [])
        for number in range(len(listed), index + 1):
            name = f"{model['name']}-{'init-' if field == 'initContainers' else ''}{number}"
            restart = {"restartPolicy": "Always"} if field == "initContainers" else {}  # pause never ends
            listed.append({**bare, **restart, "name": name, "resources": {}})
        amounts = {name: container.limits.get(name, container.requests.get(name)) for name in names}
        _merge(listed[index]["resources"], amounts)


def bind_cpus(manifest: dict[str, Any]) -> None:
    """Set the CPU limit of a placeholder that is bound to CPUs."""
    if classes.bound_class(manifest) is not None:
        resources: _Resources = manifest["spec"]["containers"][0]["resources"]
        if cpus := resources["requests"].get("cpu"):
            resources["limits"] = {**resources.get("limits", {}), "cpu": cpus}


def leave_cpus(manifest: dict[str, Any]) -> None:
    """Keep a placeholder from getting a claim for CPUs."""
    if classes.bound_class(manifest) is not None:
        manifest["metadata"]["annotations"][well_known.ANNOTATION_CPUS] = well_known.OWN_CPUS


def binding_metadata(manifest: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels and annotations with which a placeholder of another priority class is translated alike."""
    given = pod_fields.annotations(manifest)
    names: tuple[str, ...] = (well_known.ANNOTATION_NUMA_TOPOLOGY_SPEC, well_known.ANNOTATION_DEVICE_ALLOCATE_HINT)
    labels = {}
    if classes.bound_class(manifest) is not None:
        labels = {LABEL_QOS_CLASS: classes.qos_label(manifest), LABEL_PRIORITY_CLASS: BOUND_PRIORITY_CLASS}
        names += (well_known.ANNOTATION_RESOURCE_SPEC, well_known.ANNOTATION_CPUS)
    return labels, {name: given[name] for name in names if name in given}


def _merge(resources: _Resources, amounts: Mapping[str, Any]) -> None:
    for kind in ("requests", "limits"):
        resources[kind] = {**resources.get(kind, {}), **amounts}
