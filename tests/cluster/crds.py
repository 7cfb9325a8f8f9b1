"""Finds CRDs as their projects publish them: in Go modules, pinned by ``crds/go.mod`` and ``crds/go.sum``.

The module proxy that this project reaches refuses the modules of some projects. Their CRDs are read from the folder
that DRA_CRDS names, for instance from a clone, and are known by their digests. CRDs are never copied into this tree.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from tests.cluster import binaries

MODULES: Final = Path(__file__).resolve().with_name("crds")

FOLDER: Final = "DRA_CRDS"
"""The environment variable that names the folder with CRDs of projects whose modules cannot be downloaded."""

PATIENCE: Final = 300.0
"""Seconds for the download of one module: the largest has 18 MB."""


class NotAvailableError(RuntimeError):
    """A release cannot be had on this machine; the text says why, and what makes it available."""


class ChangedError(RuntimeError):
    """A release has other content than the one that was tried."""


class Release(Protocol):
    """CRDs of one release of a project."""

    @property
    def name(self) -> str:
        """The name of the project and the version, such as jobset-v0.12.0."""

    def manifests(self) -> list[Path]:
        """Return the files of the CRDs; raises `NotAvailableError` or `ChangedError`."""


@dataclass(frozen=True, kw_only=True)
class ModuleRelease:
    """CRDs in a Go module that crds/go.mod requires."""

    project: str
    module: str
    folder: str
    files: tuple[str, ...]

    @property
    def version(self) -> str:
        """The version in go.mod, such as v0.12.0."""
        required = (MODULES / "go.mod").read_text(encoding="utf-8")
        found = re.search(rf"^\s*{re.escape(self.module)} (v\S+)", required, re.MULTILINE)
        if found is None:
            raise ChangedError(f"{MODULES / 'go.mod'}: does not require {self.module}")
        return found[1]

    @property
    def name(self) -> str:
        """The name of the project and the version."""
        return f"{self.project}-{self.version}"

    def manifests(self) -> list[Path]:
        """Return the files in the module cache of Go, which downloads the module if the cache lacks it."""
        content = _downloaded(self.module) / self.folder
        return [content / file for file in self.files]


@dataclass(frozen=True, kw_only=True)
class FolderRelease:
    """CRDs of a project whose Go module cannot be downloaded, by the names and the SHA-256 digests of their files."""

    project: str
    version: str
    digests: Mapping[str, str]

    @property
    def name(self) -> str:
        """The name of the project and the version."""
        return f"{self.project}-{self.version}"

    def manifests(self) -> list[Path]:
        """Return the files in the folder that DRA_CRDS names."""
        folder = os.environ.get(FOLDER)
        if not folder:
            first, *more = self.digests
            files = f"{first} and {len(more)} more" if more else first
            raise NotAvailableError(f"its Go module cannot be downloaded, and {FOLDER} names no folder with {files}")
        found = [Path(folder, file) for file in self.digests]
        for path in found:
            if not path.exists():
                raise NotAvailableError(f"{FOLDER}: no {path}")
            if hashlib.sha256(path.read_bytes()).hexdigest() != self.digests[path.name]:
                raise ChangedError(f"{path}: is not the file of {self.project} {self.version}")
        return found


JOBSET: Final = ModuleRelease(
    project="jobset",
    module="sigs.k8s.io/jobset",
    folder="config/components/crd/bases",
    files=("jobset.x-k8s.io_jobsets.yaml",),
)
TRAINER: Final = ModuleRelease(
    project="trainer",
    module="github.com/kubeflow/trainer/v2",
    folder="manifests/base/crds",
    files=("trainer.kubeflow.org_trainjobs.yaml",),
)
TRAINING_OPERATOR: Final = ModuleRelease(
    project="training-operator",
    module="github.com/kubeflow/training-operator",
    folder="manifests/base/crds",
    files=tuple(f"kubeflow.org_{each}jobs.yaml" for each in ("pytorch", "tf", "mpi", "xgboost", "paddle")),
)
KUEUE: Final = ModuleRelease(
    project="kueue",
    module="sigs.k8s.io/kueue",
    folder="config/components/crd/bases",
    files=("kueue.x-k8s.io_workloads.yaml",),
)
KUBERAY: Final = FolderRelease(
    project="kuberay",
    version="v1.7.0",
    digests={
        "ray.io_rayjobs.yaml": "01a5cf3b17c1769fda44af7e82debcd98722f0c27b9ab84d084681c6649121f5",
        "ray.io_rayclusters.yaml": "c44704442eef0c6721ad40c1d66782c8bd3fdab9d3344306a5820910a679baa1",
    },
)
LWS: Final = FolderRelease(
    project="lws",
    version="v0.10.0",
    digests={
        "leaderworkerset.x-k8s.io_leaderworkersets.yaml": (
            "c5dcad8ed943e495490241f00b9a1b45d51203b6d484020db3636d5bf553568e"
        )
    },
)
VOLCANO: Final = FolderRelease(
    project="volcano",
    version="v1.15.1",
    digests={"batch.volcano.sh_jobs.yaml": "a03feedc265bc8c9d71240063a37e0e818fa70fcad7b8a113b0875dc53fffa90"},
)
NEXT_TRAINING_OPERATOR: Final = FolderRelease(
    project="training-operator",
    version="v1.9.0",
    digests={
        "kubeflow.org_pytorchjobs.yaml": "eb80e57a984cdc7ceefaaf3fc561e21b673c30cbb58589f2389528d2b2760d22",
        "kubeflow.org_tfjobs.yaml": "1fea6d2d9d3fec4697db322d4490be67b0d616478f42566e4c48ae865130a8c8",
        "kubeflow.org_mpijobs.yaml": "477375d6759b1e173f3ac546ce8ee59ee3491ccb71cfa1df85243c29640870bf",
        "kubeflow.org_xgboostjobs.yaml": "5c46ef4e2926edef53f8eb4c55020c5ad0f12933a3cd155a915708a27c3a755f",
        "kubeflow.org_paddlejobs.yaml": "a0c2371ec289519c027b3b82fa4e85f943f869d5a3c1858e90dacdd1fcd6adc0",
        "kubeflow.org_jaxjobs.yaml": "ab74b76f0041b611201daef8afeef5080a6e84ef8269ffe95242dda7b19e0f88",
    },
)
"""The first release with JAXJobs, and the first whose jobs can name a claim."""

RELEASES: Final[tuple[Release, ...]] = (
    JOBSET,
    TRAINER,
    TRAINING_OPERATOR,
    KUEUE,
    KUBERAY,
    LWS,
    VOLCANO,
    NEXT_TRAINING_OPERATOR,
)


def _downloaded(module: str) -> Path:
    """Return the folder of a required module in the module cache, whose sum Go has compared with go.sum."""
    go = shutil.which("go")
    if go is None:
        raise NotAvailableError(f"{module} is downloaded by Go (https://go.dev/dl); there is no go on PATH")
    command = [go, "mod", "download", "-json", module]
    environment = binaries.go_environment()
    try:
        done = subprocess.run(
            command, cwd=MODULES, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        raise NotAvailableError(f"{module}: no download within {PATIENCE:g} s") from None
    answer = json.loads(done.stdout or "{}")
    if done.returncode == 0:
        return Path(answer["Dir"])
    error: str = answer.get("Error") or done.stderr.strip()
    if "checksum mismatch" in error:
        raise ChangedError(f"{module}: {error}")
    raise NotAvailableError(f"{module}: {error}")
