"""kubectl, for what it does better than we would: reading any kubeconfig, rendering kustomizations, applying."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class KubectlError(RuntimeError):
    """kubectl is missing, or failed; the text has its own words."""


def kubectl(*arguments: str, kubeconfig: Path | str, stdin: str = "") -> str:
    """Run kubectl and return what it printed; its cache lies beside the kubeconfig and ends with it."""
    binary = shutil.which("kubectl")
    if binary is None:
        raise KubectlError("the scenarios need kubectl on PATH (https://kubernetes.io/docs/tasks/tools)")
    done = subprocess.run(
        [binary, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"KUBECONFIG": str(kubeconfig), "KUBECACHEDIR": f"{kubeconfig}.cache"},
    )
    if done.returncode:
        raise KubectlError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
