"""kubectl, for what it does better than we would: merging kubeconfig files, rendering kustomizations, applying."""

from __future__ import annotations

import os
import shutil
import subprocess


class KubectlError(RuntimeError):
    """kubectl is missing, or failed; the text has its own words."""


def kubectl(*arguments: str, kubeconfig: str, stdin: str = "") -> str:
    """Run kubectl and return what it printed."""
    binary = shutil.which("kubectl")
    if binary is None:
        raise KubectlError("the scenarios need kubectl on PATH (https://kubernetes.io/docs/tasks/tools)")
    done = subprocess.run(
        [binary, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"KUBECONFIG": kubeconfig},
    )
    if done.returncode:
        raise KubectlError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
