"""Helm, built here like the other programs, on our own chart; it knows nobody's plugins, repositories and settings."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import yaml

from tests.cluster import binaries

CHART: Final = Path(__file__).resolve().parents[2] / "deploy" / "helm" / "dra-reserve"

Json = dict[str, Any]


class HelmError(RuntimeError):
    """Helm refused; the text has its own words."""


def helm(*arguments: str, kubeconfig: Path | None = None, stdin: str = "") -> str:
    """Run Helm and return what it printed; without a kubeconfig it reaches no cluster."""
    binary = binaries.build(binaries.helm())
    with tempfile.TemporaryDirectory(prefix="dra-helm-") as folder:
        homes = {f"HELM_{name}_HOME": f"{folder}/{name.lower()}" for name in ("CACHE", "CONFIG", "DATA")}
        done = subprocess.run(
            [str(binary), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | homes | {"KUBECONFIG": str(kubeconfig or f"{folder}/none")},
        )
    if done.returncode:
        raise HelmError(f"helm {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def rendered(values: Json, *, release: str = "dra-reserve", namespace: str = "dra-reserve") -> list[Json]:
    """Return the objects that the chart makes of some values."""
    shown = helm(
        "template", release, str(CHART), f"--namespace={namespace}", "--values=-", stdin=yaml.safe_dump(values)
    )
    return [obj for obj in yaml.load_all(shown, yaml.CSafeLoader) if obj]
