"""A real Kubernetes control plane on loopback ports: ready when `start` returns, gone without trace after `stop`."""

from __future__ import annotations

import secrets
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from tests.cluster import binaries, fake_nodes, keys, kubeconfig
from tests.cluster.components import USERS, CommandLines, Ports
from tests.cluster.fake_nodes import FakeNodes
from tests.cluster.options import Component, Options
from tests.cluster.ports import LOOPBACK, free
from tests.cluster.probes import healthy
from tests.cluster.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from tests.cluster.processes import Process

GRACE: Final = 2.0
"""Seconds a component gets to end. The API server would wait for its watchers; what counts is in etcd already."""


class Cluster:
    """One control plane and its nodes; each component is a `Process` that can be stopped, started, frozen, thawed."""

    def __init__(self, options: Options = Options()) -> None:  # noqa: B008 frozen
        program = binaries.controlplane(options.kubernetes)
        controlplane, kwok = binaries.build(program), binaries.build(binaries.kwok())
        self.kubernetes: Final = program.version
        self.controllers = options.controllers
        self.folder: Final = RunFolder()
        self._options: Final = options
        self._tokens: Final = {user: secrets.token_hex(16) for user in USERS}
        self._commands: Final = CommandLines(
            binary=controlplane, folder=self.folder.path, ports=Ports.choose(), options=options
        )

        commands, ports = self._commands, self._commands.ports
        process = partial(self.folder.process, grace=GRACE)
        self.etcd: Final[Process] = process(
            "etcd", commands.etcd(), ready=lambda: healthy(ports.etcd, "/health", tls=False)
        )
        self.apiserver: Final[Process] = process(
            "apiserver", commands.apiserver(), ready=lambda: healthy(ports.apiserver, "/readyz")
        )
        self.controller_manager: Final[Process] = process(
            "controller-manager",
            commands.controller_manager(options.controllers),
            ready=lambda: healthy(ports.controller_manager, "/healthz"),
        )
        self.scheduler: Final[Process] = process(
            "scheduler", commands.scheduler(), ready=lambda: healthy(ports.scheduler, "/readyz")
        )
        self.nodes: Final = FakeNodes(
            self.folder, kwok, kubeconfig=commands.kubeconfig("kwok"), lease_seconds=options.node_lease_seconds
        )
        self.kwok: Final = self.nodes.kwok

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return f"https://{LOOPBACK}:{self._commands.ports.apiserver}"

    @property
    def admin_kubeconfig(self) -> Path:
        """The kubeconfig of a member of system:masters."""
        return self._commands.kubeconfig("admin")

    @property
    def ports(self) -> Ports:
        """The port of each server."""
        return self._commands.ports

    @property
    def feature_gates(self) -> Mapping[str, bool]:
        """The feature gates of every component."""
        return self._options.feature_gates

    def kubeconfig(self, user: str) -> Path:
        """Return the kubeconfig of one of `components.USERS`."""
        return self._commands.kubeconfig(user)

    def start(self) -> None:
        """Start every component and wait until pods can be scheduled; on failure nothing is left."""
        try:
            self._commands.write_scheduler_configuration()
            self.start_apiserver()
            left_out = self._options.without
            rest = [self.controller_manager]
            rest += [self.scheduler] if Component.SCHEDULER not in left_out else []
            rest += [self.kwok] if Component.NODES not in left_out else []
            for process in rest:
                process.spawn()
            for process in rest:
                process.wait_ready()
            if Component.NODES not in left_out:
                self.nodes.add(fake_nodes.names(self._options.nodes, broken=self._options.broken_nodes))
        except BaseException:
            self.stop()
            raise

    def start_apiserver(self) -> None:
        """Start the API server alone, for those who want nothing but its answers."""
        self._write_credentials()
        self.etcd.start()
        self.apiserver.start()
        self._write_kubeconfigs()  # only now: they contain the certificate that it has just made

    def stop(self) -> None:
        """Stop every component and remove the folder."""
        self.folder.close()

    def run_controllers(self, controllers: str) -> None:
        """Restart the controller manager with another list of controllers, unless it has that list already."""
        if controllers != self.controllers:
            self.controllers = controllers
            binary, *_ = self.controller_manager.command  # another version may have taken its place
            _, *rest = self._commands.controller_manager(controllers)
            self.controller_manager.command = [binary, *rest]
            self.controller_manager.restart()

    def exchange(self, *components: Process, kubernetes: str) -> None:
        """Stop components one by one, each time starting the one of another Kubernetes in its place.

        Data, ports, certificates and flags stay as they are.
        """
        binary = str(binaries.build(binaries.controlplane(kubernetes)))
        for component in components:
            component.command = [binary, *component.command[1:]]
            component.restart()

    def another_scheduler(self, name: str, *, kubernetes: str | None = None) -> Process:
        """Return one more kube-scheduler, not started yet, for the pods that name it in `schedulerName`."""
        program = binaries.controlplane(self.kubernetes if kubernetes is None else kubernetes)
        profiles = {"profiles": [{"schedulerName": name}]}
        (port,) = free(1)
        commands = replace(
            self._commands,
            binary=binaries.build(program),
            ports=replace(self._commands.ports, scheduler=port),
            options=replace(self._options, scheduler_configuration=profiles),
            scheduler_name=name,
        )
        commands.write_scheduler_configuration()
        return self.folder.process(name, commands.scheduler(), ready=lambda: healthy(port, "/readyz"), grace=GRACE)

    def _write_credentials(self) -> None:
        keys.write_key(self._commands.service_account_key)
        keys.write_certificate(self._commands.certificates)
        lines = [f'{self._tokens[name]},{user},{name},"{group}"\n' for name, (user, group) in USERS.items()]
        self._commands.tokens.touch(mode=0o600)
        self._commands.tokens.write_text("".join(lines), encoding="utf-8")

    def _write_kubeconfigs(self) -> None:
        for user, token in self._tokens.items():
            kubeconfig.write(
                self._commands.kubeconfig(user),
                server=self.server,
                certificates=self._commands.certificates,
                token=token,
            )
