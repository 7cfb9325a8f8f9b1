"""The parts of an installation: name, location in the package and purpose of each."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from dra.cli.manifests import kustomization, package_data


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A part of an installation: a kustomization, a file, or a folder that another program reads."""

    name: str
    path: str
    """Path relative to the data of the package."""

    description: str

    @property
    def is_kustomization(self) -> bool:
        """Whether the path is a folder with a kustomization."""
        return (package_data.data_root() / self.path / "kustomization.yaml").is_file()

    @property
    def is_file(self) -> bool:
        """Whether the path is a file, which is printed as it is."""
        return (package_data.data_root() / self.path).is_file()

    def files(self) -> Iterator[str]:
        """Yield the paths of all files that the component needs."""
        if self.is_file:
            yield self.path
        elif self.is_kustomization:
            for folder in kustomization.folders(self.path):
                yield from (path for path in package_data.files_below(folder) if path.rpartition("/")[0] == folder)
        else:
            yield from package_data.files_below(self.path)


COMPONENTS: Final = (
    Component(
        name="alongside",
        path="deploy/kustomize/alongside",
        description="the controller beside the stock claim controller, on any cluster",
    ),
    Component(
        name="replace",
        path="deploy/kustomize/replace",
        description="the controller in place of the stock claim controller, which must be disabled",
    ),
    Component(
        name="reservations",
        path="deploy/reservations",
        description="Reservations, and the scheduler extender that places pods in Reservations",
    ),
    Component(
        name="reservations-yielding",
        path="deploy/reservations-yielding",
        description="Reservations for clusters whose scheduler cannot call an extender",
    ),
    Component(
        name="reservations-load-aware",
        path="deploy/reservations-load-aware",
        description="permission of the scheduler extender to read what nodes use",
    ),
    Component(
        name="descheduler",
        path="deploy/descheduler",
        description="migrations of pods without losing capacity; requires reservations",
    ),
    Component(
        name="descheduler-profiles",
        path="deploy/descheduler-profiles",
        description="permissions of a descheduler with profiles, which looks for pods to migrate by itself",
    ),
    Component(
        name="page",
        path="deploy/page",
        description="a live, read-only page for several users, who sign in with tokens",
    ),
    Component(
        name="kubelet-plugin",
        path="deploy/kubelet-plugin",
        description="the drivers for CPUs and simulated GPUs on the nodes",
    ),
    Component(
        name="kubelet-plugin-nvidia",
        path="deploy/kubelet-plugin-nvidia",
        description="the drivers for CPUs and NVIDIA's GPUs on the nodes; privileged",
    ),
    Component(
        name="kubelet-plugin-static",
        path="deploy/kubelet-plugin-static",
        description="the same drivers on nodes whose kubelet has the CPU manager policy static",
    ),
    Component(
        name="koordinator",
        path="deploy/koordinator",
        description="requests for CPUs and GPUs in Koordinator's form (Kubernetes 1.36)",
    ),
    Component(
        name="koordinator-devices",
        path="deploy/koordinator-devices",
        description="GPUs of the nodes in Koordinator's kind Device; requires a kubelet plugin",
    ),
    Component(
        name="koordinator-priority-classes",
        path="deploy/koordinator-priority-classes",
        description="Koordinator's PriorityClasses koord-prod, koord-mid, koord-batch and koord-free",
    ),
    Component(
        name="colocation",
        path="deploy/colocation",
        description="batch pods on unused CPUs and memory of nodes; its kubelet plugin has more access to the host",
    ),
    Component(
        name="colocation-profiles",
        path="deploy/colocation-profiles",
        description="ClusterColocationProfiles take effect by themselves (Kubernetes 1.36)",
    ),
    Component(
        name="claim-status",
        path="deploy/claim-status",
        description="permission to report CPUs in the status of claims; requires a kubelet plugin",
    ),
    Component(
        name="node-topology",
        path="deploy/node-topology",
        description="reserved CPUs of the nodes in the kind NodeResourceTopology; requires a kubelet plugin",
    ),
    Component(
        name="annotate-nodes",
        path="deploy/kustomize/annotate-nodes",
        description="permission to keep nodes of kept claims from autoscalers",
    ),
    Component(
        name="gate",
        path="deploy/policies/gate.yaml",
        description="a policy that adds the scheduling gate to pods, so that pods start faster (Kubernetes 1.36)",
    ),
    Component(name="crds", path="crds", description="the definitions of all kinds"),
    Component(
        name="alerts",
        path="deploy/monitoring/prometheus-rule.yaml",
        description="a PrometheusRule with the alerts, for the Prometheus operator",
    ),
    Component(
        name="dashboard",
        path="deploy/monitoring/dashboard.json",
        description="a dashboard for Grafana",
    ),
    Component(
        name="scrape",
        path="deploy/monitoring/scrape.yaml",
        description="the scrape configuration, for a Prometheus without the operator",
    ),
    Component(
        name="downgrade-checklist",
        path="deploy/downgrade-checklist.sh",
        description="a script for the way back to stock Kubernetes: runs kubectl dra downgrade",
    ),
    Component(name="chart", path="deploy/helm/dra-reserve", description="the Helm chart; only with --to"),
)


def find(name: str) -> Component | None:
    """Return the component of a name; None if there is none."""
    return next((component for component in COMPONENTS if component.name == name), None)
