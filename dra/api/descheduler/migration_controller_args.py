"""The arguments of the MigrationController: limits and defaults of migrations. The fields are Koordinator's.

Two things differ from Koordinator: ``arbitrationArgs`` without ``enabled`` leave arbitration on, and ``objectLimiters``
with ``namespace`` alone leave the limit of workloads on. In a limit here, 0 means no limit; in a limit on the evictions
of a round (``maxNoOfPodsToEvict…``), 0 means no eviction.
"""

import re
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, field_validator, model_validator

from dra.api.configuration import ConfigurationSection
from dra.api.descheduler.label_selector import LabelsOrSelector, Selector
from dra.api.descheduler.plugin_args import Namespaces, PluginArgs
from dra.api.durations import SECOND
from dra.api.migration.model import EvictionPolicy, MigrationMode
from dra.api.object_fields import Duration

MINUTE: Final = 60 * SECOND

_PERCENTAGE: Final = "^[0-9]{1,9}%$"


def _int_or_percent(given: object) -> object:
    is_number = isinstance(given, int) and not isinstance(given, bool) and given >= 0
    if is_number or (isinstance(given, str) and re.match(_PERCENTAGE, given)):
        return given
    raise ValueError(f"{given!r} is neither a number of pods, 0 or more, nor a percentage such as 10%")


def _not_negative(given: int) -> int:
    if given < 0:
        raise ValueError("must be 0s or more")
    return given


def _limit(given: int) -> int:
    if given < 0:
        raise ValueError(
            "must be 0 or more; 0 means no limit here, whereas maxNoOfPodsToEvict… of a round with 0 allow no eviction"
        )
    return given


def threshold_object(given: object) -> object:
    """Return a threshold as an object; a number is its value."""
    is_number = isinstance(given, int) and not isinstance(given, bool)
    return {"value": given} if is_number or (isinstance(given, str) and given.isdecimal()) else given


IntOrPercent = Annotated[
    int | str,
    BeforeValidator(_int_or_percent),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": _PERCENTAGE}]}),
]
"""A number of pods, or a percentage of a workload's replicas such as ``10%``."""

MigrationLimit = Annotated[int, AfterValidator(_limit), WithJsonSchema({"type": "integer", "minimum": 0})]
"""A maximum number of migrations at once; 0 means no limit."""

NonNegativeDuration = Annotated[Duration, AfterValidator(_not_negative)]


class ObjectLimiter(ConfigurationSection):
    """The maximum number of pods of one workload that are evicted within a window of time."""

    duration: NonNegativeDuration = 5 * MINUTE
    """Length of the window; 0s means no limit."""

    max_migrating: IntOrPercent | None = None
    """Maximum evictions in a window; null means `maxMigratingPerWorkload`."""

    burst: Annotated[int, Field(ge=0)] | None = None
    """Maximum evictions at once, the others evenly spread over the window; null or 0 means no spread."""


class NamespaceLimiter(ConfigurationSection):
    """The maximum number of pods of one namespace that are evicted within a window of time."""

    duration: NonNegativeDuration = 0
    """Length of the window; 0s means no limit."""

    max_migrating: Annotated[int, Field(ge=0)] = 0
    """Maximum evictions in a window; 0 means no limit."""

    burst: Annotated[int, Field(ge=0)] | None = None
    """Maximum evictions at once, the others evenly spread over the window; null or 0 means no spread."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if bool(self.duration) != bool(self.max_migrating):
            raise ValueError("give duration and maxMigrating, both above 0, or neither: one alone limits nothing")
        return self


class ObjectLimiters(ConfigurationSection):
    """Limits on the rate of evictions, by object."""

    workload: ObjectLimiter = ObjectLimiter()
    namespace: NamespaceLimiter = NamespaceLimiter()


class PriorityThreshold(ConfigurationSection):
    """A priority, as a number or as the name of a PriorityClass."""

    value: int | None = None
    name: str = ""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.value is None) == (not self.name):
            raise ValueError("give value or name, and not both")
        return self


class PropagationPolicy(StrEnum):
    """The handling of the dependents of a pod that is deleted."""

    ORPHAN = "Orphan"
    BACKGROUND = "Background"
    FOREGROUND = "Foreground"


class DeleteOptions(ConfigurationSection):
    """The options of the requests that end pods, as in the API of Kubernetes."""

    grace_period_seconds: Annotated[int, Field(ge=0)] | None = None
    propagation_policy: PropagationPolicy | None = None

    def document(self) -> dict[str, Any]:
        """Return the options as in a request."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class Approval(StrEnum):
    """Whether a person must approve the migrations that the descheduler proposes."""

    NOT_REQUIRED = "NotRequired"
    REQUIRED = "Required"
    """Jobs are created with ``paused: true``; ``kubectl dra approve`` lets them begin, and what is not approved
    expires."""


class ArbitrationArgs(ConfigurationSection):
    """The pace of arbitration, which decides which of the waiting jobs may begin."""

    enabled: Annotated[bool, WithJsonSchema({"const": True})] = True
    interval: NonNegativeDuration = SECOND // 2
    """Minimum time between two arbitrations, 1m at most."""

    @field_validator("enabled")
    @classmethod
    def _always_on(cls, given: bool) -> bool:  # noqa: FBT001 - the signature of a validator
        if not given:
            raise ValueError(
                "arbitration keeps limits and budgets, and cannot be switched off; "
                "skipEvictionGates switches single limits off"
            )
        return given

    @field_validator("interval")
    @classmethod
    def _often_enough(cls, given: int) -> int:
        if given > MINUTE:
            raise ValueError("must be 1m or less")
        return given


class EvictionGate(StrEnum):
    """A rule or limit of arbitration that `skipEvictionGates` can switch off; the names are Koordinator's."""

    MAX_UNAVAILABLE_PER_WORKLOAD = "MaxUnavailablePerWorkload"
    MAX_MIGRATING_PER_WORKLOAD = "MaxMigratingPerWorkload"
    MAX_MIGRATING_PER_NODE = "MaxMigratingPerNode"
    MAX_MIGRATING_PER_NAMESPACE = "MaxMigratingPerNamespace"
    MAX_MIGRATING_GLOBALLY = "MaxMigratingGlobally"
    EXPECTED_REPLICAS = "ExpectedReplicas"
    PVC = "PVC"
    BARE_PODS = "BarePods"
    LOCAL_STORAGE = "LocalStorage"
    SYSTEM_CRITICAL = "SystemCritical"
    PRIORITY_THRESHOLD = "PriorityThreshold"
    LABEL_SELECTOR = "LabelSelector"
    NAMESPACES = "Namespaces"
    NODE_FIT = "NodeFit"


class MigrationControllerArgs(PluginArgs):
    """The limits and defaults of migrations."""

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, given: object) -> object:
        """Keep nulls, unlike other arguments: a null says that there is no limit."""
        return given

    dry_run: bool = False
    """Whether no migration begins, whoever created the job: nothing is reserved, and no pod is evicted."""

    approval: Approval = Approval.NOT_REQUIRED
    """Whether a person must approve the jobs that the descheduler creates: NotRequired or Required."""

    max_concurrent_reconciles: Annotated[int, Field(ge=1)] | None = None
    """Without effect, since jobs do not wait for each other; the limits below bound how many are under way."""

    arbitration_args: ArbitrationArgs = ArbitrationArgs()
    default_job_mode: MigrationMode = MigrationMode.RESERVATION_FIRST
    """Mode of jobs without one."""

    default_job_ttl: Annotated[NonNegativeDuration, Field(alias="defaultJobTTL")] = 5 * MINUTE
    """Time to live of jobs without one; 0s means unlimited."""

    scheduler_names: Annotated[tuple[str, ...], Field(min_length=1)] = ("koord-scheduler", "default-scheduler")
    """Schedulers that place Reservations: those that call the extender, or, with placeholders that yield, all."""

    unschedulable_seconds: Annotated[float, Field(gt=0)] = 60.0
    """Seconds for which a Reservation may be unschedulable until its job fails."""

    eviction_policy: EvictionPolicy = EvictionPolicy.EVICTION
    """Request that ends the pod: Eviction, Delete or SoftEviction."""

    evict_qps: Annotated[float, Field(gt=0, alias="evictQPS")] = 10.0
    """Maximum evictions per second, on average."""

    evict_burst: Annotated[int, Field(ge=1)] = 1
    """Maximum evictions at once."""

    max_migrating_globally: MigrationLimit | None = None
    """Maximum migrations at once; null or 0 means unlimited."""

    max_migrating_per_namespace: MigrationLimit | None = None
    """Maximum migrations of one namespace's pods at once; null or 0 means unlimited."""

    max_migrating_per_node: MigrationLimit | None = 2
    """Maximum migrations away from one node at once; null or 0 means unlimited."""

    max_migrating_per_workload: IntOrPercent | None = None
    """Maximum migrations of one workload's pods at once; null: 10 % of more than 10 replicas, 2 of 4 to 10, else 1."""

    max_unavailable_per_workload: IntOrPercent | None = None
    """Maximum pods of one workload that are not ready, terminating or migrating at once; null: as for
    `maxMigratingPerWorkload`."""

    skip_check_expected_replicas: bool = False
    """Migrate pods of workloads whose replicas equal 1, or a limit per workload."""

    object_limiters: ObjectLimiters = ObjectLimiters()
    evict_failed_bare_pods: bool = False
    """Whether failed pods without a controller may be evicted (mode EvictDirectly)."""

    evict_all_bare_pods: bool = False
    """Whether pods without a controller may be evicted (mode EvictDirectly)."""

    evict_local_storage_pods: bool = False
    """Whether pods with emptyDir or hostPath volumes may be evicted; their data is lost."""

    evict_system_critical_pods: bool = False
    """Whether pods of the system's priority classes may be evicted."""

    ignore_pvc_pods: bool = False
    """Whether pods with persistent volume claims are not evicted."""

    priority_threshold: Annotated[
        PriorityThreshold | None,
        BeforeValidator(threshold_object),
        WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "object"}, {"type": "null"}]}),
    ] = None
    """Priority from which on pods are not evicted, as a number, or `value` or the `name` of a PriorityClass; null: pods
    of the system's priority classes alone."""

    label_selector: LabelsOrSelector | None = None
    """Labels that a pod must have to be evicted, or `matchLabels` and `matchExpressions`; null: any labels."""

    namespaces: Namespaces = Namespaces()
    """Namespaces whose pods alone may be migrated (`include`), or are not migrated (`exclude`)."""

    node_fit: bool = False
    """Whether a pod that fits on no other node is refused at once. Of effect with profiles, which have the descheduler
    watch nodes; and of use in mode EvictDirectly, since a Reservation shows the same later on."""

    node_selector: Selector | None = None
    """Labels of the nodes that `nodeFit` takes into account, as a text or as a selector; null: all nodes."""

    default_delete_options: DeleteOptions | None = None
    """Options of the requests that end pods, for jobs without `deleteOptions`: `gracePeriodSeconds`,
    `propagationPolicy`."""

    skip_eviction_gates: tuple[EvictionGate, ...] = ()
    """Rules and limits that are not applied, whatever the other fields say."""
