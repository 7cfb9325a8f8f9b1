"""The configuration file of ``dra-reserve descheduler``: our own form, which has no ``apiVersion``."""

from typing import Annotated

from pydantic import Field

from dra.api.configuration import ConfigurationSection, Endpoint, LeaderElection, Logging
from dra.api.descheduler.label_selector import Selector
from dra.api.descheduler.migration_controller_args import MINUTE, MigrationControllerArgs, NonNegativeDuration
from dra.api.descheduler.profile import DeschedulerProfile, EvictionLimit


class DeschedulerLeaderElection(LeaderElection):
    """The Lease that keeps two replicas from acting at the same time."""

    name: str = "dra-reserve-descheduler"


class DeschedulerProcessConfiguration(ConfigurationSection):
    """The configuration of the descheduler; all fields have defaults."""

    migration: MigrationControllerArgs = MigrationControllerArgs()
    """Limits and defaults of migrations."""

    descheduling_interval: NonNegativeDuration = 5 * MINUTE
    """Time between two rounds of the profiles; 0s: one round after each start."""

    dry_run: bool = False
    """Whether rounds are carried out without evictions; the log says what would go. Jobs of people are carried out."""

    node_selector: Selector | None = None
    """Labels of the nodes that rounds consider, as a text or as a selector; null: all nodes."""

    max_no_of_pods_to_evict_per_node: EvictionLimit | None = None
    """Maximum evictions of a round on one node; null means unlimited, 0 means none at all."""

    max_no_of_pods_to_evict_per_namespace: EvictionLimit | None = None
    """Maximum evictions of a round in one namespace; null means unlimited, 0 means none at all."""

    max_no_of_pods_to_evict_total: EvictionLimit | None = None
    """Maximum evictions of a round; null means unlimited, 0 means none at all."""

    profiles: tuple[DeschedulerProfile, ...] = ()
    """Profiles of plugins that propose evictions, as in Koordinator; without profiles, people alone create jobs."""

    plugin_seconds: Annotated[float, Field(gt=0, le=600)] = 10.0
    """Seconds after which a user's plugin is skipped for the rest of a round."""

    kubeconfig: str = ""
    """Path of a kubeconfig file; the command line wins. Empty: the environment, or the account of the pod."""

    qps: Annotated[float, Field(gt=0)] = 100.0
    """Maximum API requests per second, on average."""

    burst: Annotated[int, Field(ge=1)] = 200
    """Maximum API requests at once."""

    leader_election: DeschedulerLeaderElection = DeschedulerLeaderElection()
    probes: Endpoint | None = Endpoint(port=8085)
    metrics: Endpoint | None = Endpoint(port=8084)
    """Null: metrics are not served."""

    logging: Logging = Logging()
