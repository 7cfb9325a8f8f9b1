"""The pods that must not be evicted at all, whatever the limits.

The rules are those of the community's descheduler and of Koordinator. Annotation
``descheduler.alpha.kubernetes.io/evict`` on a pod overrules the rules about kinds of pods, but neither the greatest
eviction cost nor what no eviction could achieve. Of a pod that no node runs nothing is evicted: only the configured
scope of migrations concerns such a pod.
"""

from collections.abc import Iterator
from typing import Final

from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.api.migration.model import MigrationMode
from dra.api.migration.well_known import ANNOTATION_EVICT, EVICTION_COST, MAX_EVICTION_COST
from dra.engine.migration.order import eviction_cost
from dra.engine.migration.pod_index import controller_of
from dra.engine.migration.view import MigrationPod

SYSTEM_CRITICAL_PRIORITY: Final = 2_000_000_000
"""Priority from which on pods are critical for the system (``scheduling.SystemCriticalPriority``)."""

DAEMON_SET: Final = "DaemonSet"
_SYSTEM_CLASSES: Final = frozenset({"system-cluster-critical", "system-node-critical"})
STATIC_POD_ANNOTATIONS: Final = ("kubernetes.io/config.mirror", "kubernetes.io/config.source")
"""Annotations of the pods that a kubelet runs from files of its node."""


def refusal(pod: MigrationPod, *, args: MigrationControllerArgs, mode: MigrationMode) -> str:
    """Return why a pod must not be evicted, and what to do; empty if it may be evicted."""
    return next(_reasons(pod, args, mode), "")


def _reasons(pod: MigrationPod, args: MigrationControllerArgs, mode: MigrationMode) -> Iterator[str]:
    name = f"pod {'/'.join(pod.metadata.key)}"
    if pod.metadata.deleting:
        yield f"{name}: is being deleted already"
    if eviction_cost(pod) == MAX_EVICTION_COST:
        yield f"{name}: {EVICTION_COST} is {MAX_EVICTION_COST}, which forbids the eviction"
    if is_static(pod):
        yield f"{name}: is a static pod of the kubelet; remove its manifest from the node instead"
    if overrules_rules(pod):
        return
    yield from _scope_reasons(pod, name, args)
    if pod.spec.node_name or mode is MigrationMode.EVICT_DIRECTLY:
        yield from _kind_reasons(pod, name, args, mode)
        yield from _configured_reasons(pod, name, args)


def is_static(pod: MigrationPod) -> bool:
    """Return whether a pod is a static pod of the kubelet, which would start the pod again."""
    return any(pod.metadata.annotation(each) not in (None, "api") for each in STATIC_POD_ANNOTATIONS)


def overrules_rules(pod: MigrationPod) -> bool:
    """Return whether a pod's annotation overrules the rules about kinds of pods and workloads."""
    return pod.metadata.annotation(ANNOTATION_EVICT) is not None


def _kind_reasons(pod: MigrationPod, name: str, args: MigrationControllerArgs, mode: MigrationMode) -> Iterator[str]:
    owner = controller_of(pod)
    if owner is not None and owner.kind == DAEMON_SET:
        yield f"{name}: belongs to DaemonSet {owner.name}, which would run the pod on the same node again"
    if owner is None and mode is MigrationMode.EVICT_DIRECTLY:
        failed = pod.status.phase == "Failed" and args.evict_failed_bare_pods
        if not (args.evict_all_bare_pods or failed):
            yield f"{name}: has no controller, so no pod would replace it (evictAllBarePods is false)"


def _scope_reasons(pod: MigrationPod, name: str, args: MigrationControllerArgs) -> Iterator[str]:
    namespace = pod.metadata.namespace
    wanted = args.label_selector
    if wanted is not None and not wanted.selects(pod.metadata.labels):
        yield f"{name}: its labels do not match labelSelector"
    include, exclude = args.namespaces.include, args.namespaces.exclude
    if (include and namespace not in include) or namespace in exclude:
        yield f"{name}: pods of namespace {namespace} are not migrated (namespaces)"


def _configured_reasons(pod: MigrationPod, name: str, args: MigrationControllerArgs) -> Iterator[str]:
    priority = pod.spec.priority
    is_critical = priority >= SYSTEM_CRITICAL_PRIORITY or pod.spec.priority_class_name in _SYSTEM_CLASSES
    if is_critical and not args.evict_system_critical_pods:
        yield f"{name}: is critical for the system (evictSystemCriticalPods is false)"
    threshold = args.priority_threshold
    if threshold is not None and threshold.value is None:
        yield f"{name}: stays while the value of PriorityClass {threshold.name} is unknown (priorityThreshold.name)"
    elif threshold is not None and threshold.value is not None and priority >= threshold.value:
        yield f"{name}: priority {priority} is not below priorityThreshold {threshold.value}"
    volumes = pod.spec.volumes or ()
    if not args.evict_local_storage_pods and any(each.empty_dir is not None or each.host_path for each in volumes):
        yield f"{name}: would lose the data in its emptyDir or hostPath volumes (evictLocalStoragePods is false)"
    if args.ignore_pvc_pods and any(each.persistent_volume_claim for each in volumes):
        yield f"{name}: uses persistent volume claims (ignorePvcPods is true)"
