"""containerd on a real node: its configuration, its images, and the containers that it runs right now."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tests.cluster import images
from tests.cluster.ports import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.cluster.enclosure import Enclosure
    from tests.cluster.processes import Process
    from tests.cluster.run_folder import RunFolder

NAMESPACE: Final = "k8s.io"
"""containerd's own kind of namespace: where its CRI keeps everything."""

SHIM: Final = "containerd-shim-runc-v2"
"""Found on PATH, by just this name: told its path, a containerd that starts anew does not find its containers."""

NESTED: Final = "nested"
"""Handler, for a RuntimeClass, of a runtime that puts each container a level deeper, as crun does below systemd."""

NESTED_LEVEL: Final = "container"
"""Name of that level, as crun calls it."""

NESTING: Final = """#!/bin/sh
last= bundle= command=
for argument; do
    [ "$last" != --bundle ] || bundle=$argument
    [ "$argument" != create ] || command=create
    last=$argument
done
if [ -n "$command" ]; then
    sed -i 's|"cgroupsPath":"\\([^"]*\\)"|"cgroupsPath":"\\1/{level}"|' "$bundle/config.json" || exit 1
fi
exec {runc} "$@"
"""
"""runc, with a changed cgroup in the bundle that it is told to create."""

CONFIGURATION: Final = """
version = 3
root = "{folder}/root"
state = "{folder}/state"
disabled_plugins = ["io.containerd.nri.v1.nri"]
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  stream_server_address = "{loopback}"
[plugins."io.containerd.cri.v1.runtime"]
  cdi_spec_dirs = ["{cdi}"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    conf_dir = "{folder}/cni"
    bin_dirs = ["{folder}/cni/bin"]
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    snapshotter = "native"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "{runc}"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{nested}]
    runtime_type = "io.containerd.runc.v2"
    snapshotter = "native"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{nested}.options]
      BinaryName = "{nesting}"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "native"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{pause}"
"""
"""Snapshots are copies: slower than overlayfs, and nothing that a kernel or a container around us could refuse."""

NETWORK: Final = {"cniVersion": "1.0.0", "name": "none", "plugins": [{"type": "loopback"}]}
"""A node without a network is not Ready. It is never set up: pods use the host's (`hostNetwork`)."""


@dataclass(frozen=True, kw_only=True)
class Container:
    """One container, or the sandbox that holds a pod together."""

    namespace: str
    pod: str
    name: str
    """Empty for the sandbox."""
    pid: int
    """Its first process, as this machine counts."""


class Containerd:
    """containerd, with the image that the scenarios' pods run."""

    def __init__(self, folder: RunFolder, enclosure: Enclosure, *, programs: Mapping[str, Path]) -> None:
        self.socket: Final = folder.path / "containerd.sock"
        self.cdi: Final = folder.path / "cdi"
        self._folder: Final = folder.path / "containerd"
        self._nesting: Final = self._folder / "bin" / "nesting-runc"
        self._enclosure: Final = enclosure
        self._programs: Final = programs
        self.process: Final[Process] = folder.process("containerd", [], ready=self._answers)

    def start(self) -> None:
        """Start it and import the images."""
        programs = self._folder / "bin"
        for each in (self._folder / "cni" / "bin", programs, self.cdi):
            each.mkdir(parents=True)
        (programs / SHIM).symlink_to(self._programs[SHIM])
        self._nesting.write_text(NESTING.format(runc=self._programs["runc"], level=NESTED_LEVEL), encoding="utf-8")
        self._nesting.chmod(0o755)
        (self._folder / "cni" / "none.conflist").write_text(json.dumps(NETWORK), encoding="utf-8")
        configuration, archive = self._folder / "config.toml", self._folder / "images.tar"
        configuration.write_text(self._configuration(), encoding="utf-8")
        images.write_archive(archive, busybox=self._programs["busybox"])
        self.process.command = self._enclosure.within(
            *("env", f"PATH={programs}:{self.process.env['PATH']}"),
            *(str(self._programs["containerd"]), f"--config={configuration}"),
        )
        self.process.start()
        done = self._ctr("images", "import", "--local", "--snapshotter=native", str(archive))
        if done.returncode:
            raise RuntimeError(f"{archive}: containerd did not import it: {done.stdout}")
        archive.unlink()

    def containers(self) -> Iterator[Container]:
        """Yield what runs now, read from the bundles that containerd has prepared for runc."""
        for bundle in (self._folder / "state" / "io.containerd.runtime.v2.task" / NAMESPACE).glob("*"):
            try:
                specification = json.loads((bundle / "config.json").read_text(encoding="utf-8"))
                pid = int((bundle / "init.pid").read_text(encoding="ascii"))
            except (FileNotFoundError, ValueError):  # about to start, or just gone
                continue
            yield _container(specification["annotations"], pid=pid)

    def _configuration(self) -> str:
        return CONFIGURATION.format(
            folder=self._folder,
            socket=self.socket,
            cdi=self.cdi,
            loopback=LOOPBACK,
            runc=self._programs["runc"],
            nested=NESTED,
            nesting=self._nesting,
            pause=images.PAUSE,
        )

    def _answers(self) -> bool:
        return self._ctr("version").returncode == 0

    def _ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(self._programs["ctr"]), f"--address={self.socket}", f"--namespace={NAMESPACE}", *arguments]
        run = partial(subprocess.run, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return run(command)


def _container(annotations: dict[str, Any], *, pid: int) -> Container:
    prefix = "io.kubernetes.cri."
    return Container(
        namespace=annotations[f"{prefix}sandbox-namespace"],
        pod=annotations[f"{prefix}sandbox-name"],
        name=annotations.get(f"{prefix}container-name", ""),
        pid=pid,
    )
