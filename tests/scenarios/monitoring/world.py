"""A local plane with all processes of ours, and a kubelet plugin on each of its nodes: all with /metrics.

Prometheus finds them as it would in a cluster, through pods: those are stand-ins, made from the pod templates of the
chart, whose address is this machine's and whose named ports are those of the processes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from tests.cluster import charts
from tests.cluster.kubectl import kubectl
from tests.cluster.ports import LOOPBACK, free
from tests.cluster.probes import healthy
from tests.cluster.waiting import until
from tests.scenarios.monitoring import work
from tests.scenarios.monitoring.expected import PROCESSES
from tests.scenarios.monitoring.pod_cgroups import PodCgroups
from tests.scenarios.planes import PROGRAM, ROOT
from tests.scenarios.reservations.conftest import certified, section

if TYPE_CHECKING:
    from tests.cluster.processes import Process
    from tests.cluster.run_folder import RunFolder

Json = dict[str, Any]

INVENTORY: Final = ROOT / "examples" / "gpus" / "inventory-8xh100.yaml"
MANIFESTS: Final = (
    "examples/gpus/classes.yaml",
    "examples/colocation/profile.yaml",
)

NODES: Final = ("node-1", "node-2")
NAMESPACES: Final = {
    component: "dra-reserve-nodes" if component == "kubelet-plugin" else "dra-reserve" for component in PROCESSES
}

VALUES: Final = {
    "podMonitor": {"enabled": True},
    "kubeletPlugin": {"enabled": True},
    "reservations": {"enabled": True},
    "descheduler": {"enabled": True},
    "page": {"enabled": True},
    "colocation": {"enabled": True, "profiles": {"enabled": True}},
}

COLOCATION: Final = {
    "colocation-config": {"enable": True, "metricAggregateDurationSeconds": 30, "metricReportIntervalSeconds": 2},
    "resource-threshold-config": {"clusterStrategy": {"enable": True, "cpuSuppressPolicy": "cfsQuota"}},
}
"""Of the ConfigMap of colocation: reports are of three samples of pods, the fewest that give one each time."""

ALONE: Final = {"leaderElection": {"enabled": False}}
DESCHEDULING: Final = {
    **ALONE,
    "deschedulingInterval": "1s",
    "migration": {"objectLimiters": {"workload": {"duration": "0s"}}, "evictQPS": 100, "evictBurst": 100},
    "profiles": [{"name": "spreading", "plugins": {"balance": {"enabled": [{"name": "RemoveDuplicates"}]}}}],
}
"""The configuration of a descheduler whose rounds follow each other fast, and which waits for budgets alone."""

USAGE: Final = {
    "usage": [{"minor": 0, "utilizationPercent": 85, "memory": "60Gi"}, *({"minor": minor} for minor in range(1, 8))]
}
"""What the GPUs of each node do: all but one are idle."""


@dataclass(frozen=True, kw_only=True)
class Exposed:
    """One process that is to be scraped."""

    component: str
    node: str
    port: int

    @property
    def pod(self) -> str:
        """The pod that stands for it."""
        return f"{self.component}-{self.node}"


@dataclass(kw_only=True)
class World:
    """All of it; the processes end with the folder."""

    folder: RunFolder
    kubeconfig: Path = field(init=False)
    extender_port: int = field(init=False)
    page_port: int = field(init=False)
    certificates: dict[str, Path] = field(init=False)
    cgroups: PodCgroups = field(init=False)
    exposed: list[Exposed] = field(default_factory=list)
    processes: dict[str, Process] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Name what is not there yet."""
        self.kubeconfig = self.folder.path / "plane" / "kubeconfig"
        self.extender_port, self.page_port = free(2)
        self.certificates = certified(self.folder.path)
        self.cgroups = PodCgroups(self.folder, nodes=NODES)

    def start(self) -> None:
        """Start everything; return when all of it is ready."""
        self._start_plane()
        for path in ("crds", *MANIFESTS):
            way = "--kustomize" if (ROOT / path).is_dir() else "--filename"
            kubectl("apply", f"{way}={ROOT / path}", kubeconfig=self.kubeconfig)
        self._create([_object("Namespace", "koordinator-system"), _colocation()])
        for node in NODES:
            self._start_plugin(node)
        self._start_configured("controller", {"mode": "replace", "reservations": True, "colocation": True, **ALONE})
        self._start_configured(
            "extender",
            {"serve": {"address": LOOPBACK, "port": self.extender_port}, "tls": section(self.certificates), **ALONE},
        )
        self._start_configured("descheduler", DESCHEDULING)
        self._start_configured("profiles", ALONE)
        tls = {"certificate": str(self.certificates["tls.crt"]), "key": str(self.certificates["tls.key"])}
        self._start_configured("page", {"serve": {"address": LOOPBACK, "port": self.page_port}, "tls": tls})

    def stand_in(self) -> list[Json]:
        """Make a pod for each process; return the chart's PodMonitors."""
        rendered = charts.rendered(VALUES)
        templates = {
            template["metadata"]["labels"]["app.kubernetes.io/component"]: template
            for obj in rendered
            if obj["kind"] in {"Deployment", "DaemonSet"} and (template := obj["spec"]["template"])
        }
        namespaces = [_object("Namespace", name) for name in sorted(set(NAMESPACES.values()))]
        self._create(namespaces)
        self._create([_pod(templates[each.component], each) for each in self.exposed])
        for each in self.exposed:
            status = {"status": {"phase": "Running", "podIP": LOOPBACK, "podIPs": [{"ip": LOOPBACK}]}}
            namespace = f"--namespace={NAMESPACES[each.component]}"
            patch = ("--subresource=status", "--type=merge", f"--patch={json.dumps(status)}")
            kubectl("patch", "pod", each.pod, namespace, *patch, kubeconfig=self.kubeconfig)
        return [obj for obj in rendered if obj["kind"] == "PodMonitor"]

    def run_batch_pods(self) -> None:
        """Have each node run a batch pod, with a process in its cgroup."""
        work.apply(work.batch_pods(NODES), kubeconfig=self.kubeconfig)
        for node in NODES:
            self.cgroups.run(node, uid=work.uid_of(work.batch_pod_name(node), kubeconfig=self.kubeconfig))

    def _start_plane(self) -> None:
        place = self.kubeconfig.parent
        options = [f"--nodes={len(NODES)}", "--devices=0", "--plugins=own", "--no-controller"]
        options += ["--no-reservations", "--no-colocation"]  # whose metrics the plane does not serve
        command = [*PROGRAM, "local", "up", f"--folder={place}", "--api=stock", *options]
        self._process("plane", command, ready=self.kubeconfig.exists).start()

    def _start_plugin(self, node: str) -> None:
        place = self.kubeconfig.parent
        found = Path(json.loads((place / "plane.json").read_text())["runtime"]) / node
        until((found / "plugins_registry").is_dir, within=60, saying=f"{node} looks for plugins")
        metrics, probes = free(2)
        inventory = self.folder.path / f"inventory-{node}.yaml"
        inventory.write_text(f"{INVENTORY.read_text()}{yaml.safe_dump(USAGE)}")
        folders = {"plugins": "plugins", "registry": "plugins_registry", "cdi": "cdi"}
        command = [
            *(*PROGRAM, "kubelet-plugin", "--drivers=gpu", f"--node-name={node}", f"--inventory=simulated:{inventory}"),
            *("--colocation", f"--kubepods-cgroup={self.cgroups.of_node(node)}"),
            *(f"--{option}={found / name}" for option, name in folders.items()),
            *(f"--kubeconfig={self.kubeconfig}", f"--metrics={LOOPBACK}:{metrics}", f"--probes={LOOPBACK}:{probes}"),
        ]
        self._process(f"kubelet-plugin-{node}", command, ready=_ready(probes)).start()
        self.exposed.append(Exposed(component="kubelet-plugin", node=node, port=metrics))

    def _start_configured(self, component: str, configuration: Json) -> None:
        metrics, probes = free(2)
        endpoints = {"probes": probes, "metrics": metrics}
        addresses = {name: {"address": LOOPBACK, "port": port} for name, port in endpoints.items()}
        file = self.folder.path / f"{component}.yaml"
        file.write_text(yaml.safe_dump({**configuration, **addresses}), encoding="utf-8")
        command = [*PROGRAM, PROCESSES[component], f"--kubeconfig={self.kubeconfig}", f"--config={file}"]
        self._process(component, command, ready=_ready(probes)).start()
        self.exposed.append(Exposed(component=component, node="control-plane", port=metrics))

    def _process(self, name: str, command: list[str], **options: Any) -> Process:
        process = self.folder.process(name, command, **options)
        process.env = {**process.env, "PYTHONPATH": str(ROOT)}
        self.processes[name] = process
        return process

    def _create(self, made: list[Json]) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": made}
        kubectl("create", "--filename=-", kubeconfig=self.kubeconfig, stdin=json.dumps(listed))


def _ready(port: int) -> Any:
    return partial(healthy, port, "/readyz", tls=False)


def _object(kind: str, name: str) -> Json:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}


def _colocation() -> Json:
    config_map = _object("ConfigMap", "slo-controller-config")
    config_map["metadata"]["namespace"] = "koordinator-system"
    return {**config_map, "data": {key: json.dumps(value) for key, value in COLOCATION.items()}}


def _pod(template: Json, exposed: Exposed) -> Json:
    """Return a pod like those of the template, as far as Prometheus sees them.

    No scheduler gives it to a node, which would run it; on a node that does not exist it would be deleted after 40 s.
    """
    (container,) = template["spec"]["containers"]
    ports = [
        {**port, "containerPort": exposed.port} if port["name"] == "metrics" else port for port in container["ports"]
    ]
    pod = _object("Pod", exposed.pod)
    pod["metadata"] |= {"namespace": NAMESPACES[exposed.component], "labels": template["metadata"]["labels"]}
    containers = [{"name": container["name"], "image": container["image"], "ports": ports}]
    return {**pod, "spec": {"schedulerName": "nobody", "containers": containers}}
