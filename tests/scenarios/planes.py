"""Our own control plane as the cluster of the scenarios: what users run, without nodes and controller of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.cluster.run_folder import RunFolder

PROGRAM: Final = (sys.executable, "-m", "dra.cli.main")
"""What is installed, run from the working tree."""


def start(folder: RunFolder, *, api: str) -> Path:
    """Start a plane that ends with the folder; return its kubeconfig."""
    place = folder.path / "plane"
    found = place / "kubeconfig"
    command = [*PROGRAM, "local", "up", f"--folder={place}", f"--api={api}", "--nodes=0", "--no-controller"]
    folder.process("plane", command, ready=found.exists).start()
    return found
