"""Pods that may keep another pod from their nodes: the required anti-affinity of a pod works in both directions.

In kube-scheduler a pod without any affinity is refused by the topology domains of pods that repel it. Here only the
pods are found, wherever they are, so that nobody claims that such a pod fits.
"""

from collections.abc import Iterable, Iterator, Mapping

from dra.model.diagnosed_pods import DiagnosedPod
from dra.model.pod_affinity import PodAffinityTerm
from dra.model.scheduling import SchedulerPod


def repelling_pods(pods: Iterable[SchedulerPod]) -> list[DiagnosedPod]:
    """Return the pods that keep others away; those that were read without their affinity are left out."""
    return [pod for pod in pods if isinstance(pod, DiagnosedPod) and not pod.terminal and any(_terms(pod))]


def may_repel(carrier: DiagnosedPod, *, namespace: str, labels: Mapping[str, str]) -> bool:
    """Return whether a pod keeps a pod with these labels away from its topology domains.

    A selector of namespaces may match any namespace: the labels of namespaces are not known.
    """
    own = carrier.metadata.namespace
    return any(_may_match(term, own=own, namespace=namespace, labels=labels) for term in _terms(carrier))


def _terms(pod: DiagnosedPod) -> Iterator[PodAffinityTerm]:
    affinity = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity is not None else None
    if affinity is not None:
        yield from affinity.required_during_scheduling_ignored_during_execution or ()


def _may_match(term: PodAffinityTerm, *, own: str, namespace: str, labels: Mapping[str, str]) -> bool:
    selector = term.label_selector
    if selector is None or not selector.selects(labels):
        return False
    return term.namespace_selector is not None or namespace in (term.namespaces or (own,))
