"""The configuration file of ``dra-reserve scheduler-extender``."""

from typing import Annotated

from pydantic import Field

from dra.api.configuration import ConfigurationSection, Endpoint, LeaderElection, Logging


class TlsFiles(ConfigurationSection):
    """The PEM files for TLS, which are re-read when they change."""

    certificate: str
    key: str
    client_authority: str = ""
    """Authority that signs the scheduler's client certificate; if empty, any client that reaches the extender may call
    it and bind pods."""

    client_names: tuple[str, ...] = ("kube-scheduler",)
    """Common names or DNS names, one of which the client certificate must have: other clients of the same authority may
    neither call the extender nor bind pods. An empty list accepts every certificate of the authority."""


class ExtenderLeaderElection(LeaderElection):
    """The Lease that keeps two replicas from binding at the same time."""

    name: str = "dra-reserve-extender"


class LoadResources(ConfigurationSection):
    """Percentages of the resources whose use NodeMetrics report."""

    cpu: Annotated[float, Field(ge=0, le=100)]
    memory: Annotated[float, Field(ge=0, le=100)]


class LoadWeights(ConfigurationSection):
    """Weights of the resources whose use NodeMetrics report."""

    cpu: Annotated[int, Field(ge=0, le=100)] = 1
    memory: Annotated[int, Field(ge=0, le=100)] = 1


class LoadAware(ConfigurationSection):
    """Load-aware scheduling: ``/load/filter`` and ``/load/prioritize`` for a second entry in the scheduler's file.

    The fields are those of Koordinator's LoadAwareSchedulingArgs.
    """

    node_metric_expiration_seconds: Annotated[int, Field(gt=0)] = 180
    """Age in seconds from which on a NodeMetric does not count; its node is neither refused nor favored."""

    usage_thresholds: LoadResources = LoadResources(cpu=65, memory=95)
    """Percent of what a node has for pods, above which its measured use makes filter refuse the node; 100: hardly
    ever."""

    resource_weights: LoadWeights = LoadWeights()
    """Weights of cpu and memory in the scores, which are the greater the more headroom a node has."""

    estimated_scaling_factors: LoadResources = LoadResources(cpu=85, memory=70)
    """Percent of its requests that a pod counts as long as no report names the pod."""


class ExtenderConfiguration(ConfigurationSection):
    """The configuration of the scheduler extender; all fields have defaults."""

    serve: Endpoint = Endpoint(port=8888)
    """Address and port for kube-scheduler: the urlPrefix of its file."""

    tls: TlsFiles | None = None
    """Null: plain HTTP, for a scheduler on the same machine."""

    bind_seconds: Annotated[float, Field(gt=0, le=8)] = 4.0
    """Maximum seconds for a bind; less than the httpTimeout of the scheduler's file, so that the scheduler does not
    give up first."""

    spread_reservations: bool = True
    """Whether Reservations go to the emptiest nodes, by cpu and memory. If false, the scores of kube-scheduler alone
    decide, which do not see what Reservations hold; use that where kube-scheduler packs pods (MostAllocated)."""

    decisive_lead: Annotated[int, Field(ge=1, le=10)] | None = 2
    """Points, of the 10 of prioritize, by which the best node must lead so that no score of kube-scheduler's own can
    outweigh the lead: ``filter`` then rejects the nodes behind, and kube-scheduler neither scores them nor asks for
    their points. This number × ``weight`` of the extender in the scheduler's file must be more than 10 × the weights of
    all score plugins, which are 15 by default. Null: ``filter`` rejects only nodes that do not fit, for a smaller
    ``weight`` or where an extender after this one filters, too."""

    bind_placeholders: bool | None = None
    """Whether the placeholder of a Reservation is bound to its node before the controller deletes it. Null: only if the
    API server is older than Kubernetes 1.36. Set true if a scheduler built from Kubernetes 1.34 or earlier calls the
    extender: it would count a placeholder that was never bound until it restarts."""

    load_aware: LoadAware | None = None
    """Whether the extender also judges nodes by their measured use; null: it does not, and watches no NodeMetrics."""

    qps: Annotated[float, Field(gt=0)] = 500.0
    """Maximum API requests per second, on average: a pod needs one, a pod that enters a Reservation two."""

    burst: Annotated[int, Field(ge=1)] = 1000
    """Maximum API requests at once."""

    leader_election: ExtenderLeaderElection = ExtenderLeaderElection()
    probes: Endpoint | None = Endpoint(port=8083)
    metrics: Endpoint | None = Endpoint(port=8082)
    """Null: metrics are not served."""

    logging: Logging = Logging()
