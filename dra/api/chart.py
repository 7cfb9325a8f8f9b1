"""The values of the Helm chart, deploy/helm/dra-reserve: its values.schema.json is made from here (``make chart``).

Unknown values are refused by name, as unknown fields of the configuration are: a typo must not silently mean the
default. What Kubernetes itself checks (tolerations, affinity and the like) is passed on as it is.
"""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import AliasGenerator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from dra.api.configuration import ControllerConfiguration, ControllerMode, PlaceholderMode

JsonObject = dict[str, Any]
Labels = dict[str, str]

OWNED_BY_THE_CHART: Final = (
    "mode",
    "reservations",
    "placeholders",
    "probes",
    "metrics",
    "leaderElection.namespace",
    "leaderElection.name",
)
"""Fields of the configuration that have no value of their own: ports, roles and namespaces have to agree with them."""


class ChartSection(BaseModel):
    """Frozen, camelCase in files, unknown values refused; what is said below the fields is their description."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=AliasGenerator(alias=to_camel),
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


class PullPolicy(StrEnum):
    """When a node fetches the image; empty: as Kubernetes decides from the tag."""

    UNSAID = ""
    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class GpuInventorySource(StrEnum):
    """Where GPUs are seen."""

    NVML = "nvml"
    SYSFS = "sysfs"
    SIMULATED = "simulated"


class Image(ChartSection):
    """The image that deploy/Containerfile makes."""

    repository: Annotated[str, Field(min_length=1)] = "dra-reserve"
    tag: str = ""
    """Empty: the chart's appVersion."""
    digest: Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64})?$")] = ""
    """Has precedence over the tag."""
    pull_policy: PullPolicy = PullPolicy.UNSAID


class DisruptionBudget(ChartSection):
    """Keeps drains from taking all replicas at once."""

    enabled: bool = True
    max_unavailable: int | str = 1


class ControllerValues(ChartSection):
    """The pods of the controller."""

    replicas: Annotated[int, Field(ge=0, le=10)] = 2
    """One acts, the others know the cluster already and take over when the lease is free."""
    resources: JsonObject = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}
    """No limit of CPU: a leader that is throttled loses its lease."""
    priority_class_name: str = "system-cluster-critical"
    """Pods behind our gate do not start without it."""
    node_selector: Labels = {}
    tolerations: list[JsonObject] = []
    affinity: JsonObject = {}
    topology_spread_constraints: list[JsonObject] = [
        {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    ]
    """Those without a labelSelector get the controller's."""
    pod_labels: Labels = {}
    pod_annotations: Labels = {}
    pod_disruption_budget: DisruptionBudget = DisruptionBudget()


class CpuDriverValues(ChartSection):
    """CPUs that belong to one container alone."""

    enabled: bool = True
    devices: Literal["individual", "grouped"] = "individual"
    """A device for each CPU, or for each NUMA node (needs DRAConsumableCapacity)."""
    reserved: Annotated[str, Field(pattern=r"^[0-9,-]*$")] = ""
    """CPUs that are never given away, such as 0-1,32; else one core."""


class GpuDriverValues(ChartSection):
    """GPUs."""

    enabled: bool = False
    inventory: GpuInventorySource = GpuInventorySource.NVML
    """nvml makes the container privileged, because it opens the driver's device nodes."""
    shares: bool = False
    """Offer shares of GPUs (needs DRAConsumableCapacity)."""
    nvidia_root: Annotated[str, Field(pattern="^/")] = "/"
    """Where NVIDIA's driver is on the host; NVIDIA's operator puts it into /run/nvidia/driver."""
    simulated: JsonObject = {}
    """The GPUs of inventory simulated, as in examples/gpus/inventory-one.yaml."""


class PluginNamespace(ChartSection):
    """A namespace of its own: what these pods must be allowed nobody else's shall be."""

    create: bool = True
    name: Annotated[str, Field(min_length=1, max_length=63, pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")] = (
        "dra-reserve-nodes"
    )


class KubeletPlugin(ChartSection):
    """The DRA driver on each node; the controller does not need it."""

    enabled: bool = False
    namespace: PluginNamespace = PluginNamespace()
    cpu: CpuDriverValues = CpuDriverValues()
    gpu: GpuDriverValues = GpuDriverValues()
    kubelet_root: Annotated[str, Field(pattern="^/.*[^/]$")] = "/var/lib/kubelet"
    log_level: Literal["debug", "info", "warning"] = "info"
    resources: JsonObject = {"requests": {"cpu": "10m", "memory": "96Mi"}, "limits": {"memory": "256Mi"}}
    priority_class_name: str = "system-node-critical"
    """Pods with devices neither start nor end without it."""
    node_selector: Labels = {}
    tolerations: list[JsonObject] = [{"operator": "Exists"}]
    """A node that is drained still has pods that must end."""
    affinity: JsonObject = {}
    pod_labels: Labels = {}
    pod_annotations: Labels = {}


class OwnersOfAnyNamespace(StrEnum):
    """What the API server answers to a Reservation with an owner that names no namespace."""

    WARN = "Warn"
    DENY = "Deny"
    ALLOW = "Allow"


class SchedulerExtender(ChartSection):
    """The pods that kube-scheduler asks, and has bind."""

    replicas: Annotated[int, Field(ge=0, le=10)] = 2
    """One binds and is ready; the others take over when the lease is free."""
    tls_secret: Annotated[str, Field(min_length=1, max_length=253)] = "dra-reserve-extender-tls"  # noqa: S105 - its name
    """With tls.crt and tls.key; ca.crt: who signs the scheduler's client certificate."""
    client_names: list[Annotated[str, Field(min_length=1)]] = ["kube-scheduler"]
    """Names, one of which the scheduler's client certificate must have; none: any certificate of the authority."""
    bind_seconds: Annotated[float, Field(gt=0, le=8)] = 4
    """How long a bind may take; less than httpTimeout in the scheduler's file."""
    node_name: str = ""
    """Where it runs, if no scheduler without the extender is left that could place it."""
    resources: JsonObject = {"requests": {"cpu": "200m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}}
    """No limit of CPU: each pod's scheduling waits for two of its answers."""
    priority_class_name: str = "system-cluster-critical"
    """Without it no pod is scheduled."""
    node_selector: Labels = {}
    tolerations: list[JsonObject] = []
    affinity: JsonObject = {}
    topology_spread_constraints: list[JsonObject] = [
        {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    ]
    """Those without a labelSelector get the extender's."""
    pod_labels: Labels = {}
    pod_annotations: Labels = {}


class Reservations(ChartSection):
    """Capacity held for pods that do not exist yet."""

    enabled: bool = False
    """Install the definition, its policies, and have the controller see to Reservations."""
    placeholders: PlaceholderMode = PlaceholderMode.REPLACED
    """replaced: the extender is installed and holds the room, kube-scheduler must be told to ask it; yielding: pods of
    ours keep the room and give way to owners, for clusters whose kube-scheduler cannot be configured."""
    owners_of_any_namespace: OwnersOfAnyNamespace = OwnersOfAnyNamespace.WARN
    """Owners without a namespace let pods of every namespace in, as in Koordinator. Warn: the client is told; Deny:
    such Reservations are refused; Allow: nothing is said."""
    extender: SchedulerExtender = SchedulerExtender()


class WorkloadResource(ChartSection):
    """A kind that claims are reserved for, besides Jobs, JobSets, Deployments, StatefulSets and ReplicaSets."""

    group: str = ""
    resource: Annotated[str, Field(pattern="^[a-z0-9.-]+$")]
    """In the plural: rayjobs."""


class NetworkPolicy(ChartSection):
    """Who may connect to the pods; the kubelet's probes are always let through."""

    enabled: bool = True
    metrics_from: list[JsonObject] = [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    ]
    """Peers that may read metrics, as in a NetworkPolicy's `from`; an empty list: everybody."""
    scheduler_from: list[JsonObject] = []
    """Peers that may ask the extender: an ipBlock for each node of the control plane; an empty list: everybody."""


class PodMonitor(ChartSection):
    """For the Prometheus operator, whose CRDs must be there."""

    enabled: bool = False
    interval: str = "30s"
    labels: Labels = {}
    """What your Prometheus selects PodMonitors by."""


class Alerts(ChartSection):
    """A PrometheusRule for the Prometheus operator, whose CRDs must be there: deploy/monitoring/alerts.yaml."""

    enabled: bool = False
    labels: Labels = {}
    """What your Prometheus selects PrometheusRules by."""


class Dashboard(ChartSection):
    """A ConfigMap with deploy/monitoring/dashboard.json, for Grafana's sidecar."""

    enabled: bool = False
    labels: Labels = {"grafana_dashboard": "1"}
    """What your Grafana selects dashboards by."""


class ChartValues(ChartSection):
    """Everything that can be set. What each field of `config` means: deploy/kustomize/base/config.yaml."""

    mode: ControllerMode = ControllerMode.ALONGSIDE
    """replace: kube-controller-manager runs without its resourceclaim-controller; alongside: with it."""
    image: Image = Image()
    image_pull_secrets: list[JsonObject] = []
    config: ControllerConfiguration = ControllerConfiguration()
    """The controller's configuration, but for what the chart sets itself."""
    controller: ControllerValues = ControllerValues()
    kubelet_plugin: KubeletPlugin = KubeletPlugin()
    reservations: Reservations = Reservations()
    workloads: list[WorkloadResource] = []
    """More kinds that the controller may read."""
    policies: dict[str, bool] = {}
    """Which policies of deploy/policies are installed."""
    user_roles: bool = True
    """Let those who have view, edit or admin see and change what dra-reserve is about."""
    priority_quota: bool = True
    """Some managed clusters admit pods of a system priority class outside kube-system only where a quota says so."""
    network_policy: NetworkPolicy = NetworkPolicy()
    pod_monitor: PodMonitor = PodMonitor()
    alerts: Alerts = Alerts()
    dashboard: Dashboard = Dashboard()
    common_labels: Labels = {}
    global_: Annotated[JsonObject, Field(alias="global")] = {}
    """Nothing is read from it; Helm fills it in where this chart is another's dependency."""
