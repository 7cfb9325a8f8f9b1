"""The configuration file of ``dra-reserve controller``."""

from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import AliasGenerator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from dra.api.release_rules import BUILT_IN_RELEASE_RULES

Port = Annotated[int, Field(ge=0, le=65535)]


class ConfigurationSection(BaseModel):
    """Frozen, camelCase in files, unknown fields refused by name: a typo must not silently mean the default."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=AliasGenerator(alias=to_camel),
        populate_by_name=True,
    )


class ControllerMode(StrEnum):
    """How we share the cluster with kube-controller-manager's resourceclaim-controller."""

    REPLACE = "replace"
    """It is switched off; we do its work."""

    ALONGSIDE = "alongside"
    """It runs as well (managed control planes); finished pods become tombstones and a list holds some 250 pods."""


class PlaceholderMode(StrEnum):
    """What becomes of the pod that has found a place for a Reservation."""

    REPLACED = "replaced"
    """It is deleted: the extender, which kube-scheduler asks, holds the room."""

    YIELDING = "yielding"
    """It keeps the room until an owner comes: for clusters whose kube-scheduler cannot be configured."""


class LogFormat(StrEnum):
    """How log lines look."""

    JSON = "json"
    TEXT = "text"


class LogLevel(StrEnum):
    """What is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"


class ReleaseRule(ConfigurationSection):
    """When the workloads of one kind have finished for good and their claims are released."""

    resource: str
    """kubectl's notation: ``jobs.batch``."""

    expression: str
    """CEL on ``object``, true once no more pods will be created."""


class Endpoint(ConfigurationSection):
    """Where we listen; port 0 takes a free one, which the log tells."""

    address: str = "127.0.0.1"
    port: Port = 0


class LeaderElection(ConfigurationSection):
    """The Lease that keeps two replicas from acting at once."""

    enabled: bool = True
    namespace: str = "dra-reserve"
    name: str = "dra-reserve-controller"
    lease_seconds: Annotated[int, Field(ge=3)] = 15
    renew_seconds: Annotated[float, Field(ge=1)] = 10.0
    retry_seconds: Annotated[float, Field(gt=0)] = 2.0


class Logging(ConfigurationSection):
    """Log lines go to standard error."""

    format: LogFormat = LogFormat.JSON
    level: LogLevel = LogLevel.INFO


BUILT_IN_RULES: Final = tuple(
    ReleaseRule(resource=resource, expression=expression) for resource, expression in BUILT_IN_RELEASE_RULES.items()
)


class ControllerConfiguration(ConfigurationSection):
    """Everything that can be set."""

    mode: ControllerMode = ControllerMode.ALONGSIDE
    """The mode that works on every cluster; replace needs a flag of kube-controller-manager."""

    qps: Annotated[float, Field(gt=0)] = 200.0
    """API requests per second …"""

    burst: Annotated[int, Field(ge=1)] = 400
    """… and how many may come at once: a window of pods is ungated in one go."""

    release_finished: bool = True
    """Release the claims of finished workloads; otherwise their owners alone decide."""

    release_rules: tuple[ReleaseRule, ...] = ()
    """In addition to the built-in ones (Jobs, JobSets, pods); a rule for the same resource takes its place."""

    device_taint_eviction: bool = True
    """Delete the pods on devices with NoExecute taints that kube-controller-manager does not see: unlisted ones."""

    reservations: bool = False
    """See to Koordinator's Reservations."""

    placeholders: PlaceholderMode = PlaceholderMode.REPLACED
    """What holds the room of Reservations: ``dra-reserve scheduler-extender``, or placeholders that stay."""

    leader_election: LeaderElection = LeaderElection()
    probes: Endpoint | None = Endpoint(port=8081)
    metrics: Endpoint | None = Endpoint(port=8080)
    """Null: not served."""

    logging: Logging = Logging()

    @model_validator(mode="after")
    def _placeholders_are_of_reservations(self) -> Self:
        if self.placeholders is PlaceholderMode.YIELDING and not self.reservations:
            raise ValueError("placeholders: yielding is about Reservations; set reservations: true, or leave it out")
        return self

    def rules(self) -> dict[str, str]:
        """Return the release rule of each kind: resource → expression."""
        return {rule.resource: rule.expression for rule in (*BUILT_IN_RULES, *self.release_rules)}
