"""dra-reserve on a cluster of its own, for the cases that Koordinator's descheduler plays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.cluster import kubeconfig
from tests.cluster.cluster import Cluster
from tests.cluster.fake_nodes import FAKE
from tests.cluster.kubectl import kubectl
from tests.cluster.options import WITHOUT_CLAIM_CONTROLLER, Options
from tests.cluster.ports import LOOPBACK, free
from tests.cluster.probes import healthy
from tests.cluster.waiting import until
from tests.scenarios import installation
from tests.scenarios.migrations.koordinator.peer import LIMITS, NODES
from tests.scenarios.reservations.conftest import PROGRAM, over_http

if TYPE_CHECKING:
    from tests.cluster.run_folder import RunFolder

Json = dict[str, Any]

ACTING: Final = "migrating pods"
"""Words in the log of a descheduler that acts: it first waits until no write of an earlier process can arrive."""

UNSCHEDULABLE_SECONDS: Final = 6
"""Less than a case waits for; long enough for a person who makes room."""


@contextmanager
def running() -> Iterator[Path]:
    """Run a cluster with extender, controller and descheduler, and yield the administrator's kubeconfig."""
    (port,) = free(1)
    options = Options(controllers=WITHOUT_CLAIM_CONTROLLER, nodes=NODES, scheduler_configuration=over_http(port))
    with Cluster(options) as cluster:
        admin = cluster.admin_kubeconfig
        kubectl("taint", "nodes", "--all", f"{FAKE}-", kubeconfig=admin)
        installation.install(admin)
        for each in ("reservations", "descheduler"):
            installation.install(admin, kustomization=installation.DEPLOY / each)
        extender = {"serve": {"address": LOOPBACK, "port": port}}
        controller = {"mode": "replace", "reservations": True}
        descheduler = {"migration": {"unschedulableSeconds": UNSCHEDULABLE_SECONDS, **LIMITS}}
        _start(cluster.folder, "scheduler-extender", admin=admin, account="extender", configuration=extender)
        _start(cluster.folder, "controller", admin=admin, account="controller", configuration=controller)
        _start(cluster.folder, "descheduler", admin=admin, account="descheduler", configuration=descheduler)
        log = cluster.folder.path / "descheduler.log"
        until(lambda: ACTING in log.read_text(encoding="utf-8"), within=60, saying="the descheduler acts")
        yield admin


def _start(folder: RunFolder, command: str, *, admin: Path, account: str, configuration: Json) -> None:
    """Start a process with the rights that are installed."""
    (probes,) = free(1)
    shared = {
        "probes": {"address": LOOPBACK, "port": probes},
        "metrics": None,
        "leaderElection": {"enabled": False},
        "logging": {"format": "text"},
    }
    file = folder.path / f"{command}.json"
    file.write_text(json.dumps(configuration | shared), encoding="utf-8")
    own = kubeconfig.for_service_account(
        folder.path / f"{command}.kubeconfig",
        admin=admin,
        namespace=installation.NAMESPACE,
        name=f"dra-reserve-{account}",
    )
    program = [*PROGRAM, command, f"--kubeconfig={own}", f"--config={file}"]
    folder.process(command, program, ready=partial(healthy, probes, "/readyz", tls=False)).start()
