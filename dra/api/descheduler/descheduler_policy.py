"""The community's DeschedulerPolicy, ``apiVersion: descheduler/v1alpha2``, as of its version 0.36.

Plugins are plain names. There is no extension point ``evict`` upstream; here a policy may have one, and by default
pods are moved by migrations that reserve first.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from dra.api.configuration import ConfigurationSection
from dra.api.descheduler.label_selector import Selector
from dra.api.descheduler.profile import (
    DeschedulerProfile,
    EvictionLimit,
    PluginConfig,
    PluginReference,
    Plugins,
    PluginSet,
)

PluginName = Annotated[str, Field(min_length=1)]


class PolicyPluginSet(ConfigurationSection):
    """The plugins of an extension point, by their names."""

    enabled: tuple[PluginName, ...] = ()
    disabled: tuple[PluginName, ...] = ()

    def plugin_set(self) -> PluginSet:
        """Return the same in the form of Koordinator."""
        return PluginSet(
            enabled=tuple(PluginReference(name=name) for name in self.enabled),
            disabled=tuple(PluginReference(name=name) for name in self.disabled),
        )


class PolicyPlugins(ConfigurationSection):
    """The plugins of a profile, by extension point."""

    presort: PolicyPluginSet = PolicyPluginSet()
    """Accepted, and without effect: each plugin sorts its own candidates."""
    sort: PolicyPluginSet = PolicyPluginSet()
    """Accepted, and without effect."""
    deschedule: PolicyPluginSet = PolicyPluginSet()
    balance: PolicyPluginSet = PolicyPluginSet()
    filter: PolicyPluginSet = PolicyPluginSet()
    preevictionfilter: PolicyPluginSet = PolicyPluginSet()
    """Filters; asked together with those of ``filter``."""
    evict: PolicyPluginSet = PolicyPluginSet()
    """Not in upstream's API: the plugin that evicts; MigrationController by default."""


class PolicyProfile(ConfigurationSection):
    """A profile of a policy."""

    name: str = ""
    plugins: PolicyPlugins = PolicyPlugins()
    plugin_config: tuple[PluginConfig, ...] = ()

    def profile(self) -> DeschedulerProfile:
        """Return the same in the form of Koordinator."""
        sets = {name: getattr(self.plugins, name).plugin_set() for name in PolicyPlugins.model_fields}
        return DeschedulerProfile(name=self.name, plugins=Plugins(**sets), plugin_config=self.plugin_config)


class MetricsCollector(ConfigurationSection):
    """The collection of usage from metrics-server, by earlier versions."""

    enabled: bool = False


class MetricsSource(StrEnum):
    """A source of usage."""

    KUBERNETES = "KubernetesMetrics"
    PROMETHEUS = "Prometheus"


class SecretReference(ConfigurationSection):
    """A Secret, by namespace and name."""

    namespace: str = ""
    name: str = ""


class AuthToken(ConfigurationSection):
    """The token for Prometheus."""

    secret_reference: SecretReference | None = None


class Prometheus(ConfigurationSection):
    """A Prometheus server that has the usage."""

    url: str = ""
    auth_token: AuthToken | None = None


class MetricsProvider(ConfigurationSection):
    """A provider of usage."""

    source: MetricsSource | None = None
    prometheus: Prometheus | None = None


class DeschedulerPolicy(ConfigurationSection):
    """The policy of the community's descheduler."""

    api_version: Literal["descheduler/v1alpha2"]
    kind: Literal["DeschedulerPolicy"]
    profiles: tuple[PolicyProfile, ...] = ()
    node_selector: Selector | None = None
    """Labels of the nodes that rounds consider, as a text; null: all nodes."""
    max_no_of_pods_to_evict_per_node: EvictionLimit | None = None
    max_no_of_pods_to_evict_per_namespace: EvictionLimit | None = None
    max_no_of_pods_to_evict_total: EvictionLimit | None = None
    eviction_failure_event_notification: bool = False
    """Accepted, and without effect: failures are always reported in Events."""
    metrics_collector: MetricsCollector | None = None
    """Accepted, and without effect: usage is read from NodeMetrics."""
    metrics_providers: tuple[MetricsProvider, ...] = ()
    """Accepted, and without effect: usage is read from NodeMetrics."""
    grace_period_seconds: Annotated[int, Field(ge=0)] | None = None
    """Seconds that an evicted pod has to end; null: as the pod says."""
