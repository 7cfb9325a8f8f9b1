"""The arguments of DefaultEvictor, as in the community's descheduler 0.36: which pods are never candidates."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from dra.api.configuration import ConfigurationSection
from dra.api.descheduler.label_selector import Selector
from dra.api.descheduler.migration_controller_args import NonNegativeDuration, PriorityThreshold, threshold_object
from dra.api.descheduler.plugin_args import PluginArgs


class PodProtection(StrEnum):
    """A reason for which DefaultEvictor protects pods."""

    LOCAL_STORAGE = "PodsWithLocalStorage"
    DAEMON_SETS = "DaemonSetPods"
    SYSTEM_CRITICAL = "SystemCriticalPods"
    FAILED_BARE = "FailedBarePods"
    PVC = "PodsWithPVC"
    WITHOUT_PDB = "PodsWithoutPDB"
    RESOURCE_CLAIMS = "PodsWithResourceClaims"


DEFAULT_PROTECTIONS: Final = (
    PodProtection.LOCAL_STORAGE,
    PodProtection.DAEMON_SETS,
    PodProtection.SYSTEM_CRITICAL,
    PodProtection.FAILED_BARE,
)
EXTRA_PROTECTIONS: Final = (PodProtection.PVC, PodProtection.WITHOUT_PDB, PodProtection.RESOURCE_CLAIMS)

_OLD_FLAGS: Final = {
    "evict_local_storage_pods": (PodProtection.LOCAL_STORAGE, False),
    "evict_daemon_set_pods": (PodProtection.DAEMON_SETS, False),
    "evict_system_critical_pods": (PodProtection.SYSTEM_CRITICAL, False),
    "evict_failed_bare_pods": (PodProtection.FAILED_BARE, False),
    "ignore_pvc_pods": (PodProtection.PVC, True),
    "ignore_pods_without_pdb": (PodProtection.WITHOUT_PDB, True),
}
"""Field of earlier versions → the protection that it switches, and whether it switches the protection on."""


def _unique(given: Sequence[PodProtection]) -> Sequence[PodProtection]:
    if twice := next((one for one in given if given.count(one) > 1), None):
        raise ValueError(f"{twice} is there twice; remove one")
    return given


class NoEvictionPolicy(StrEnum):
    """The effect of annotation ``descheduler.alpha.kubernetes.io/prefer-no-eviction`` on a pod."""

    PREFERRED = "Preferred"
    """Plugins take the pod after others."""

    MANDATORY = "Mandatory"
    """The pod is never a candidate."""


class StorageClassReference(ConfigurationSection):
    """A StorageClass by its name."""

    name: Annotated[str, Field(min_length=1)]


class PodsWithPVCConfig(ConfigurationSection):
    """The volumes for which ``PodsWithPVC`` protects a pod."""

    protected_storage_classes: tuple[StorageClassReference, ...] = ()
    """StorageClasses whose volumes protect a pod; empty: those of all classes."""


class PodProtectionsConfig(ConfigurationSection):
    """Details of protections, by the name of the protection."""

    pods_with_pvc: Annotated[PodsWithPVCConfig | None, Field(alias="PodsWithPVC")] = None


class PodProtections(ConfigurationSection):
    """The protections beyond the defaults, and those of the defaults that are switched off."""

    extra_enabled: Annotated[tuple[PodProtection, ...], AfterValidator(_unique)] = ()
    """Further protections: PodsWithPVC, PodsWithoutPDB, PodsWithResourceClaims."""

    default_disabled: Annotated[tuple[PodProtection, ...], AfterValidator(_unique)] = ()
    """Protections to switch off: PodsWithLocalStorage, DaemonSetPods, SystemCriticalPods, FailedBarePods."""

    config: PodProtectionsConfig = PodProtectionsConfig()

    @model_validator(mode="after")
    def _in_their_lists(self) -> Self:
        for field, given, allowed in (
            ("extraEnabled", self.extra_enabled, EXTRA_PROTECTIONS),
            ("defaultDisabled", self.default_disabled, DEFAULT_PROTECTIONS),
        ):
            if wrong := next((one for one in given if one not in allowed), None):
                raise ValueError(f"{field}: {wrong} is none of {', '.join(allowed)}")
        return self


class DefaultEvictorArgs(PluginArgs):
    """The pods that are never candidates, and whether a candidate must fit elsewhere."""

    node_selector: Selector | None = None
    """Labels of the nodes that ``nodeFit`` takes into account; null: all nodes."""

    label_selector: Selector | None = None
    """Labels that a pod must have to be a candidate; null: any labels."""

    namespace_label_selector: Selector | None = None
    """Labels that the namespace of a pod must have; null: any labels."""

    priority_threshold: Annotated[PriorityThreshold | None, BeforeValidator(threshold_object)] = None
    """Priority from which on pods are no candidates, as ``value`` or as ``name`` of a PriorityClass; null: pods of the
    system's priority classes alone."""

    node_fit: bool = False
    """Whether a pod is a candidate only if it fits on another node."""

    min_replicas: Annotated[int, Field(ge=0)] = 0
    """Pods of one owner that stay in any case; 0 and 1 mean no minimum."""

    min_pod_age: NonNegativeDuration | None = None
    """Time since its start after which a pod may be a candidate; null: at once."""

    no_eviction_policy: NoEvictionPolicy = NoEvictionPolicy.PREFERRED
    pod_protections: PodProtections = PodProtections()
    evict_local_storage_pods: bool = False
    """Of earlier versions: ``defaultDisabled: [PodsWithLocalStorage]``."""
    evict_daemon_set_pods: bool = False
    """Of earlier versions: ``defaultDisabled: [DaemonSetPods]``."""
    evict_system_critical_pods: bool = False
    """Of earlier versions: ``defaultDisabled: [SystemCriticalPods]``."""
    ignore_pvc_pods: bool = False
    """Of earlier versions: ``extraEnabled: [PodsWithPVC]``."""
    ignore_pods_without_pdb: Annotated[bool, Field(alias="ignorePodsWithoutPDB")] = False
    """Of earlier versions: ``extraEnabled: [PodsWithoutPDB]``."""
    evict_failed_bare_pods: bool = False
    """Of earlier versions: ``defaultDisabled: [FailedBarePods]``."""

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        old = next((name for name in _OLD_FLAGS if getattr(self, name)), None)
        new = self.pod_protections.extra_enabled or self.pod_protections.default_disabled
        if old is not None and new:
            alias = type(self).model_fields[old].alias
            protection, switches_on = _OLD_FLAGS[old]
            target = "extraEnabled" if switches_on else "defaultDisabled"
            raise ValueError(
                f"{alias} cannot be given beside podProtections; add {protection} to podProtections.{target} instead"
            )
        return self

    @property
    def protections(self) -> frozenset[PodProtection]:
        """The protections in force."""
        given = self.pod_protections
        on = {*DEFAULT_PROTECTIONS, *given.extra_enabled} - {*given.default_disabled}
        for name, (protection, switches_on) in _OLD_FLAGS.items():
            if getattr(self, name):
                on = on | {protection} if switches_on else on - {protection}
        return frozenset(on)
