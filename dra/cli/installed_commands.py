"""Finds how a user types the installed commands: by name where PATH has them, else by path."""

import os
import shutil
import sys
from pathlib import Path
from typing import Final

EXECUTABLES_FOLDER: Final = Path(sys.executable).parent


def dra_reserve_command() -> str:
    """Return the command that runs ``dra-reserve`` in this shell."""
    installed = EXECUTABLES_FOLDER / "dra-reserve"
    if shutil.which("dra-reserve") or not installed.exists():
        return "dra-reserve"
    return str(installed.relative_to(Path.cwd())) if installed.is_relative_to(Path.cwd()) else str(installed)


def path_export() -> tuple[str, ...]:
    """Return the line that adds the installed commands to PATH; empty if PATH has them."""
    if shutil.which("kubectl-dra") or not (EXECUTABLES_FOLDER / "kubectl-dra").exists():
        return ()
    return (f'export PATH="{EXECUTABLES_FOLDER}{os.pathsep}$PATH"',)
