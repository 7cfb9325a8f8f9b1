"""The pods that DefaultEvictor and MigrationController protect, whichever plugin names them.

Both stand on the one evictability function of migrations (`dra.engine.migration.evictability`), so that a pod that no
job of a person may move is no candidate either. The fields are those of the community's descheduler 0.36 and of
Koordinator; KEP-notes.md lists what differs.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from dra.api.descheduler.evictor_args import DefaultEvictorArgs, NoEvictionPolicy, PodProtection
from dra.api.descheduler.migration_controller_args import PriorityThreshold
from dra.api.durations import SECOND, format_duration
from dra.api.migration.well_known import ANNOTATION_PREFER_NO_EVICTION
from dra.engine.descheduling.pod_volumes import PodVolumes
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.round_budgets import RoundBudgets
from dra.engine.descheduling.snapshot import Snapshot
from dra.engine.instants import WallTime
from dra.engine.migration import evictability
from dra.engine.migration.evictability import BarePods, EvictabilityRules
from dra.engine.migration.pod_index import workload_of

_SETTING: Final = "podProtections: {}"


class DefaultEvictorFilter:
    """The protections of DefaultEvictor."""

    name = "DefaultEvictor"
    Args = DefaultEvictorArgs

    def filter(self, pod: DeschedulingPod, snapshot: Snapshot, args: DefaultEvictorArgs) -> str:
        """Return why a pod must not be evicted; empty if it may be."""
        return next(filter(None, self._reasons(pod, snapshot, args)), "")

    def _reasons(self, pod: DeschedulingPod, snapshot: Snapshot, args: DefaultEvictorArgs) -> Iterator[str]:
        name = f"pod {'/'.join(pod.metadata.key)}"
        yield evictability.protection(pod, _rules(args, snapshot))
        yield snapshot.part(PodVolumes).single_node_reason(pod)
        if evictability.overrules_rules(pod):
            return
        prefers_none = pod.metadata.annotation(ANNOTATION_PREFER_NO_EVICTION) is not None
        if prefers_none and args.no_eviction_policy is NoEvictionPolicy.MANDATORY:
            yield f"{name}: has {ANNOTATION_PREFER_NO_EVICTION} (noEvictionPolicy: Mandatory)"
        yield from _extra_reasons(pod, name, snapshot, args)
        yield _namespace_reason(pod, snapshot, args)
        yield _age_reason(pod, name, snapshot, args)
        yield _replicas_reason(pod, name, snapshot, args)


def _rules(args: DefaultEvictorArgs, snapshot: Snapshot) -> EvictabilityRules:
    protections = args.protections
    has_classes = bool(_protected_classes(args))
    return EvictabilityRules(
        protections={
            protection: _SETTING.format(protection)
            for protection in protections
            if not (protection is PodProtection.PVC and has_classes)  # which depends on the claims
        },
        bare_pods=BarePods.NONE if PodProtection.FAILED_BARE in protections else BarePods.FAILED,
        bare_pods_setting=_SETTING.format(PodProtection.FAILED_BARE),
        priority_threshold=resolved_threshold(args.priority_threshold, snapshot),
        label_selector=args.label_selector,
    )


def resolved_threshold(given: PriorityThreshold | None, snapshot: Snapshot) -> PriorityThreshold | None:
    """Return a threshold with the value of the PriorityClass that it names; as it is if there is no such class."""
    value = snapshot.objects.priority_classes.get(given.name) if given is not None and given.value is None else None
    return given if given is None or value is None else given.model_copy(update={"value": value})


def _protected_classes(args: DefaultEvictorArgs) -> frozenset[str]:
    config = args.pod_protections.config.pods_with_pvc
    return (
        frozenset()
        if config is None
        else frozenset(storage_class.name for storage_class in config.protected_storage_classes)
    )


def _extra_reasons(pod: DeschedulingPod, name: str, snapshot: Snapshot, args: DefaultEvictorArgs) -> Iterator[str]:
    protections = args.protections
    if PodProtection.RESOURCE_CLAIMS in protections and pod.spec.resource_claims:
        yield f"{name}: uses resource claims ({_SETTING.format(PodProtection.RESOURCE_CLAIMS)})"
    if PodProtection.WITHOUT_PDB in protections and not snapshot.part(RoundBudgets).is_covered(pod):
        yield f"{name}: no PodDisruptionBudget covers it ({_SETTING.format(PodProtection.WITHOUT_PDB)})"
    if PodProtection.PVC in protections and (classes := _protected_classes(args)):
        yield snapshot.part(PodVolumes).class_reason(pod, classes)


def _namespace_reason(pod: DeschedulingPod, snapshot: Snapshot, args: DefaultEvictorArgs) -> str:
    selector, namespace = args.namespace_label_selector, pod.metadata.namespace
    if selector is None or selector.selects(snapshot.objects.namespaces.get(namespace)):
        return ""
    return f"namespace {namespace}: its labels do not match namespaceLabelSelector"


def _age_reason(pod: DeschedulingPod, name: str, snapshot: Snapshot, args: DefaultEvictorArgs) -> str:
    if args.min_pod_age is None:
        return ""
    wanted = format_duration(args.min_pod_age)
    age = _seconds_since(pod.status.start_time, now=snapshot.now)
    if age is None:
        return f"{name}: has not started yet (minPodAge: {wanted})"
    if age * SECOND >= args.min_pod_age:
        return ""
    return f"{name}: started {age} s ago (minPodAge: {wanted})"


def _seconds_since(start: str | None, *, now: WallTime) -> int | None:
    """Return whole seconds since a start, rounded down, 0 for one in the future; None without a start."""
    try:
        return max(0, int(now - datetime.fromisoformat(start or "").timestamp()))
    except ValueError:
        return None


def _replicas_reason(pod: DeschedulingPod, name: str, snapshot: Snapshot, args: DefaultEvictorArgs) -> str:
    """Return why a pod must stay so that its owner keeps the least number of pods."""
    workload = workload_of(pod)
    if args.min_replicas <= 1 or workload is None:
        return ""
    others = 0
    for other in snapshot.pods_of(workload):
        others += other is not pod and _stays(other, snapshot)
        if others >= args.min_replicas:
            return ""
    return f"{name}: would leave {others} pods of {workload} (minReplicas: {args.min_replicas})"


def _stays(pod: DeschedulingPod, snapshot: Snapshot) -> bool:
    return not (pod.metadata.deleting or pod.terminal or pod.metadata.uid in snapshot.moved)
