"""Adds migrations to a plane: the descheduler of real clusters, in the plane's process.

The code is the same, with its own connection to the server (component ``descheduler``), so that faults can cut off or
crash the descheduler.
"""

import logging
from typing import Final

from controller.migration.application import Descheduler
from dra.api.descheduler.configuration import DeschedulerProcessConfiguration
from dra.kube.client import WRITE_TIMEOUT
from dra.kube.store import ServerRestoredError
from localplane.plane.local_plane import LocalPlane
from localplane.transport import LocalTransport

DESCHEDULER_COMPONENT: Final = "descheduler"

DESCHEDULER_CONFIGURATION: Final = DeschedulerProcessConfiguration.model_validate(
    {"leaderElection": {"enabled": False, "namespace": "kube-system"}, "probes": None, "metrics": None}
)

_log: Final = logging.getLogger(__name__)


def on_plane(configuration: DeschedulerProcessConfiguration) -> DeschedulerProcessConfiguration:
    """Return a configuration as a plane runs it: there is one descheduler, and it opens no ports."""
    return configuration.model_copy(
        update={
            "leader_election": DESCHEDULER_CONFIGURATION.leader_election,
            "probes": None,
            "metrics": None,
        }
    )


def add_descheduler(
    plane: LocalPlane, configuration: DeschedulerProcessConfiguration = DESCHEDULER_CONFIGURATION
) -> None:
    """Add a descheduler to a plane, before the plane runs; the component of the extender applies the CRDs."""
    runs = 0
    configuration = on_plane(configuration)

    async def run() -> None:
        nonlocal runs
        while True:
            quiet = WRITE_TIMEOUT if runs else 0.0  # a write of an earlier run may still be under way
            runs += 1
            descheduler = Descheduler(
                configuration,
                LocalTransport(plane.handler_for(DESCHEDULER_COMPONENT)),
                clock=plane.clock,
                previous_writes_seconds=quiet,
            )
            try:
                await descheduler.run()
            except* ServerRestoredError as errors:
                _log.warning("%s", errors.exceptions[0])

    plane.add_component(DESCHEDULER_COMPONENT, run)
