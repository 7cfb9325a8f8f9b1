"""Builds the programs of the test cluster from their committed Go modules, when they are missing or out of date.

    python -m tests.cluster.binaries [VERSION]
                    exit code 0: there; 1: the build failed; 2: no such version; 3: no Go, or too old

Each folder is a Go module and gives executables in .build/bin, named after the program and the version: one from
``allocator``, ``descheduler``, ``controlplane``, ``kwok``, ``helm``, ``registry``, ``actionlint`` and ``prometheus``,
two from ``krew``, three from ``containerd``. The version is that in go.mod; older ones of Kubernetes have module files
of their own beside it: ``kubernetes-1.35.mod``. Without a VERSION it is `DEFAULT`, which need not be the one of
go.mod. Next to the executable is the digest of what it was made from; while that matches, nothing is built, no Go is
needed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cluster import go_build
from tests.cluster.versions import numbers

HERE: Final = Path(__file__).resolve().parent
OUTPUT: Final = HERE.parents[1] / ".build" / "bin"

EXIT_FAILED: Final = 1
EXIT_UNKNOWN: Final = 2
EXIT_NO_GO: Final = 3

CHOICE: Final = "DRA_KUBERNETES"
"""The environment variable that says which Kubernetes; not set or empty, it is `DEFAULT`."""

DEFAULT: Final = "1.37"
"""The newest Kubernetes that all scenarios have passed on. CI builds no other one."""

CONTROLPLANE: Final = HERE / "controlplane"

ALLOCATORS: Final = {"1.37": ("go.mod", ("kubernetes_1_37",)), "1.38": ("kubernetes-1.38.mod", ())}
"""Version of Kubernetes → module file and build tags of its allocator; that of 1.38 needs GOTOOLCHAIN=go1.27.3."""


class BuildFailedError(RuntimeError):
    """Go said no; its own words are above."""


class UnknownVersionError(RuntimeError):
    """No module file says how to build that version."""


class NoGoError(RuntimeError):
    """There is no Go that can build this."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """One executable and the folder of the Go module that it is built from."""

    folder: Path
    module: str
    """The required module whose version the executable has."""
    package: str = "."
    modules: str = "go.mod"
    """The module file in the folder; its checksums lie beside it."""
    name: str = ""
    """What the executable is called, if not like the folder."""
    tags: tuple[str, ...] = ()
    """Build tags: what to leave out."""
    stamp: str = ""
    """The Go package with gitVersion, gitMajor and gitMinor: kubectl refuses a server without them."""

    @property
    def version(self) -> str:
        """The version of the upstream module, e.g. v1.36.3."""
        return self._in_go_mod(rf"^(?:require)?\s*{re.escape(self.module)} (v\S+)")

    @property
    def path(self) -> Path:
        """Where the executable is, or will be."""
        return OUTPUT / f"{self.name or self.folder.name}-{self.version}"

    @property
    def go(self) -> str:
        """The oldest Go that builds it, e.g. 1.26.0."""
        return self._in_go_mod(r"^go (\S+)")

    @property
    def flags(self) -> tuple[str, ...]:
        """What `go build` is given beside the output."""
        linker = ["-s", "-w"]
        if self.stamp:
            major, minor, *_ = self.version.removeprefix("v").split(".")
            values = {"gitVersion": self.version, "gitMajor": major, "gitMinor": minor}
            linker += [f"-X {self.stamp}.{name}={value}" for name, value in values.items()]
        tags = (f"-tags={','.join(self.tags)}",) if self.tags else ()
        return (f"-modfile={self.modules}", *tags, "-ldflags", " ".join(linker))

    def digest(self) -> str:
        """Return the digest of everything that decides what the executable is.

        The names of the module files are left out: a version that is not the newest any more is not built again.
        """
        _, *flags = self.flags
        digest = hashlib.sha256(repr((self.package, ("-modfile=go.mod", *flags))).encode())
        modules = self.folder / self.modules
        sources = {source.name: source for source in self.folder.glob("*.go")}
        sources |= {"go.mod": modules, "go.sum": modules.with_suffix(".sum")}
        for name, source in sorted(sources.items()):
            digest.update(name.encode() + b"\0" + source.read_bytes() + b"\0")
        return digest.hexdigest()

    def _in_go_mod(self, pattern: str) -> str:
        file = self.folder / self.modules
        found = re.search(pattern, file.read_text(encoding="utf-8"), re.MULTILINE)
        if found is None:
            raise BuildFailedError(f"{file}: nothing matches {pattern}")
        return found[1]


def controlplanes() -> list[Program]:
    """Return the control planes that can be built, the newest Kubernetes first."""
    programs = [
        Program(
            folder=CONTROLPLANE,
            modules=file.name,
            module="k8s.io/kubernetes",
            stamp="k8s.io/component-base/version",
        )
        for file in CONTROLPLANE.glob("*.mod")
    ]
    return sorted(programs, key=lambda program: numbers(program.version), reverse=True)


def controlplane(version: str | None = None) -> Program:
    """Return the control plane of a Kubernetes version, such as 1.35 or 1.35.4; by default the one of CHOICE."""
    wanted = (os.environ.get(CHOICE) or DEFAULT) if version is None else version
    known = controlplanes()
    for program in known:
        if numbers(program.version)[: len(numbers(wanted))] == numbers(wanted):
            return program
    there = ", ".join(program.version.removeprefix("v") for program in known)
    raise UnknownVersionError(f"Kubernetes {wanted}: not among the versions of {CONTROLPLANE}: {there}")


def kube_scheduler() -> Program:
    """Return kube-scheduler 1.38 alone, whose other components cannot be built yet: modules of them are not served."""
    stamp = "k8s.io/component-base/version"
    return Program(folder=HERE / "scheduler", module="k8s.io/kubernetes", name="kube-scheduler", stamp=stamp)


def kwok() -> Program:
    """Return kwok, which plays the nodes."""
    return Program(folder=HERE / "kwok", module="sigs.k8s.io/kwok", package="sigs.k8s.io/kwok/cmd/kwok")


def allocator(version: str = DEFAULT) -> Program:
    """Return kube-scheduler's allocator of devices, which answers questions about it: `make allocator`.

    Raises UnknownVersionError for a version that is not among `ALLOCATORS`.
    """
    if version not in ALLOCATORS:
        raise UnknownVersionError(f"the allocator of Kubernetes {version}: not among {', '.join(ALLOCATORS)}")
    modules, tags = ALLOCATORS[version]
    return Program(folder=HERE / "allocator", module="k8s.io/dynamic-resource-allocation", modules=modules, tags=tags)


def descheduler_plugins() -> Program:
    """Return the plugins of the community's descheduler, which answer questions about them: `make descheduler-peer`."""
    return Program(folder=HERE / "descheduler", module="sigs.k8s.io/descheduler", name="descheduler-plugins")


def descheduler() -> Program:
    """Return the community's descheduler itself, which evicts from a cluster: `make descheduler-peer-cluster`."""
    module = "sigs.k8s.io/descheduler"
    return Program(folder=HERE / "descheduler", module=module, package=f"{module}/cmd/descheduler")


def low_node_load() -> Program:
    """Return koord-descheduler's plugin LowNodeLoad, which answers questions about it: `make low-node-load`."""
    return Program(folder=HERE / "low_node_load", module="github.com/koordinator-sh/koordinator")


def plugin_peer() -> Program:
    """Return the least that a DRA driver on the official Go helper does: `make bench-plugin ARGS=--peer`."""
    return Program(folder=HERE / "plugin_peer", module="k8s.io/dynamic-resource-allocation")


def helm() -> Program:
    """Return Helm, which renders and installs the chart."""
    return Program(folder=HERE / "helm", module="helm.sh/helm/v4", package="helm.sh/helm/v4/cmd/helm")


def registry() -> Program:
    """Return a registry of images and charts, to which the chart of a release is pushed."""
    return Program(folder=HERE / "registry", module="github.com/distribution/distribution/v3")


def actionlint() -> Program:
    """Return the checker of GitHub workflows."""
    module = "github.com/rhysd/actionlint"
    return Program(folder=HERE / "actionlint", module=module, package=f"{module}/cmd/actionlint")


def krew() -> Program:
    """Return krew, which installs kubectl dra from its archive."""
    return _of_krew("krew")


def krew_validator() -> Program:
    """Return the program with which the krew index checks manifests."""
    return _of_krew("validate-krew-manifest")


def _of_krew(name: str) -> Program:
    module = "sigs.k8s.io/krew"
    return Program(folder=HERE / "krew", module=module, package=f"{module}/cmd/{name}", name=name)


def promtool() -> Program:
    """Return Prometheus' tool, which evaluates alerts on samples; built for `make alerts` and `make prometheus`."""
    return _of_prometheus("promtool")


def prometheus() -> Program:
    """Return Prometheus without its pages, and finding targets in Kubernetes alone; for `make prometheus`."""
    return _of_prometheus("prometheus", tags=("remove_all_sd", "enable_kubernetes_sd"))


def _of_prometheus(name: str, *, tags: tuple[str, ...] = ()) -> Program:
    module = "github.com/prometheus/prometheus"
    return Program(folder=HERE / "prometheus", module=module, package=f"{module}/cmd/{name}", name=name, tags=tags)


def containerd() -> dict[str, Program]:
    """Return containerd, its shim and its client `ctr`, by name; without the file systems that need C."""
    return {
        name: Program(
            folder=HERE / "containerd",
            module="github.com/containerd/containerd/v2",
            package=f"github.com/containerd/containerd/v2/cmd/{name}",
            name=name,
            tags=("no_btrfs", "no_devmapper", "no_zfs"),
        )
        for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    }


def go_environment() -> dict[str, str]:
    """Return the environment of the go command: it fetches another toolchain only if GOTOOLCHAIN says so.

    Otherwise it is to say what is missing, rather than to fetch a toolchain behind the developer's back.
    """
    return {"GOTOOLCHAIN": "local", **os.environ}


def build(program: Program) -> Path:
    """Return the executable, building it first unless it is there and current; one process builds at a time."""
    if _current(program):  # no wait for another process that builds something else for minutes
        return program.path
    OUTPUT.mkdir(parents=True, exist_ok=True)
    with (OUTPUT / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _current(program):
            _compile(program)
    return program.path


def _current(program: Program) -> bool:
    recorded = _record(program)
    return program.path.exists() and recorded.exists() and recorded.read_text(encoding="ascii") == program.digest()


def _compile(program: Program) -> None:
    go = _find_go(program)
    sys.stderr.write(f"building {program.path.name}: seconds with a warm Go cache, up to half an hour without\n")
    unfinished = program.path.with_name(f"{program.path.name}.new")
    arguments = (*program.flags, program.package)
    environment = go_environment() | {"CGO_ENABLED": "0"}
    if not go_build.run(go, *arguments, folder=program.folder, environment=environment, output=unfinished):
        raise BuildFailedError(f"{program.folder}: {go} build {' '.join(arguments)} failed")
    _record(program).unlink(missing_ok=True)
    unfinished.replace(program.path)
    _record(program).write_text(program.digest(), encoding="ascii")


def _record(program: Program) -> Path:
    return program.path.with_name(f"{program.path.name}.sha256")


def _find_go(program: Program) -> str:
    wanted = f"{program.path.name} is built with Go {program.go} or newer (https://go.dev/dl)"
    go = shutil.which("go")
    if go is None:
        raise NoGoError(f"{wanted}; there is no go on PATH")
    answer = subprocess.run([go, "env", "GOVERSION"], env=go_environment(), capture_output=True, text=True, check=False)
    if answer.returncode:
        raise NoGoError(f"{wanted}; {go}: {answer.stderr.strip()}")
    present = answer.stdout.strip()
    if numbers(present) < numbers(program.go):
        raise NoGoError(f"{wanted}; {go} is {present}, and GOTOOLCHAIN=go{program.go} makes it fetch that one")
    return go


def main(*version: str) -> int:
    """Build everything, say where it is."""
    try:
        for program in (controlplane(*version), kwok(), helm(), *containerd().values()):
            sys.stdout.write(f"{build(program)}\n")
    except UnknownVersionError as error:
        sys.stderr.write(f"error: {error}\n")
        return EXIT_UNKNOWN
    except NoGoError as error:
        sys.stderr.write(f"error: {error}\n")
        return EXIT_NO_GO
    except BuildFailedError as error:
        sys.stderr.write(f"error: {error}\n")
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
