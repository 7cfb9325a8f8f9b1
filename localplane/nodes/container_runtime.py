"""Containers as local processes instead of timers, for callers that pass `Kubelets(containers=ProcessRuntime())`.

Commands are executed as they are, without images, namespaces or limits. Use this on your own machine, with manifests
that you trust. A process gets the environment of its container and otherwise only PATH and HOME. Each process has its
own process group, so that its children end with it.

A process gets the environment of a device that a DRA plugin describes with CDI, but no device nodes, mounts or hooks,
which would need a container. As with a real container, a CDI name that no file describes keeps the process from
starting.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from dra.kube.tasks import BackgroundTasks
from dra.model.meta import Uid
from localplane.nodes import cdi
from localplane.nodes.pod_types import Container, KubeletPod

COMMAND_NOT_FOUND_EXIT_CODE: Final = 127
"""Exit code of a shell for a command that does not exist."""


class ContainerRuntime(Protocol):
    """Runs the containers of pods; a kubelet without a runtime uses timers."""

    def start(
        self, pod: KubeletPod, container: Container, on_exit: Callable[[int], None], *, devices: Sequence[str] = ()
    ) -> None:
        """Start a container with these CDI devices; raises `cdi.CdiInjectionError`.

        `on_exit` is called with the exit code later, when the container has ended.
        """
        ...

    def stop(self, uid: Uid, name: str, *, kill: bool) -> None:
        """Ask a container to end, or kill the container if `kill` is set."""
        ...

    async def run(self) -> None:
        """Watch the containers until cancelled, then end all of them."""
        ...


@dataclass(slots=True)
class _Process:
    pid: int | None = None
    stop_signal: signal.Signals | None = None


class ProcessRuntime:
    """Runs containers as child processes of this process."""

    def __init__(self, *, specs: Mapping[str, Path] | None = None) -> None:
        """Remember ``specs``, the folders with CDI files by node."""
        self._specs = specs or {}
        self._running: dict[tuple[Uid, str], _Process] = {}
        self._tasks = BackgroundTasks()

    def start(
        self, pod: KubeletPod, container: Container, on_exit: Callable[[int], None], *, devices: Sequence[str] = ()
    ) -> None:
        """Start a process for a container; raises `cdi.CdiInjectionError`."""
        key = (pod.metadata.uid, container.name)
        environment = _container_environment(pod, container)
        if devices:
            environment |= cdi.device_environment(self._specs.get(pod.spec.node_name), devices)
        running = self._run(pod, container, on_exit, environment)
        self._running[key] = _Process()
        self._tasks.start(running, name=f"container {key}")

    def stop(self, uid: Uid, name: str, *, kill: bool) -> None:
        """Send SIGTERM or SIGKILL to the process group of a container."""
        running = self._running.get((uid, name))
        if running is None:
            return
        running.stop_signal = signal.SIGKILL if kill else signal.SIGTERM
        if running.pid is not None:
            _signal_group(running.pid, running.stop_signal)

    async def run(self) -> None:
        """Raise the first error of a task that follows a process; at the end, kill all processes and wait for them."""
        try:
            await self._tasks.wait_for_failure()
        finally:
            for uid, name in tuple(self._running):
                self.stop(uid, name, kill=True)
            await self._tasks.wait_for_all()

    async def _run(
        self, pod: KubeletPod, container: Container, on_exit: Callable[[int], None], environment: Mapping[str, str]
    ) -> None:
        key = (pod.metadata.uid, container.name)
        entry = self._running[key]
        try:
            process = await asyncio.create_subprocess_exec(
                *_argv(container),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env=environment,
                cwd=container.working_dir or None,
                start_new_session=True,
            )
        except OSError:
            code = COMMAND_NOT_FOUND_EXIT_CODE
        else:
            entry.pid = process.pid
            if entry.stop_signal is not None:  # stop() was called before the process existed
                _signal_group(process.pid, entry.stop_signal)
            code = await process.wait()
            _signal_group(process.pid, signal.SIGKILL)  # children that outlived the process
        if self._running.get(key) is entry:
            del self._running[key]
        on_exit(code if code >= 0 else 128 - code)


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


def _argv(container: Container) -> list[str]:
    """Return the argv to execute; an image's own command is unknown, so the container idles like a server."""
    return [*(container.command or ()), *(container.args or ())] or ["sleep", "infinity"]


def _container_environment(pod: KubeletPod, container: Container) -> dict[str, str]:
    base = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    for variable in container.env or ():
        source = (variable.get("valueFrom") or {}).get("fieldRef") or {}
        base[variable["name"]] = variable.get("value") or _downward_api_value(pod, source.get("fieldPath", ""))
    return base


def _downward_api_value(pod: KubeletPod, path: str) -> str:
    """Return the value of a downward API field; empty for unknown fields."""
    kind, bracket, rest = path.partition("['")
    if bracket:
        values = {"metadata.annotations": pod.metadata.annotations, "metadata.labels": pod.metadata.labels}.get(kind)
        return (values or {}).get(rest.removesuffix("']"), "")
    known = {
        "metadata.name": pod.metadata.name,
        "metadata.namespace": pod.metadata.namespace,
        "metadata.uid": pod.metadata.uid,
        "spec.nodeName": pod.spec.node_name,
    }
    return known.get(path, "")
