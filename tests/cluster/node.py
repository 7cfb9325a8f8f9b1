"""A real node: an unmodified kubelet and containerd as children of the test run, for pods that really run.

A scenario asks for the fixture and for pods that go there (`objects.ON_REAL_NODE`), and says what it needs:

    @pytest.mark.needs(Capability.KUBELET)
    async def test_the_shell_runs(real_node: RealNode, namespace: Namespace) -> None:
        shape = PodShape(spec=objects.ON_REAL_NODE, script="echo $0; env", claim="shared")
        await namespace.create(objects.pod("talker", shape))
        await steps.pod_is(namespace, "talker", finished, saying="it has run")
        assert "sh" in real_node.output(namespace.name, "talker")

What a plugin is started with: `plugins` and `plugins_registry` (sockets), `cdi` (CDI files, which containerd reads),
`kubeconfig` (the node's own identity). They exist from the start on. What can be done to the node: `restart_kubelet`,
`stop_kubelet` and `start_kubelet`, `kill_sandbox`, `wipe_cdi`, `containerd.process.restart()`. What can be seen:
`output`, `containers` (with the pids of their first processes, so /proc tells the rest), `tail` of its logs.

What takes its time: a pod that the kubelet meets in the moment in which a plugin registers is refused (`DRA driver …
is not registered`) and tried again after ten seconds, so allow half a minute; deleted with a grace period of 0, as
these pods are, a pod's object goes at once, and its processes and NodeUnprepareResources follow; a kubelet that starts
anew deletes the node's ResourceSlices.

Alone, without pytest: ``with Cluster(Options(nodes=0)) as cluster, RealNode(cluster) as node: …``. It has a run folder
of its own, so it can end before its cluster does; then its processes, containers, mounts and cgroups end, and its Node.
The kubelet is system:node:NAME in system:nodes, held to its own objects by the Node authorizer and NodeRestriction.

From the bottom up: ``prerequisites`` says whether it can run here, ``enclosure`` keeps its mounts from the machine,
``images`` makes what pods run, ``runtime`` is containerd, ``kubelet`` writes the configuration, ``keeper`` tidies up.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from tests.cluster import binaries, keeper, prerequisites
from tests.cluster.components import REAL_NODES
from tests.cluster.enclosure import Enclosure
from tests.cluster.kubectl import kubectl
from tests.cluster.kubelet import REAL, Kubelet
from tests.cluster.ports import free
from tests.cluster.probes import healthy
from tests.cluster.run_folder import RunFolder
from tests.cluster.runtime import Containerd
from tests.cluster.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    from tests.cluster.cluster import Cluster
    from tests.cluster.processes import Process
    from tests.cluster.runtime import Container

GRACE: Final = 5.0

READY_WITHIN: Final = 90.0
"""Seconds from the kubelet's start to a node that takes pods: 5 to 15 when the machine has nothing else to do."""


class RealNodeUnavailableError(RuntimeError):
    """This machine lacks something that a real node needs; the text says what."""


class RealNode:
    """One kubelet with its containerd, on a cluster of ours; ready when `start` returns, gone after `stop`."""

    def __init__(
        self, cluster: Cluster, name: str = REAL_NODES[0], *, configuration: Mapping[str, Any] | None = None
    ) -> None:
        """`configuration`: fields of KubeletConfiguration that are to be other than in `tests.cluster.kubelet`."""
        runc, busybox = prerequisites.runc(), prerequisites.busybox()
        lacking = prerequisites.missing()
        if runc is None or busybox is None or lacking:
            raise RealNodeUnavailableError(f"node {name}: cannot run here without {'; '.join(lacking)}")
        kubelet = binaries.build(binaries.controlplane(cluster.kubernetes))
        programs = {name: binaries.build(program) for name, program in binaries.containerd().items()}
        self.name: Final = name
        self.folder: Final = RunFolder()
        self._admin: Final = cluster.admin_kubeconfig
        self._enclosure: Final = Enclosure(self.folder)
        self.containerd: Final = Containerd(
            self.folder, self._enclosure, programs=programs | {"runc": runc, "busybox": busybox}
        )
        (port,) = free(1)
        self._settings = Kubelet(
            binary=kubelet,
            node=name,
            folder=self.folder.path,
            kubeconfig=cluster.kubeconfig(name),
            runtime=self.containerd.socket,
            cgroup=f"/{keeper.cgroup_of(self.folder.path)}",
            health_port=port,
            feature_gates=cluster.feature_gates,
            configuration=configuration or {},
        )
        ready = partial(healthy, port, "/healthz", tls=False)
        self.kubelet: Final[Process] = self.folder.process("kubelet", [], ready=ready, grace=GRACE)

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
    def kubeconfig(self) -> Path:
        """The kubeconfig of the node itself, which its kubelet uses."""
        return self._settings.kubeconfig

    @property
    def plugins(self) -> Path:
        """The folder for the sockets that plugins serve the kubelet on."""
        return self._settings.root / "plugins"

    @property
    def plugins_registry(self) -> Path:
        """The folder in which the kubelet looks for plugins' registration sockets."""
        return self._settings.root / "plugins_registry"

    @property
    def cdi(self) -> Path:
        """The one folder from which containerd reads CDI files."""
        return self.containerd.cdi

    def start(self) -> None:
        """Start everything and wait until pods can run here; on failure nothing is left."""
        try:
            keeper.make_cgroup(self.folder.path)
            self._enclosure.start()
            self.containerd.start()
            for folder in (self.plugins, self.plugins_registry, self._settings.logs):
                folder.mkdir(mode=0o750, parents=True)  # as the kubelet would make them, before it does
            self._settings.write_configuration()
            self.kubelet.command = self._enclosure.within(*self._settings.command())
            self.start_kubelet()
        except BaseException as error:
            error.add_note(self.tail())  # the logs end with the folder
            self.stop()
            raise

    def stop(self) -> None:
        """End the node with everything on it, and take it from the cluster."""
        self.folder.close()
        kubectl("delete", "node", self.name, "--ignore-not-found", "--wait=false", kubeconfig=self._admin)

    def start_kubelet(self) -> None:
        """Start the kubelet and wait until the node is Ready."""
        self.kubelet.start()
        until(self._usable, within=READY_WITHIN, saying=f"node {self.name} is ready (log: {self.kubelet.log})")

    def stop_kubelet(self) -> None:
        """Stop the kubelet; containers run on, as they do on real nodes."""
        self.kubelet.stop()

    def restart_kubelet(self) -> None:
        """Stop and start the kubelet, as an upgrade does; containers run on."""
        self.stop_kubelet()
        self.start_kubelet()

    def reconfigure(self, configuration: Mapping[str, Any]) -> None:
        """Write other fields of KubeletConfiguration, which count from the kubelet's next start."""
        self._settings = replace(self._settings, configuration=configuration)
        self._settings.write_configuration()
        self.kubelet.command = self._enclosure.within(*self._settings.command())

    def exchange_kubelet(self, *, kubernetes: str) -> None:
        """Stop the kubelet and start the one of another Kubernetes in its place; containers run on."""
        self.stop_kubelet()
        binary = binaries.build(binaries.controlplane(kubernetes))
        self._settings = replace(self._settings, binary=binary)
        self.kubelet.command = self._enclosure.within(*self._settings.command())
        self.start_kubelet()

    def containers(self, namespace: str, pod: str) -> list[Container]:
        """Return the containers of a pod that run now, by name; its sandbox has none and comes first."""
        found = (each for each in self.containerd.containers() if (each.namespace, each.pod) == (namespace, pod))
        return sorted(found, key=lambda each: each.name)

    def kill_sandbox(self, namespace: str, pod: str) -> None:
        """Kill the process that holds a pod's sandbox: the kubelet has to make the pod a new one."""
        pids = [each.pid for each in self.containers(namespace, pod) if not each.name]
        if not pids:
            raise LookupError(f"pod {namespace}/{pod}: has no sandbox on node {self.name}")
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def within(self, *command: str) -> Sequence[str]:
        """Return the command line that runs a program where the kubelet and containerd are: it sees their mounts."""
        return self._enclosure.within(*command)

    def limit_space(self, folder: Path, *, size: int) -> Path:
        """Put a file system of so many bytes in the place of a folder, for those within; return where we see it."""
        options = f"size={size},mode=700"
        subprocess.run(self.within("mount", "-t", "tmpfs", "-o", options, "small", str(folder)), check=True)
        return Path(f"/proc/{self._enclosure.keeper.pid}/root{folder}")

    def lift_limit(self, folder: Path) -> None:
        """Take that file system away; what is in it is lost."""
        subprocess.run(self.within("umount", "--lazy", str(folder)), check=True)

    def wipe_cdi(self) -> None:
        """Remove all CDI files, as a reboot does: their folder is usually in memory."""
        for entry in self.cdi.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def output(self, namespace: str, pod: str, container: str = "main") -> str:
        """Return what a container of a pod has written so far, over all its restarts; empty before it starts."""
        return "".join(_written(file.read_text(encoding="utf-8")) for file in self._logs(namespace, pod, container))

    @contextmanager
    def outlasting_output(self, namespace: str, pod: str, container: str = "main") -> Iterator[Callable[[], str]]:
        """Yield a reader of what a running container writes, to its last line: the logs go with their pod."""
        with ExitStack() as stack:
            files = [stack.enter_context(file.open(encoding="utf-8")) for file in self._logs(namespace, pod, container)]

            def read() -> str:
                for file in files:
                    file.seek(0)
                return "".join(_written(file.read()) for file in files)

            yield read

    def tail(self) -> str:
        """Return the last lines of the kubelet's and containerd's logs."""
        existing = (each for each in (self.kubelet, self.containerd.process) if each.log.exists())
        return "\n".join(f"{each.name}:\n{each.tail()}" for each in existing)

    def _logs(self, namespace: str, pod: str, container: str) -> list[Path]:
        files = self._settings.logs.glob(f"{namespace}_{pod}_*/{container}/*.log")
        return sorted(files, key=lambda file: int(file.stem))

    def _usable(self) -> bool:
        self.kubelet.raise_if_dead()
        listing = kubectl(
            *("get", "nodes", f"--field-selector=metadata.name={self.name}", "--output=json"), kubeconfig=self._admin
        )
        return any(map(_ready, json.loads(listing)["items"]))


def _ready(node: dict) -> bool:
    conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and [each["key"] for each in node["spec"].get("taints", [])] == [REAL]


def _written(log: str) -> str:
    """Return what was written, out of the runtime's log: lines of TIME STREAM P|F TEXT, P when the line goes on."""
    text = []
    for line in log.split("\n")[:-1]:  # the last one is empty, or still being written
        _time, _stream, ends, content = line.split(" ", 3)
        text.append(content if ends == "P" else f"{content}\n")
    return "".join(text)
