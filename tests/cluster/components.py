"""The command lines of the components: flags only, nothing is started here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.cluster.ports import LOOPBACK, free

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.cluster.options import Options


@dataclass(frozen=True, kw_only=True)
class Ports:
    """One port for each server of the cluster; all different, kept over restarts."""

    etcd: int
    etcd_peers: int
    apiserver: int
    controller_manager: int
    scheduler: int

    @classmethod
    def choose(cls) -> Ports:
        """Take ports that are free now."""
        etcd, etcd_peers, apiserver, controller_manager, scheduler = free(5)
        return cls(
            etcd=etcd,
            etcd_peers=etcd_peers,
            apiserver=apiserver,
            controller_manager=controller_manager,
            scheduler=scheduler,
        )


@dataclass(frozen=True, kw_only=True)
class CommandLines:
    """Writes the command line of each component of one cluster."""

    binary: Path
    folder: Path
    ports: Ports
    options: Options
    scheduler_name: str = "scheduler"
    """What the files of kube-scheduler are called, in case there is more than one."""

    @property
    def certificates(self) -> Path:
        """The certificate of the API server; it is its own authority and valid for 127.0.0.1."""
        return self.folder / "apiserver" / "apiserver.crt"

    @property
    def service_account_key(self) -> Path:
        """Signs service account tokens: the API server and the controller manager share it."""
        return self.folder / "service-accounts.key"

    @property
    def tokens(self) -> Path:
        """The bearer tokens of the people and components of this cluster."""
        return self.folder / "tokens.csv"

    def kubeconfig(self, user: str) -> Path:
        """Return the kubeconfig of `user`."""
        return self.folder / f"{user}.kubeconfig"

    def etcd(self) -> list[str]:
        """Return etcd's command line. No fsync: the data lives as long as the process."""
        clients, peers = f"http://{LOOPBACK}:{self.ports.etcd}", f"http://{LOOPBACK}:{self.ports.etcd_peers}"
        return [
            *(str(self.binary), "etcd"),
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",
            "--log-level=warn",
            *self.options.etcd_flags,
        ]

    def apiserver(self) -> list[str]:
        """Return kube-apiserver's command line: authorization as on real clusters, so that our RBAC is tested too."""
        return [
            *(str(self.binary), "apiserver"),
            f"--etcd-servers=http://{LOOPBACK}:{self.ports.etcd}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self.ports.apiserver}",
            f"--cert-dir={self.certificates.parent}",
            f"--token-auth-file={self.tokens}",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",  # as every installer has it: node agents need it
            "--enable-admission-plugins=NodeRestriction",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.service_account_key}",
            f"--service-account-signing-key-file={self.service_account_key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--endpoint-reconciler-type=none",
            *self._feature_gates(),
            *self.options.apiserver_flags,
        ]

    def controller_manager(self, controllers: str) -> list[str]:
        """Return kube-controller-manager's command line, with the given list of controllers."""
        limits = self.options.controller_limits
        return [
            *(str(self.binary), "controller-manager"),
            f"--kubeconfig={self.kubeconfig('controller-manager')}",
            *self._as_server("controller-manager", self.ports.controller_manager),
            "--leader-elect=false",
            "--use-service-account-credentials",
            f"--service-account-private-key-file={self.service_account_key}",
            f"--controllers={controllers}",
            f"--kube-api-qps={limits.qps}",
            f"--kube-api-burst={limits.burst}",
            # As far above the lease as upstream's defaults are: 50 s and 40 s.
            f"--node-monitor-grace-period={self.options.node_lease_seconds * 5 // 4}s",
            *self._feature_gates(),
        ]

    def scheduler(self) -> list[str]:
        """Return kube-scheduler's command line."""
        return [
            *(str(self.binary), "scheduler"),
            f"--config={self.scheduler_configuration}",
            *self._as_server(self.scheduler_name, self.ports.scheduler),
            *self._feature_gates(),
        ]

    @property
    def scheduler_configuration(self) -> Path:
        """Where `write_scheduler_configuration` writes."""
        return self.folder / f"{self.scheduler_name}.json"

    def write_scheduler_configuration(self) -> None:
        """Write KubeSchedulerConfiguration; only the client's limits have no flag, yet a file replaces the flags."""
        limits = self.options.scheduler_limits
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {
                "kubeconfig": str(self.kubeconfig("scheduler")),
                "qps": limits.qps,
                "burst": limits.burst,
            },
            **self.options.scheduler_configuration,
        }
        self.scheduler_configuration.write_text(json.dumps(configuration), encoding="utf-8")

    def _as_server(self, name: str, port: int) -> list[str]:
        return [
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            f"--cert-dir={self.folder / name}",
            # Instead of asking the API server who may read them, for which it would need a client CA.
            "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics",
        ]

    def _feature_gates(self) -> list[str]:
        gates: Mapping[str, bool] = self.options.feature_gates
        return [f"--feature-gates={name}={str(enabled).lower()}" for name, enabled in gates.items()]


REAL_NODES: Final = ("real-0", "real-1")
"""The nodes that a kubelet may be started for: tokens cannot be added later."""

USERS: Final = {
    "admin": ("admin", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "kwok": ("kwok", "system:masters"),
    **{name: (f"system:node:{name}", "system:nodes") for name in REAL_NODES},
}
"""Who gets a token and a kubeconfig: the user and the group they are. The components have exactly upstream's rights."""
