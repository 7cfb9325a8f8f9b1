"""How our own commands are typed here: on PATH by their names, else by where they are."""

import os
import shutil
import sys
from pathlib import Path
from typing import Final

EXECUTABLES_FOLDER: Final = Path(sys.executable).parent


def dra_reserve_command() -> str:
    """Return what runs ``dra-reserve`` in this shell."""
    there = EXECUTABLES_FOLDER / "dra-reserve"
    if shutil.which("dra-reserve") or not there.exists():
        return "dra-reserve"
    return str(there.relative_to(Path.cwd())) if there.is_relative_to(Path.cwd()) else str(there)


def path_export() -> tuple[str, ...]:
    """Return the line that puts our commands on PATH; empty if they are there."""
    if shutil.which("kubectl-dra") or not (EXECUTABLES_FOLDER / "kubectl-dra").exists():
        return ()
    return (f'export PATH="{EXECUTABLES_FOLDER}{os.pathsep}$PATH"',)
