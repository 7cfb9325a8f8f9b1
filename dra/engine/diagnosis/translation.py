"""Diagnoses a pod's requests in Koordinator's form: the entries that stand for them, or why there are none.

Admission policies have translated the pod of an enabled namespace before it was stored. A stored pod that the engine
would still translate was therefore created elsewhere, before the namespace was enabled, or without the policies.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from dra.api.koordinator.well_known import GPU_DRIVER, GPU_MEMORY
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.diagnosis.problems import Problem, pod_problem
from dra.engine.translation import template_names
from dra.engine.translation.requests import ContainerPath, Refusal, Request, gpu_shares
from dra.engine.translation.translated_pods import translate
from dra.model.meta import Struct
from dra.model.scheduling import Container, SchedulerPod

KOORDINATOR_DOMAIN: Final = "koordinator.sh/"
"""Part of the keys of all labels and annotations of Koordinator."""

POLICIES_SINCE: Final = (1, 36)
"""The first version of Kubernetes whose API server has the admission policies of the translation."""


class EntryDiagnosis(Struct, frozen=True):
    """A request that a pod's entry stands for, or would stand for."""

    name: str
    """Name of the entry in ``spec.resourceClaims``."""

    template: str
    request: Request
    containers: tuple[str, ...]
    template_exists: bool | None = None
    """None if the templates could not be read."""

    claim: str = ""
    """The claim that was generated for the entry; empty while there is none."""


class TranslationDiagnosis(Struct, frozen=True):
    """The diagnosis of a pod that requests CPUs or GPUs in Koordinator's form."""

    entries: tuple[EntryDiagnosis, ...] = ()
    untranslated: tuple[EntryDiagnosis, ...] = ()
    """The entries that the translation would add to the pod."""

    refusals: tuple[Refusal, ...] = ()
    """The reasons for which the translation would refuse the pod."""

    enabled: bool | None = None
    """Whether the pod's namespace is enabled for translation; None if the namespace could not be read."""


def explain_translation(cluster: ClusterState, pod: SchedulerPod) -> TranslationDiagnosis | None:
    """Return the diagnosis of a pod's requests in Koordinator's form; None if the pod has no such request."""
    entries = tuple(_entries(cluster, pod))
    if not entries and asks_nothing(pod):
        return None
    translated = translate(pod_manifest(pod))
    if not entries and not translated.entries and not translated.refusals:
        return None
    untranslated = (
        EntryDiagnosis(
            name=entry.name,
            template=template_names.name_of(entry.request),
            request=entry.request,
            containers=_container_names(pod, entry.containers),
        )
        for entry in translated.entries
    )
    return TranslationDiagnosis(
        entries=entries,
        untranslated=tuple(untranslated),
        refusals=translated.refusals,
        enabled=cluster.snapshot.enabled_namespaces.get(pod.metadata.namespace),
    )


def asks_nothing(pod: SchedulerPod) -> bool:
    """Report whether a pod surely translates to nothing: no label and no annotation of Koordinator, and no device.

    Most pods of a cluster are such pods, and this takes a hundredth of the time of the translation.
    """
    for keys in (pod.metadata.labels, pod.metadata.annotations):
        if any(KOORDINATOR_DOMAIN in key for key in keys or ()):
            return False
    for container in (*(pod.spec.containers or ()), *(pod.spec.init_containers or ())):
        for amounts in (container.resources.requests, container.resources.limits):
            if any("/" in name for name in amounts or ()):
                return False
    return True


def translation_problems(cluster: ClusterState, pod: SchedulerPod) -> Iterator[Problem]:
    """Yield the problem of a pod whose requests were not translated, if whether its namespace is enabled is known."""
    key, uid = pod.metadata.key, pod.metadata.uid
    if cluster.snapshot.enabled_namespaces.get(key[0]) is None:
        return
    diagnosis = explain_translation(cluster, pod)
    if diagnosis is None or not (diagnosis.untranslated or diagnosis.refusals):
        return
    if not diagnosis.enabled:
        yield pod_problem(ProblemCode.NAMESPACE_NOT_ENABLED, key=key, uid=uid)
        return
    yield pod_problem(ProblemCode.NOT_TRANSLATED, key=key, uid=uid, served=int(_has_policies(cluster.snapshot.server)))


def missing_template_problem(cluster: ClusterState, pod: SchedulerPod, template: str) -> Problem | None:
    """Return the problem of a missing template for a request in Koordinator's form; None for any other template."""
    request = template_names.parse(template)
    if request is None:
        return None
    needs_cards = any(share.ratio is not None for share in gpu_shares(request))
    makes = not needs_cards or any(_publishes_cards(cluster))
    return pod_problem(
        ProblemCode.REQUEST_TEMPLATE_MISSING,
        key=pod.metadata.key,
        uid=pod.metadata.uid,
        template=template,
        makes=int(makes),
    )


def _entries(cluster: ClusterState, pod: SchedulerPod) -> Iterator[EntryDiagnosis]:
    made = {status.name: status.resource_claim_name or "" for status in pod.status.resource_claim_statuses or ()}
    unread = any(gap.resource.startswith("resourceclaimtemplates") for gap in cluster.snapshot.gaps)
    for entry in pod.spec.resource_claims or ():
        template = entry.resource_claim_template_name or ""
        request = template_names.parse(template)
        if request is None:
            continue
        there = (pod.metadata.namespace, template) in cluster.templates
        yield EntryDiagnosis(
            name=entry.name,
            template=template,
            request=request,
            containers=tuple(_users(pod, entry.name)),
            template_exists=None if unread and not there else there,
            claim=made.get(entry.name, ""),
        )


def _all_containers(pod: SchedulerPod) -> Iterable[Container]:
    return (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))


def _users(pod: SchedulerPod, entry: str) -> Iterator[str]:
    for container in _all_containers(pod):
        if any(claim.name == entry for claim in container.resources.claims or ()):
            yield container.name


def _container_names(pod: SchedulerPod, paths: Iterable[ContainerPath]) -> tuple[str, ...]:
    listed = {"containers": pod.spec.containers or (), "initContainers": pod.spec.init_containers or ()}
    return tuple(listed[field][index].name for field, index in paths)


def pod_manifest(pod: SchedulerPod) -> Mapping[str, Any]:
    """Return a pod in the form of the API; a stored pod has a priority, which is left out here if it is 0."""
    manifest: dict[str, Any] = msgspec.to_builtins(pod)
    manifest["spec"] = {"priority": pod.spec.priority} | manifest.get("spec", {})
    return manifest


def _publishes_cards(cluster: ClusterState) -> Iterator[bool]:
    for resource_slice in cluster.snapshot.slices:
        if resource_slice.spec.driver == GPU_DRIVER:
            for device in resource_slice.spec.devices or ():
                yield device.allow_multiple_allocations and GPU_MEMORY in (device.capacity or {})


def _has_policies(version: str) -> bool:
    """Report whether a server of a version such as ``v1.36.3`` has the policies; True if the version is unknown."""
    parts = version.removeprefix("v").split(".")[:2]
    known = len(parts) == len(POLICIES_SINCE) and all(map(str.isdigit, parts))
    return not known or tuple(map(int, parts)) >= POLICIES_SINCE
