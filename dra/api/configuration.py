"""The configuration file of ``dra-reserve controller``."""

from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import AliasGenerator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from dra.api.parameters.cpu_policies import CpuBindPolicy
from dra.api.process_settings import LogFormat, LogLevel
from dra.api.reservations.well_known import PAUSE_IMAGE
from dra.model.workload_types import RELEASE_RULES, SUSPENDED_RULES

Port = Annotated[int, Field(ge=0, le=65535)]


class ConfigurationSection(BaseModel):
    """The base of configuration sections: frozen, camelCase in files; unknown fields are rejected by name.

    A typo must not silently mean the default.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=AliasGenerator(alias=to_camel),
        populate_by_name=True,
    )


class ControllerMode(StrEnum):
    """The division of work with kube-controller-manager's resourceclaim-controller."""

    REPLACE = "replace"
    """The resourceclaim-controller is disabled; dra-reserve does its work."""

    ALONGSIDE = "alongside"
    """The resourceclaim-controller runs as well (managed control planes); finished pods become tombstones, and a list
    holds about 250 pods."""


class PlaceholderMode(StrEnum):
    """The handling of a placeholder pod once it has been scheduled for a Reservation."""

    REPLACED = "replaced"
    """The placeholder is deleted; the extender, which kube-scheduler calls, holds the capacity."""

    YIELDING = "yielding"
    """The placeholder holds the capacity until an owner arrives: for clusters whose kube-scheduler cannot be
    configured."""


class ReleaseRule(ConfigurationSection):
    """A rule for when workloads of one kind have finished for good and their claims are released."""

    resource: str
    """Resource in kubectl's notation: ``jobs.batch``."""

    expression: str
    """CEL expression on ``object``, true once the workload will create no further pods."""

    suspended: str | None = None
    """CEL expression on ``object``, true while the workload is suspended; null keeps the built-in expression."""


class Endpoint(ConfigurationSection):
    """An address and a port to listen on; port 0 takes a free port, which the log names."""

    address: str = "127.0.0.1"
    port: Port = 0


class MalformedConfigurationError(ValueError):
    """A configuration whose fields are valid and do not fit together."""


class LeaderElection(ConfigurationSection):
    """The Lease that keeps two replicas from acting at the same time."""

    enabled: bool = True
    namespace: str = "dra-reserve"
    name: str = "dra-reserve-controller"
    lease_seconds: Annotated[int, Field(ge=3)] = 15
    renew_seconds: Annotated[float, Field(ge=1)] = 10.0
    retry_seconds: Annotated[float, Field(gt=0)] = 2.0


class Logging(ConfigurationSection):
    """The format and level of log lines, which go to standard error."""

    format: LogFormat = LogFormat.JSON
    level: LogLevel = LogLevel.INFO


BUILT_IN_RULES: Final = tuple(
    ReleaseRule(resource=resource, expression=expression) for resource, expression in RELEASE_RULES.items()
)


class ControllerConfiguration(ConfigurationSection):
    """The configuration of the controller; all fields have defaults."""

    mode: ControllerMode = ControllerMode.ALONGSIDE
    """Division of work with kube-controller-manager: alongside works on every cluster, replace needs a flag of
    kube-controller-manager."""

    qps: Annotated[float, Field(gt=0)] = 200.0
    """Maximum API requests per second, on average."""

    burst: Annotated[int, Field(ge=1)] = 400
    """Maximum API requests at once: a window of pods is ungated in one go."""

    release_finished: bool = True
    """Release the claims of finished workloads; if false, only their owners release them."""

    release_suspended: bool = False
    """Release the claims of suspended workloads; a claim's annotation `reserve.dra/when-suspended` takes precedence."""

    release_rules: tuple[ReleaseRule, ...] = ()
    """Rules in addition to the built-in ones, which the documentation lists by kind; a rule for the same resource
    replaces the built-in one."""

    device_taint_eviction: bool = True
    """Delete pods on devices with NoExecute taints that are not listed, and so invisible to kube-controller-manager."""

    annotate_nodes: bool = False
    """Keep cluster autoscaler and Karpenter from deleting nodes on which claims are kept, by annotations on the Nodes;
    needs the component annotate-nodes."""

    idle_claim_hours: Annotated[int, Field(ge=0, le=8760)] = 0
    """Hours for which a claim holds devices without use until an Event reports it, and again after as long; 0: no
    Events. No claim is freed."""

    reservations: bool = False
    """Let the controller manage Koordinator's Reservations."""

    koordinator: bool = False
    """Make the ResourceClaimTemplates of pods whose requests in Koordinator's form were translated, and report devices
    and CPUs of pods in Koordinator's annotations, in namespaces labelled `reserve.dra/koordinator: enabled`; needs the
    component koordinator."""

    default_cpu_bind_policy: CpuBindPolicy = Field(default=CpuBindPolicy.FULL_PCPUS, alias="defaultCPUBindPolicy")
    """Bind policy of pods in Koordinator's form that name none, or `Default`: as in Koordinator's
    NodeNUMAResourceArgs. Pods that wait get claims by the new value after a change."""

    colocation: bool = False
    """Keep a NodeMetric for each Node, and offer batch pods what other pods do not use, as the ConfigMap
    koordinator-system/slo-controller-config says; needs the component colocation."""

    placeholders: PlaceholderMode = PlaceholderMode.REPLACED
    """The holder of the capacity of Reservations: ``dra-reserve scheduler-extender``, or placeholders that stay."""

    placeholder_image: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@/-]{0,254}$")] = PAUSE_IMAGE
    """Image of the placeholders of Reservations, for example a copy in a registry of your own; the policy
    `controller-pods.reserve.dra` has to name the same image."""

    leader_election: LeaderElection = LeaderElection()
    probes: Endpoint | None = Endpoint(port=8081)
    metrics: Endpoint | None = Endpoint(port=8080)
    """Null: metrics are not served."""

    logging: Logging = Logging()

    @model_validator(mode="after")
    def _yielding_requires_reservations(self) -> Self:
        if self.placeholders is PlaceholderMode.YIELDING and not self.reservations:
            raise ValueError(
                "placeholders: yielding requires reservations: true; set reservations, or remove placeholders"
            )
        return self

    def release_rules_by_resource(self) -> dict[str, str]:
        """Return the release rule of each kind: resource → expression."""
        return {rule.resource: rule.expression for rule in (*BUILT_IN_RULES, *self.release_rules)}

    def suspended_rules_by_resource(self) -> dict[str, str]:
        """Return the expression for suspended workloads of each kind that can be suspended: resource → expression."""
        own = {rule.resource: rule.suspended for rule in self.release_rules if rule.suspended is not None}
        return {**SUSPENDED_RULES, **own}
