"""The pods that must not be evicted at all, whatever the limits: for jobs of people and of the descheduler alike.

The rules are those of the community's descheduler and of Koordinator. Annotation
``descheduler.alpha.kubernetes.io/evict`` on a pod overrules what is a matter of choice: scope, bare pods, volumes and
the priority threshold. It overrules neither the greatest eviction cost, nor what is critical for the system, nor what
no eviction could achieve: static pods and pods of DaemonSets would come back. Whoever creates a pod writes its
annotations, and upstream lets these overrule everything. Of a pod that no node runs nothing is evicted: only the
configured scope of migrations concerns such a pod.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from dra.api.descheduler.evictor_args import PodProtection
from dra.api.descheduler.label_selector import LabelSelector
from dra.api.descheduler.migration_controller_args import MigrationControllerArgs, PriorityThreshold
from dra.api.descheduler.plugin_args import Namespaces
from dra.api.migration.model import MigrationMode
from dra.api.migration.well_known import ANNOTATION_EVICT, EVICTION_COST, MAX_EVICTION_COST
from dra.engine.migration.order import eviction_cost
from dra.engine.migration.view import MigrationPod, MigrationVolume

SYSTEM_CRITICAL_PRIORITY: Final = 2_000_000_000
"""Priority from which on pods are critical for the system (``scheduling.SystemCriticalPriority``)."""

DAEMON_SET: Final = "DaemonSet"
_SYSTEM_CLASSES: Final = frozenset({"system-cluster-critical", "system-node-critical"})
STATIC_POD_ANNOTATIONS: Final = ("kubernetes.io/config.mirror", "kubernetes.io/config.source")
"""Annotations of the pods that a kubelet runs from files of its node."""


def with_priority_value(args: MigrationControllerArgs, value: int | None) -> MigrationControllerArgs:
    """Return a configuration whose ``priorityThreshold.name`` has a value; None: the PriorityClass is unknown."""
    threshold = args.priority_threshold
    if threshold is None or not threshold.name:
        return args
    return args.model_copy(update={"priority_threshold": threshold.model_copy(update={"value": value})})


class BarePods(Enum):
    """The pods without a controller that may be evicted; no pod would replace these."""

    ALL = auto()
    FAILED = auto()
    NONE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictabilityRules:
    """The rules that a configuration chooses."""

    protections: Mapping[PodProtection, str] = field(default_factory=dict)
    """Protection in force → the setting to change, for messages."""
    bare_pods: BarePods = BarePods.NONE
    bare_pods_setting: str = ""
    priority_threshold: PriorityThreshold | None = None
    label_selector: LabelSelector | None = None
    namespaces: Namespaces = field(default_factory=Namespaces)


def migration_rules(args: MigrationControllerArgs, mode: MigrationMode) -> EvictabilityRules:
    """Return the rules for the jobs of a MigrationController."""
    protections = {PodProtection.DAEMON_SETS: ""}
    if not args.evict_system_critical_pods:
        protections[PodProtection.SYSTEM_CRITICAL] = "evictSystemCriticalPods is false"
    if not args.evict_local_storage_pods:
        protections[PodProtection.LOCAL_STORAGE] = "evictLocalStoragePods is false"
    if args.ignore_pvc_pods:
        protections[PodProtection.PVC] = "ignorePvcPods is true"
    bare_pods = BarePods.FAILED if args.evict_failed_bare_pods else BarePods.NONE
    if args.evict_all_bare_pods or mode is not MigrationMode.EVICT_DIRECTLY:
        bare_pods = BarePods.ALL
    return EvictabilityRules(
        protections=protections,
        bare_pods=bare_pods,
        bare_pods_setting="evictAllBarePods is false",
        priority_threshold=args.priority_threshold,
        label_selector=args.label_selector,
        namespaces=args.namespaces,
    )


def refusal(pod: MigrationPod, *, args: MigrationControllerArgs, mode: MigrationMode) -> str:
    """Return why a pod must not be evicted by a job, and what to do; empty if it may be evicted."""
    return refusal_by(migration_rules(args, mode), pod, mode=mode)


def refusal_by(rules: EvictabilityRules, pod: MigrationPod, *, mode: MigrationMode) -> str:
    """Return what `refusal` returns, by the rules of the job's mode."""
    is_evicted = bool(pod.spec.node_name) or mode is MigrationMode.EVICT_DIRECTLY
    return protection(pod, rules, is_evicted=is_evicted)


def protection(pod: MigrationPod, rules: EvictabilityRules, *, is_evicted: bool = True) -> str:
    """Return why a pod must not be evicted, and what to do; empty if it may be evicted.

    Without `is_evicted`, a place is held for a pod that no node runs: only the scope concerns it.
    """
    return next(_reasons(pod, rules, is_evicted), "")


def _reasons(pod: MigrationPod, rules: EvictabilityRules, is_evicted: bool) -> Iterator[str]:  # noqa: FBT001
    name = f"pod {'/'.join(pod.metadata.key)}"
    if pod.metadata.deleting:
        yield f"{name}: is being deleted already"
    if eviction_cost(pod) == MAX_EVICTION_COST:
        yield f"{name}: {EVICTION_COST} is {MAX_EVICTION_COST}, which forbids the eviction"
    if is_static(pod):
        yield f"{name}: is a static pod of the kubelet; remove its manifest from the node instead"
    if is_evicted:
        yield from _hard_reasons(pod, name, rules)
    if overrules_rules(pod):
        return
    yield from _scope_reasons(pod, name, rules)
    if is_evicted:
        yield from _soft_reasons(pod, name, rules)


def is_static(pod: MigrationPod) -> bool:
    """Return whether a pod is a static pod of the kubelet, which would start the pod again."""
    return any(pod.metadata.annotation(annotation) not in (None, "api") for annotation in STATIC_POD_ANNOTATIONS)


def overrules_rules(pod: MigrationPod) -> bool:
    """Return whether a pod's annotation overrules the rules that are a matter of choice."""
    return pod.metadata.annotation(ANNOTATION_EVICT) is not None


def _hard_reasons(pod: MigrationPod, name: str, rules: EvictabilityRules) -> Iterator[str]:
    owner, protections = pod.metadata.controller, rules.protections
    if owner is not None and owner.kind == DAEMON_SET and PodProtection.DAEMON_SETS in protections:
        setting = _in_parentheses(protections[PodProtection.DAEMON_SETS])
        yield f"{name}: belongs to DaemonSet {owner.name}, which would run the pod on the same node again{setting}"
    is_critical = pod.spec.priority >= SYSTEM_CRITICAL_PRIORITY or pod.spec.priority_class_name in _SYSTEM_CLASSES
    if is_critical and PodProtection.SYSTEM_CRITICAL in protections:
        setting = _in_parentheses(protections[PodProtection.SYSTEM_CRITICAL])
        yield f"{name}: is critical for the system{setting}"


def _scope_reasons(pod: MigrationPod, name: str, rules: EvictabilityRules) -> Iterator[str]:
    namespace = pod.metadata.namespace
    wanted = rules.label_selector
    if wanted is not None and not wanted.selects(pod.metadata.labels):
        yield f"{name}: its labels do not match labelSelector"
    include, exclude = rules.namespaces.include, rules.namespaces.exclude
    if (include and namespace not in include) or namespace in exclude:
        yield f"{name}: pods of namespace {namespace} are not migrated (namespaces)"


def _soft_reasons(pod: MigrationPod, name: str, rules: EvictabilityRules) -> Iterator[str]:
    if pod.metadata.controller is None and rules.bare_pods is not BarePods.ALL:
        failed = pod.status.phase == "Failed" and rules.bare_pods is BarePods.FAILED
        if not failed:
            yield f"{name}: has no controller, so no pod would replace it{_in_parentheses(rules.bare_pods_setting)}"
    priority, threshold = pod.spec.priority, rules.priority_threshold
    if threshold is not None and threshold.value is None:
        yield f"{name}: stays while the value of PriorityClass {threshold.name} is unknown (priorityThreshold.name)"
    elif threshold is not None and threshold.value is not None and priority >= threshold.value:
        yield f"{name}: priority {priority} is not below priorityThreshold {threshold.value}"
    volumes, protections = pod.spec.volumes or (), rules.protections
    if PodProtection.LOCAL_STORAGE in protections and any(map(_is_local, volumes)):
        setting = _in_parentheses(protections[PodProtection.LOCAL_STORAGE])
        yield f"{name}: would lose the data in its emptyDir or hostPath volumes{setting}"
    if PodProtection.PVC in protections and any(
        volume.persistent_volume_claim or volume.ephemeral for volume in volumes
    ):
        yield f"{name}: uses persistent volume claims{_in_parentheses(protections[PodProtection.PVC])}"


def _is_local(volume: MigrationVolume) -> bool:
    return volume.empty_dir is not None or bool(volume.host_path)


def _in_parentheses(setting: str) -> str:
    return f" ({setting})" if setting else ""
