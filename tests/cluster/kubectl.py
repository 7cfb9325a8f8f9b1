"""kubectl, for what it does better than we would: reading any kubeconfig, rendering kustomizations, applying."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path


_NO_CONDITIONS: Final = ".status.conditions accessor error"


class KubectlError(RuntimeError):
    """kubectl is missing, or failed; the text has its own words."""


def kubectl(*arguments: str, kubeconfig: Path | str, stdin: str = "") -> str:
    """Run kubectl and return what it printed; its cache lies beside the kubeconfig and ends with it."""
    binary = shutil.which("kubectl")
    if binary is None:
        raise KubectlError("the scenarios need kubectl on PATH (https://kubernetes.io/docs/tasks/tools)")
    deadline = time.monotonic() + 30.0
    while True:
        done = subprocess.run(
            [binary, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"KUBECONFIG": str(kubeconfig), "KUBECACHEDIR": f"{kubeconfig}.cache"},
        )
        # `kubectl wait` gives up on an object that has no conditions yet, such as a definition applied just before.
        if not done.returncode or _NO_CONDITIONS not in done.stderr or time.monotonic() > deadline:
            break
    if done.returncode:
        raise KubectlError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
