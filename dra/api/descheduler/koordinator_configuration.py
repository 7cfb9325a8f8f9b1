"""Koordinator's DeschedulerConfiguration, ``apiVersion: descheduler/v1alpha2``."""

from typing import Annotated, Final, Literal

from pydantic import Field

from dra.api.configuration import ConfigurationSection
from dra.api.descheduler.label_selector import Selector
from dra.api.descheduler.migration_controller_args import NonNegativeDuration
from dra.api.descheduler.profile import DeschedulerProfile, EvictionLimit
from dra.api.durations import SECOND

API_VERSION: Final = "descheduler/v1alpha2"


class KoordinatorLeaderElection(ConfigurationSection):
    """The Lease of Kubernetes' components; what is not given is as in our own configuration."""

    leader_elect: bool = True
    lease_duration: NonNegativeDuration = 15 * SECOND
    renew_deadline: NonNegativeDuration = 10 * SECOND
    retry_period: NonNegativeDuration = 2 * SECOND
    resource_lock: Literal["leases"] = "leases"
    resource_name: str = ""
    resource_namespace: str = ""


class ClientConnection(ConfigurationSection):
    """The connection to the API server."""

    kubeconfig: str = ""
    """Path of a kubeconfig file; the command line wins."""
    accept_content_types: str = ""
    """Accepted, and without effect: the descheduler reads JSON."""
    content_type: str = ""
    """Accepted, and without effect."""
    qps: Annotated[float, Field(ge=0)] = 0.0
    """Maximum API requests per second, on average; 0: as in our own configuration."""
    burst: Annotated[int, Field(ge=0)] = 0
    """Maximum API requests at once; 0: as in our own configuration."""


class DeschedulerConfiguration(ConfigurationSection):
    """Koordinator's configuration of a descheduler."""

    api_version: Literal["descheduler/v1alpha2"]
    kind: Literal["DeschedulerConfiguration"]
    leader_election: KoordinatorLeaderElection = KoordinatorLeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = False
    """Accepted, and without effect."""
    enable_contention_profiling: bool = False
    """Accepted, and without effect."""
    healthz_bind_address: str = ""
    """Address and port of the probes."""
    metrics_bind_address: str = ""
    """Address and port of the metrics."""
    descheduling_interval: NonNegativeDuration = 0
    """Time between two rounds; 0s: one round."""
    dry_run: bool = False
    """Whether rounds are carried out without evictions."""
    profiles: tuple[DeschedulerProfile, ...] = ()
    node_selector: Selector | None = None
    """Labels of the nodes that rounds consider; null: all nodes."""
    max_no_of_pods_to_evict_per_node: EvictionLimit | None = None
    max_no_of_pods_to_evict_per_namespace: EvictionLimit | None = None
    max_no_of_pods_to_evict_total: EvictionLimit | None = None
