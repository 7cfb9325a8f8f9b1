"""The kubelet's command line and configuration: of a node that is Ready without a network and evicts nobody."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.cluster.ports import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

REAL: Final = "scenario.dra/real"
"""Label and taint of every real node: no pods go there but those that ask for it, and they go nowhere else."""

MAX_PODS: Final = 400


@dataclass(frozen=True, kw_only=True)
class Kubelet:
    """Writes what one kubelet is started with."""

    binary: Path
    node: str
    folder: Path
    """Where its files go; `root` is below it."""
    kubeconfig: Path
    runtime: Path
    """The socket of containerd."""
    cgroup: str
    """Below it are the cgroups of all pods; it must exist."""
    health_port: int
    feature_gates: Mapping[str, bool]
    configuration: Mapping[str, Any] = field(default_factory=dict)
    """More fields of KubeletConfiguration, or others than ours."""

    @property
    def root(self) -> Path:
        """Its --root-dir, with the folders of plugins and their sockets."""
        return self.folder / "kubelet"

    @property
    def logs(self) -> Path:
        """Where the output of containers is: NAMESPACE_POD_UID/CONTAINER/RESTARTS.log."""
        return self.folder / "pods"

    def command(self) -> tuple[str, ...]:
        """Return its command line; its configuration must have been written."""
        return (
            *(str(self.binary), "kubelet"),
            f"--config={self._file}",
            f"--kubeconfig={self.kubeconfig}",
            f"--root-dir={self.root}",
            f"--cert-dir={self.folder / 'certificates'}",
            f"--hostname-override={self.node}",
            f"--node-ip={LOOPBACK}",
            f"--node-labels={REAL}=true",
            "--v=2",
        )

    def write_configuration(self) -> None:
        """Write KubeletConfiguration."""
        self._file.write_text(json.dumps(self._configuration()), encoding="utf-8")

    @property
    def _file(self) -> Path:
        return self.folder / "kubelet.json"

    def _configuration(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": f"unix://{self.runtime}",
            "registerWithTaints": [{"key": REAL, "value": "true", "effect": "NoSchedule"}],
            "featureGates": dict(self.feature_gates),
            # Who is asked for exec and logs would need a certificate authority; nobody asks, and root shells on a port
            # of the machine are nothing to leave open meanwhile.
            "enableServer": False,
            "healthzBindAddress": LOOPBACK,
            "healthzPort": self.health_port,
            "cgroupRoot": self.cgroup,
            "cgroupDriver": "cgroupfs",
            "failCgroupV1": False,
            "failSwapOn": False,
            "enforceNodeAllocatable": [],
            "evictionHard": {},
            "imageGCHighThresholdPercent": 100,
            "localStorageCapacityIsolation": False,
            "makeIPTablesUtilChains": False,
            "maxPods": MAX_PODS,
            "podLogsDir": str(self.logs),
            "volumePluginDir": str(self.folder / "volume-plugins"),
            # A kubelet's defaults are for clusters of thousands: events are what the scenarios look at.
            "eventRecordQPS": 0,
            "kubeAPIQPS": 200,
            "kubeAPIBurst": 400,
            "syncFrequency": "10s",
            **self.configuration,
        }
