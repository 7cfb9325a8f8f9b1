"""Our controller as a process beside the plane: the command that users run, kept running."""

import json
import re
from collections.abc import Callable
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

CONTROLLER_CONFIGURATION: Final[dict[str, Any]] = {
    "mode": "replace",  # the plane has no stock claim controller
    "leaderElection": {"enabled": False},  # there is one, and who is started again need not wait for its own lease
    "probes": {"port": 0},
    "metrics": {"port": 0},
    "logging": {"format": "text"},
}


class ControllerProcess:
    """A controller that is started again when it ends."""

    def __init__(self, folder: PlaneFolder, *, reservations: bool, started: Callable[[int | None], None]) -> None:
        """``reservations``: whether it sees to them; ``started`` is told each new pid, None when there is none."""
        self._configuration = folder / CONTROLLER_CONFIGURATION_FILE
        self._settings = {**CONTROLLER_CONFIGURATION, "reservations": reservations}
        self._child = ChildProcess(
            name="the controller",
            command=(
                "controller",
                f"--kubeconfig={folder / KUBECONFIG_FILE}",
                f"--config={folder / CONTROLLER_CONFIGURATION_FILE}",
            ),
            log=folder / CONTROLLER_LOG_FILE,
            scratch=folder / SCRATCH_FOLDER,
            started=started,
        )

    async def run(self) -> None:
        """Keep it running until cancelled; then it is stopped, if need be by force."""
        self._configuration.write_text(json.dumps(self._settings), encoding="utf-8")
        await self._child.run()


def probes_address(log: Path) -> str | None:
    """Return where the controller answers probes, as its log tells."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    found = re.findall(r"probes on (http://[\d.:]+)", text)
    return found[-1] if found else None
