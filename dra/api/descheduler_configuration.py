"""The configuration file of ``dra-reserve descheduler``. The fields of `MigrationControllerArgs` are Koordinator's."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from dra.api.configuration import ConfigurationSection, Endpoint, LeaderElection, Logging
from dra.api.migration.model import EvictionPolicy, MigrationMode
from dra.api.object_fields import Duration

MINUTE: Final = 60 * 10**9

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


def _match_labels(given: object) -> object:
    """Return the labels of a selector, for which Koordinator writes ``matchLabels``."""
    if isinstance(given, Mapping) and "matchExpressions" in given:
        raise ValueError("matchExpressions are not supported; give the labels themselves, for example {app: web}")
    return given["matchLabels"] if isinstance(given, Mapping) and given.keys() == {"matchLabels"} else given


IntOrPercent = Annotated[
    int | str,
    BeforeValidator(_int_or_percent),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": _PERCENTAGE}]}),
]
"""A number of pods, or a percentage of a workload's replicas such as ``10%``."""

NonNegativeDuration = Annotated[Duration, AfterValidator(_not_negative)]


class ObjectLimiter(ConfigurationSection):
    """The maximum number of pods of one workload that are evicted within a window of time."""

    duration: NonNegativeDuration = 5 * MINUTE
    """Length of the window; 0s means no limit."""

    max_migrating: IntOrPercent | None = None
    """Maximum evictions in a window; null means `maxMigratingPerWorkload`."""


class ObjectLimiters(ConfigurationSection):
    """Limits on the rate of evictions, by object."""

    workload: ObjectLimiter = ObjectLimiter()


class NamespaceFilter(ConfigurationSection):
    """The namespaces whose pods may be migrated; at most one of the lists may be given."""

    include: tuple[str, ...] = ()
    """Namespaces whose pods alone may be migrated; empty means all."""

    exclude: tuple[str, ...] = ()
    """Namespaces whose pods are not migrated."""

    @model_validator(mode="after")
    def _one_list(self) -> Self:
        if self.include and self.exclude:
            raise ValueError("give include or exclude, not both")
        return self


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
    """Without effect: the Reservation shows whether another node has room."""


class MigrationControllerArgs(ConfigurationSection):
    """The limits and defaults of migrations."""

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

    max_migrating_globally: Annotated[int, Field(ge=0)] | None = None
    """Maximum migrations at once; null or 0 means unlimited."""

    max_migrating_per_namespace: Annotated[int, Field(ge=0)] | None = None
    """Maximum migrations of one namespace's pods at once; null or 0 means unlimited."""

    max_migrating_per_node: Annotated[int, Field(ge=0)] | None = 2
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

    priority_threshold: int | None = None
    """Priority from which on pods are not evicted; null: pods of the system's priority classes alone."""

    label_selector: (
        Annotated[dict[str, str], BeforeValidator(_match_labels), WithJsonSchema({"type": "object"})] | None
    ) = None
    """Labels that a pod must have to be evicted; null: any labels."""

    namespaces: NamespaceFilter = NamespaceFilter()

    skip_eviction_gates: tuple[EvictionGate, ...] = ()
    """Rules and limits that are not applied, whatever the other fields say; NodeFit has no effect."""


class DeschedulerLeaderElection(LeaderElection):
    """The Lease that keeps two replicas from acting at the same time."""

    name: str = "dra-reserve-descheduler"


class DeschedulerConfiguration(ConfigurationSection):
    """The configuration of the descheduler; all fields have defaults."""

    migration: MigrationControllerArgs = MigrationControllerArgs()
    """Limits and defaults of migrations."""

    qps: Annotated[float, Field(gt=0)] = 100.0
    """Maximum API requests per second, on average."""

    burst: Annotated[int, Field(ge=1)] = 200
    """Maximum API requests at once."""

    leader_election: DeschedulerLeaderElection = DeschedulerLeaderElection()
    probes: Endpoint | None = Endpoint(port=8085)
    metrics: Endpoint | None = Endpoint(port=8084)
    """Null: metrics are not served."""

    logging: Logging = Logging()
