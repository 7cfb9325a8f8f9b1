"""Runs the controller as a process beside the plane: the command that users run, restarted when it ends."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from dra.cli.local.child_process import ChildProcess
from dra.cli.local.plane_folder import (
    CONTROLLER_CONFIGURATION_FILE,
    CONTROLLER_LOG_FILE,
    KUBECONFIG_FILE,
    SCRATCH_FOLDER,
    PlaneFolder,
)

DEFAULT_MODE: Final = "replace"
"""Mode of the controller, unless a user names another one: by default a plane has no stock claim controller."""

MODE_NOTES: Final[Mapping[str, str]] = {
    "replace": (
        "Any number of pods use a claim here. In mode alongside, the default on a cluster and all that a managed "
        "cluster allows, about 250 pods do at a time: --mode alongside shows it."
    ),
    "alongside": (
        "The stock claim controller runs, too, as on a managed cluster: about 250 pods use a claim at a time. "
        "--mode replace shows a cluster without it."
    ),
}
"""Mode → how many pods fit, for people who try it on a plane and then on a cluster."""

CONTROLLER_CONFIGURATION: Final[dict[str, Any]] = {
    "mode": DEFAULT_MODE,
    "koordinator": True,  # the plane translates requests in Koordinator's form, in namespaces that ask for it
    "leaderElection": {"enabled": False},  # there is one controller; after a restart it need not wait for its own lease
    "probes": {"port": 0},
    "metrics": {"port": 0},
    "logging": {"format": "text"},
}


class ControllerProcess:
    """The controller process of a plane, restarted when it ends."""

    def __init__(
        self,
        folder: PlaneFolder,
        *,
        mode: str,
        reservations: bool,
        colocation: bool,
        on_pid_change: Callable[[int | None], None],
    ) -> None:
        """Prepare the process; ``reservations`` and ``colocation`` enable these loops.

        ``on_pid_change`` is called with each new pid, and with None without one.
        """
        self._configuration = folder / CONTROLLER_CONFIGURATION_FILE
        self._settings = {
            **CONTROLLER_CONFIGURATION,
            "mode": mode,
            "reservations": reservations,
            "colocation": colocation,
        }
        self._child = ChildProcess(
            name="the controller",
            command=(
                "controller",
                f"--kubeconfig={folder / KUBECONFIG_FILE}",
                f"--config={folder / CONTROLLER_CONFIGURATION_FILE}",
            ),
            log=folder / CONTROLLER_LOG_FILE,
            scratch=folder / SCRATCH_FOLDER,
            on_pid_change=on_pid_change,
        )

    async def run(self) -> None:
        """Keep the controller running until cancelled, then stop it, by force if needed."""
        self._configuration.write_text(json.dumps(self._settings), encoding="utf-8")
        await self._child.run()


def probes_address(log: Path) -> str | None:
    """Return the address of the controller's probes from its log; None if the log has none."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    addresses = re.findall(r"probes on (http://[\d.:]+)", text)
    return addresses[-1] if addresses else None
