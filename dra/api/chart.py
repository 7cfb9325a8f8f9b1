"""The values of the Helm chart deploy/helm/dra-reserve, from which ``make chart`` generates values.schema.json.

Unknown values are rejected by name, as unknown fields of the configuration are: a typo must not silently mean the
default. Values that Kubernetes validates itself (tolerations, affinity and the like) are passed on unchanged.
"""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import AliasGenerator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from dra.api.configuration import ControllerConfiguration, ControllerMode, PlaceholderMode
from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.api.descheduler.profile import EvictionLimit
from dra.api.extender_configuration import LoadAware, LoadResources
from dra.api.parameters.cpu_policies import CpuBindPolicy

JsonObject = dict[str, Any]
Labels = dict[str, str]

OWNED_BY_THE_CHART: Final = (
    "mode",
    "reservations",
    "koordinator",
    "defaultCPUBindPolicy",
    "colocation",
    "placeholders",
    "probes",
    "metrics",
    "leaderElection.namespace",
    "leaderElection.name",
)
"""Fields of the configuration that the chart sets itself: ports, roles and namespaces have to agree with them."""


class ChartSection(BaseModel):
    """The base of sections: frozen, camelCase in files, unknown values rejected.

    The docstrings below fields become their descriptions.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=AliasGenerator(alias=to_camel),
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


class PullPolicy(StrEnum):
    """The image pull policy; empty: Kubernetes decides by the tag."""

    UNSET = ""
    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class GpuInventorySource(StrEnum):
    """The source from which the plugin reads the node's GPUs."""

    NVML = "nvml"
    SYSFS = "sysfs"
    SIMULATED = "simulated"


class Image(ChartSection):
    """The image of dra-reserve."""

    repository: Annotated[str, Field(min_length=1)] = "dra-reserve"
    tag: str = ""
    """Empty: the chart's appVersion."""
    digest: Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64})?$")] = ""
    """Takes precedence over the tag."""
    pull_policy: PullPolicy = PullPolicy.UNSET


class DisruptionBudget(ChartSection):
    """A PodDisruptionBudget, which keeps drains from evicting all replicas at once."""

    enabled: bool = True
    max_unavailable: int | str = 1


class ControllerValues(ChartSection):
    """The pods of the controller."""

    replicas: Annotated[int, Field(ge=0, le=10)] = 2
    """One replica acts; the others keep their caches up to date and take over when the lease is free."""
    resources: JsonObject = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}
    """No CPU limit: a leader that is throttled loses its lease."""
    priority_class_name: str = "system-cluster-critical"
    """Pods with dra-reserve's scheduling gate do not start without the controller."""
    node_selector: Labels = {}
    tolerations: list[JsonObject] = []
    affinity: JsonObject = {}
    topology_spread_constraints: list[JsonObject] = [
        {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    ]
    """Constraints without a labelSelector get the controller's."""
    pod_labels: Labels = {}
    pod_annotations: Labels = {}
    pod_disruption_budget: DisruptionBudget = DisruptionBudget()


class CpuDriverValues(ChartSection):
    """The CPU driver: exclusive CPUs for containers."""

    enabled: bool = True
    devices: Literal["individual", "grouped", "node"] = "individual"
    """Publish one device per CPU, one per NUMA node, or one per node (the latter two need DRAConsumableCapacity)."""
    beside_static: bool = False
    """With devices node, on nodes whose kubelet has cpuManagerPolicy static: mount the kubelet's folder, read-only."""
    reserved: Annotated[str, Field(pattern=r"^[0-9,-]*$")] = ""
    """CPUs that are never allocated, such as 0-1,32; empty: one core."""


class GpuDriverValues(ChartSection):
    """The GPU driver: GPUs of a node, and shares of them."""

    enabled: bool = False
    inventory: GpuInventorySource = GpuInventorySource.NVML
    """nvml makes the container privileged, because it opens the driver's device nodes."""
    shares: bool = False
    """Publish shares of GPUs (needs DRAConsumableCapacity)."""
    koordinator_devices: bool = False
    """Report GPUs in Koordinator's kind Device and in labels of the Node; installs the CRD and rights for that."""
    nvidia_root: Annotated[str, Field(pattern="^/")] = "/"
    """Directory of NVIDIA's driver on the host; NVIDIA's operator uses /run/nvidia/driver."""
    simulated: JsonObject = {}
    """The GPUs of inventory simulated, as in `dra-reserve examples gpus/inventory-one.yaml`."""


class PluginNamespace(ChartSection):
    """A namespace for the kubelet plugin alone: no other pods should get the privileges that its pods need."""

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
    """Pods with devices neither start nor end without the plugin."""
    node_selector: Labels = {}
    tolerations: list[JsonObject] = [{"operator": "Exists"}]
    """A drained node still has pods that must end."""
    affinity: JsonObject = {}
    pod_labels: Labels = {}
    pod_annotations: Labels = {}


class OwnersOfAnyNamespace(StrEnum):
    """The API server's response to a Reservation with an owner that names no namespace."""

    WARN = "Warn"
    DENY = "Deny"
    ALLOW = "Allow"


class LoadAwareScheduling(ChartSection):
    """Whether the extender also judges nodes by their measured use, for a second entry in the scheduler's file."""

    enabled: bool = False
    usage_thresholds: LoadResources = LoadAware().usage_thresholds
    """Percent of what a node has for pods, above which it gets no further pods."""


class SchedulerExtender(ChartSection):
    """The pods of the scheduler extender, which kube-scheduler calls and which binds pods."""

    replicas: Annotated[int, Field(ge=0, le=10)] = 2
    """One replica binds and is ready; the others take over when the lease is free."""
    tls_secret: Annotated[str, Field(min_length=1, max_length=253)] = "dra-reserve-extender-tls"  # noqa: S105 - its name
    """Secret with tls.crt and tls.key; ca.crt: the authority that signs the scheduler's client certificate."""
    client_names: list[Annotated[str, Field(min_length=1)]] = ["kube-scheduler"]
    """Names, one of which the scheduler's client certificate must have; empty: any certificate of the authority."""
    bind_seconds: Annotated[float, Field(gt=0, le=8)] = 4
    """Maximum seconds for a bind; less than httpTimeout in the scheduler's file."""
    bind_only: bool = False
    """Print the scheduler's file for a cluster without Reservations, in which the extender only binds pods."""
    bind_placeholders: bool | None = None
    """Whether placeholders are bound before they are deleted; null: only on Kubernetes before 1.36."""
    load_aware: LoadAwareScheduling = LoadAwareScheduling()
    node_name: str = ""
    """Node to run on, if there is no scheduler without the extender that could place the pods."""
    resources: JsonObject = {"requests": {"cpu": "200m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}}
    """No CPU limit: the scheduling of each pod waits for two of its responses."""
    priority_class_name: str = "system-cluster-critical"
    """Without the extender no pod is scheduled."""
    node_selector: Labels = {}
    tolerations: list[JsonObject] = []
    affinity: JsonObject = {}
    topology_spread_constraints: list[JsonObject] = [
        {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    ]
    """Constraints without a labelSelector get the extender's."""
    pod_labels: Labels = {}
    pod_annotations: Labels = {}


class Reservations(ChartSection):
    """Capacity that is reserved for pods that do not exist yet."""

    enabled: bool = False
    """Install the CRD and its policies, and let the controller manage Reservations."""
    placeholders: PlaceholderMode = PlaceholderMode.REPLACED
    """replaced: the extender is installed and holds the capacity, and kube-scheduler must be configured to call it;
    yielding: placeholder pods hold the capacity and give way to owners, for clusters whose kube-scheduler cannot be
    configured."""
    owners_of_any_namespace: OwnersOfAnyNamespace = OwnersOfAnyNamespace.WARN
    """Owners without a namespace admit pods of every namespace, as in Koordinator. Warn: the client gets a warning;
    Deny: such Reservations are rejected; Allow: no response."""
    extender: SchedulerExtender = SchedulerExtender()


class Descheduler(ChartSection):
    """The descheduler, which carries PodMigrationJobs out: capacity is reserved elsewhere before a pod is evicted."""

    enabled: bool = False
    """Install the CRD, its policies and the descheduler; needs `reservations`."""
    migration: MigrationControllerArgs = MigrationControllerArgs()
    """Limits and defaults of migrations, with the fields of the descheduler's configuration."""
    descheduling_interval: str = "5m"
    """Time between two rounds of the profiles; 0s: one round after each start."""
    dry_run: bool = False
    """Whether rounds are carried out without evictions; the log says what would go."""
    max_no_of_pods_to_evict_per_node: EvictionLimit | None = None
    """Maximum evictions of a round on one node; null means unlimited, 0 means none at all."""
    max_no_of_pods_to_evict_per_namespace: EvictionLimit | None = None
    """Maximum evictions of a round in one namespace; null means unlimited, 0 means none at all."""
    max_no_of_pods_to_evict_total: EvictionLimit | None = None
    """Maximum evictions of a round; null means unlimited, 0 means none at all."""
    profiles: list[JsonObject] = []
    """Profiles of plugins, as in the descheduler's configuration; without profiles, people alone create jobs. With any,
    the descheduler gets the permissions that rounds need, and needs memory for all nodes and volumes."""
    replicas: Annotated[int, Field(ge=0, le=10)] = 2
    """One replica acts; the others take over when the lease is free."""
    resources: JsonObject = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}}
    """No CPU limit: a leader that is throttled loses its lease."""
    priority_class_name: str = "system-cluster-critical"
    """A migration under way must end: the replacement waits for its capacity."""
    node_selector: Labels = {}
    tolerations: list[JsonObject] = []
    affinity: JsonObject = {}
    topology_spread_constraints: list[JsonObject] = [
        {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    ]
    """Constraints without a labelSelector get the descheduler's."""
    pod_labels: Labels = {}
    pod_annotations: Labels = {}


class PageIngressTls(ChartSection):
    """TLS between browsers and the ingress controller. Users send their tokens to the page: do not switch TLS off."""

    enabled: bool = True
    secret_name: Annotated[str, Field(max_length=253)] = ""
    """Secret with the certificate of the host; empty: the default certificate of the ingress controller."""


class PageIngress(ChartSection):
    """An Ingress to the page."""

    enabled: bool = False
    class_name: str = ""
    """Empty: the default IngressClass of the cluster."""
    host: Annotated[str, Field(max_length=253, pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$")] = ""
    """Host name under which users open the page; needed with `enabled`, and allowed by itself."""
    annotations: Labels = {}
    """The page sends something every 15 seconds: set a longer read timeout, and no buffering of responses."""
    tls: PageIngressTls = PageIngressTls()


class PrometheusCa(ChartSection):
    """The CA of the Prometheus, in a ConfigMap of the release's namespace."""

    config_map: Annotated[str, Field(max_length=253)] = ""
    """Empty: the system's CAs."""
    key: Annotated[str, Field(min_length=1)] = "ca.crt"


class PrometheusToken(ChartSection):
    """The bearer token for the Prometheus, in a Secret of the release's namespace."""

    secret: Annotated[str, Field(max_length=253)] = ""
    """Empty: no token is sent."""
    key: Annotated[str, Field(min_length=1)] = "token"


class PagePrometheus(ChartSection):
    """The Prometheus from which the view Idle has its history."""

    url: Annotated[str, Field(pattern=r"^(https?://[^@?#]+)?$")] = ""
    """The Prometheus that scrapes the controller, without credentials; empty: what the page has seen itself."""
    labels: Labels = {}
    """Labels of this cluster's series, where the Prometheus has several clusters."""
    ca: PrometheusCa = PrometheusCa()
    token: PrometheusToken = PrometheusToken()


class Page(ChartSection):
    """The live, read-only page for several users, who sign in with tokens and see what their own rights allow."""

    enabled: bool = False
    """Install the page, its read-only account and a role for users, who sign in with tokens of the cluster."""
    audience: Annotated[str, Field(min_length=1)] = "dra-reserve-page"
    """Audience that tokens of users must have: `kubectl create token NAME --audience=dra-reserve-page`."""
    allowed_hosts: list[Annotated[str, Field(min_length=1)]] = []
    """Hosts under which users open the page, besides localhost and `ingress.host`."""
    prometheus: PagePrometheus = PagePrometheus()
    max_scopes: Annotated[int, Field(ge=1, le=1000)] = 16
    """Different sets of rights, the whole cluster or one namespace each, that are served at once."""
    tls_secret: Annotated[str, Field(max_length=253)] = ""
    """Secret with tls.crt and tls.key for HTTPS to the page itself; empty: plain HTTP, for port-forward and Ingress."""
    ingress: PageIngress = PageIngress()
    replicas: Annotated[int, Field(ge=0, le=10)] = 1
    """More than one is safe; each replica keeps a cache of its own."""
    resources: JsonObject = {"requests": {"cpu": "100m", "memory": "192Mi"}, "limits": {"memory": "1Gi"}}
    """The page "Sizing" of the documentation has the memory that a cluster of your size needs."""
    priority_class_name: str = ""
    node_selector: Labels = {}
    tolerations: list[JsonObject] = []
    affinity: JsonObject = {}
    topology_spread_constraints: list[JsonObject] = [
        {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    ]
    """Constraints without a labelSelector get the page's."""
    pod_labels: Labels = {}
    pod_annotations: Labels = {}


class Koordinator(ChartSection):
    """Requests for CPUs and GPUs in Koordinator's form, in namespaces labelled reserve.dra/koordinator=enabled."""

    enabled: bool = False
    """Install the policies that translate such requests into claims, and report devices and CPUs of pods in
    Koordinator's annotations, which others may then not write; needs Kubernetes 1.36."""
    default_cpu_bind_policy: CpuBindPolicy = Field(default=CpuBindPolicy.FULL_PCPUS, alias="defaultCPUBindPolicy")
    """Bind policy of pods with QoS class LSE or LSR that name none, or `Default`."""

    priority_classes: bool = False
    """Create Koordinator's PriorityClasses, which stay when the release is removed; false where they exist."""


class ColocationProfiles(ChartSection):
    """The process that gives ClusterColocationProfiles to the policies; without it: `kubectl dra colocation apply`."""

    enabled: bool = False
    """Install the CRDs, the policies, which need Kubernetes 1.36, and the process."""
    replicas: Annotated[int, Field(ge=0, le=10)] = 1
    """One replica acts; while it is away, the profiles stay in effect as they were."""
    resources: JsonObject = {"requests": {"cpu": "20m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}}
    priority_class_name: str = "system-cluster-critical"
    node_selector: Labels = {}
    tolerations: list[JsonObject] = []
    affinity: JsonObject = {}
    pod_labels: Labels = {}
    pod_annotations: Labels = {}


class Colocation(ChartSection):
    """Batch pods on what other pods do not use: resources kubernetes.io/batch-cpu and batch-memory of nodes."""

    enabled: bool = False
    """Install the CRDs and rights, and let the controller compute batch resources; with `kubeletPlugin.enabled`, the
    plugins report what nodes use and hold batch pods back. The ConfigMap slo-controller-config enables both."""
    create_namespace: bool = True
    """Create the namespace koordinator-system, which stays when the release is removed; false where it exists."""
    profiles: ColocationProfiles = ColocationProfiles()


class WorkloadResource(ChartSection):
    """A kind that claims are reserved for, besides the kinds in ClusterRole dra-reserve-workloads."""

    group: str = ""
    resource: Annotated[str, Field(pattern="^[a-z0-9.-]+$")]
    """Plural name of the resource: workflows."""


class NetworkPolicy(ChartSection):
    """The peers that may connect to the pods; the kubelet's probes are always allowed."""

    enabled: bool = True
    metrics_from: list[JsonObject] = [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    ]
    """Peers that may read metrics, as in a NetworkPolicy's `from`; an empty list: all peers."""
    scheduler_from: list[JsonObject] = []
    """Peers that may call the extender: an ipBlock for each node of the control plane; an empty list: all peers."""
    page_from: list[JsonObject] = [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress-nginx"}}}
    ]
    """Peers that may open the page, such as an ingress controller, but for port-forward; an empty list: all peers."""


class PodMonitor(ChartSection):
    """A PodMonitor for the Prometheus operator, whose CRDs must be installed."""

    enabled: bool = False
    interval: str = "30s"
    labels: Labels = {}
    """Labels by which your Prometheus selects PodMonitors."""


class Alerts(ChartSection):
    """A PrometheusRule for the Prometheus operator, whose CRDs must be installed: the component alerts."""

    enabled: bool = False
    labels: Labels = {}
    """Labels by which your Prometheus selects PrometheusRules."""


class Dashboard(ChartSection):
    """A ConfigMap with the component dashboard, for Grafana's sidecar."""

    enabled: bool = False
    labels: Labels = {"grafana_dashboard": "1"}
    """Labels by which your Grafana selects dashboards."""


class ChartValues(ChartSection):
    """The values of the chart; `config` has the fields of the controller's configuration."""

    mode: ControllerMode = ControllerMode.ALONGSIDE
    """replace: kube-controller-manager runs without its resourceclaim-controller; alongside: with it."""
    image: Image = Image()
    image_pull_secrets: list[JsonObject] = []
    config: ControllerConfiguration = ControllerConfiguration()
    """The controller's configuration, except for the fields that the chart sets itself."""
    controller: ControllerValues = ControllerValues()
    kubelet_plugin: KubeletPlugin = KubeletPlugin()
    reservations: Reservations = Reservations()
    descheduler: Descheduler = Descheduler()
    page: Page = Page()
    koordinator: Koordinator = Koordinator()
    colocation: Colocation = Colocation()
    workloads: list[WorkloadResource] = []
    """More kinds that the controller may read."""
    policies: dict[str, bool] = {}
    """Admission policies that are installed, by name."""
    node_rights: bool = False
    """Keep the permission to annotate nodes while config.annotateNodes is false, so that the controller removes the
    annotations that it has set."""
    user_roles: bool = True
    """Let users with view, edit or admin read and change the objects that dra-reserve works with."""
    priority_quota: bool = True
    """Create a quota: some managed clusters admit pods of a system priority class outside kube-system only with one."""
    network_policy: NetworkPolicy = NetworkPolicy()
    pod_monitor: PodMonitor = PodMonitor()
    alerts: Alerts = Alerts()
    dashboard: Dashboard = Dashboard()
    common_labels: Labels = {}
    global_: Annotated[JsonObject, Field(alias="global")] = {}
    """Not used; Helm sets it where this chart is a dependency of another one."""
