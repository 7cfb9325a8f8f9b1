"""Finds which commands are installed: how a user types them, and whether packages of an extra are missing."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path
from typing import Final

import click

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


NODE_EXTRA: Final = "node"
"""Extra with the packages that only the plugin of a node needs."""

NODE_PACKAGES: Final = ("grpcio", "nvidia-ml-py")
"""Packages of `NODE_EXTRA`; named alone, because no index has this project."""


def require_node_extra(command: str) -> None:
    """Raise click.ClickException if the command's packages are not installed."""
    if importlib.util.find_spec("grpc") is None:
        raise click.ClickException(
            f"{command}: package grpcio of extra {NODE_EXTRA} is not installed; install it with: "
            f"pip install {' '.join(NODE_PACKAGES)}"
        )
