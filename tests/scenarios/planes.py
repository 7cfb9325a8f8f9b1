"""Our own control plane as the cluster of the scenarios: what users run, without nodes and controller of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.cluster.run_folder import RunFolder

ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = (sys.executable, "-m", "dra.cli.main")
"""What is installed, run from the working tree."""


def start(folder: RunFolder, *, api: str, reservations: bool = False) -> Path:
    """Start a plane that ends with the folder; return its kubeconfig."""
    place = folder.path / "plane"
    found = place / "kubeconfig"
    command = [*PROGRAM, "local", "up", f"--folder={place}", f"--api={api}", "--nodes=0", "--no-controller"]
    command.append("--reservations" if reservations else "--no-reservations")
    process = folder.process("plane", command, ready=found.exists)
    process.env = {**process.env, "PYTHONPATH": str(ROOT)}
    process.start()
    return found
