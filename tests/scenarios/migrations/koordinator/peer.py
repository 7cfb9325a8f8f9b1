"""Koordinator 1.6.0 on an unmodified control plane: its installation without pods and webhooks, and two processes.

The binaries koord-scheduler and koord-descheduler are built by hand, from a Go module that requires Koordinator and
repeats the ``replace`` lines of Koordinator's go.mod; `FOLDER` names the folder with both. The installation comes from
Koordinator's module. What differs from the installed configuration is in `scheduler_configuration` and
`descheduler_configuration`.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from tests.cluster import kubeconfig
from tests.cluster.cluster import Cluster
from tests.cluster.fake_nodes import FAKE
from tests.cluster.kubectl import kubectl
from tests.cluster.options import Component, Options
from tests.cluster.ports import LOOPBACK, free
from tests.cluster.probes import healthy

if TYPE_CHECKING:
    from tests.cluster.processes import Process
    from tests.cluster.run_folder import RunFolder

Json = dict[str, Any]

FOLDER: Final = "DRA_KOORDINATOR"
"""The environment variable that names the folder with Koordinator's binaries."""

MODULE: Final = "github.com/koordinator-sh/koordinator"
VERSION: Final = "v1.6.0"
SUM: Final = "h1:yPJ79eAfI8ND2xuGXjB7fy9tjptvCzsINYm582sIGnk="
NAMESPACE: Final = "koordinator-system"

BESIDE_PODS: Final = frozenset(
    {"Deployment", "DaemonSet", "Service", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
)
"""Kinds of the installation that need images or a network."""

NODES: Final = 3

LIMITS: Final = {"maxMigratingPerNode": 100}
"""Cases run at once, and those of one case must not wait for another's; both deschedulers have these limits."""


class NoKoordinatorError(RuntimeError):
    """Koordinator cannot run here; the text says what is missing."""


def binaries(*names: str) -> Path | None:
    """Return the folder that `FOLDER` names, if any; raises `NoKoordinatorError` if it lacks one of the binaries."""
    named = os.environ.get(FOLDER)
    if not named:
        return None
    for name in names or ("koord-scheduler", "koord-descheduler"):
        if not os.access(found := Path(named, name), os.X_OK):
            raise NoKoordinatorError(
                f"{FOLDER}={named}: no program {found}; build it from {MODULE}/cmd/{name} {VERSION}"
            )
    return Path(named)


@contextmanager
def running(programs: Path) -> Iterator[Path]:
    """Run a cluster with Koordinator's scheduler and descheduler, and yield the administrator's kubeconfig."""
    installation = manifests()
    with Cluster(Options(nodes=NODES, without=frozenset({Component.SCHEDULER}))) as cluster:
        admin, folder = cluster.admin_kubeconfig, cluster.folder
        kubectl("taint", "nodes", "--all", f"{FAKE}-", kubeconfig=admin)
        install(admin, installation)
        scheduler_port, descheduler_port = free(2)
        own = {
            name: kubeconfig.for_service_account(
                folder.path / f"{name}.kubeconfig", admin=admin, namespace=NAMESPACE, name=name
            )
            for name in ("koord-scheduler", "koord-descheduler")
        }
        descheduling = descheduler_configuration(installation, own["koord-descheduler"], port=descheduler_port)
        (folder.path / "koord-descheduler.json").write_text(json.dumps(descheduling), encoding="utf-8")
        descheduler = folder.process(
            "koord-descheduler",
            [
                str(programs / "koord-descheduler"),
                f"--config={folder.path}/koord-descheduler.json",
                *_common_flags(folder),
                "--secure-port=0",
                "--leader-elect=false",
            ],
            ready=partial(healthy, descheduler_port, "/healthz", tls=False),
        )
        descheduler.env = {**descheduler.env, "KUBECONFIG": str(own["koord-descheduler"]), "POD_NAMESPACE": NAMESPACE}
        scheduling = scheduler_configuration(installation, own["koord-scheduler"])
        for process in (scheduler(folder, programs, scheduling, port=scheduler_port), descheduler):
            process.start()
        yield admin


def install(admin: Path, installation: list[Json]) -> None:
    """Apply Koordinator's installation, namespaces and kinds first."""
    first = [each for each in installation if each["kind"] in {"Namespace", "CustomResourceDefinition"}]
    for part in (first, installation):
        text = yaml.safe_dump_all(part)
        kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", kubeconfig=admin, stdin=text)


def scheduler(folder: RunFolder, programs: Path, configuration: Json, *, port: int) -> Process:
    """Return the process of koord-scheduler, to be started; its name is that of its only profile."""
    (profile,) = configuration["profiles"]
    name = profile["schedulerName"]
    file = folder.path / f"{name}.json"
    file.write_text(json.dumps(configuration), encoding="utf-8")
    return folder.process(
        name,
        [
            str(programs / "koord-scheduler"),
            f"--config={file}",
            *_common_flags(folder),
            f"--secure-port={port}",
            "--port=0",  # else it listens on 10251 of all addresses
            "--authentication-skip-lookup=true",
            "--authorization-always-allow-paths=*",
        ],
        ready=partial(healthy, port, "/healthz"),
    )


def _common_flags(folder: RunFolder) -> list[str]:
    return [f"--bind-address={LOOPBACK}", f"--cert-dir={folder.path}"]


def manifests() -> list[Json]:
    """Return Koordinator's installation (config/default of its module) without what runs in pods and its webhooks."""
    command = ["go", "mod", "download", "-json", f"{MODULE}@{VERSION}"]
    with tempfile.TemporaryDirectory() as outside:  # of any module, or its requirements would be looked at
        done = subprocess.run(command, cwd=outside, capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout or "{}")
    if done.returncode:
        raise NoKoordinatorError(f"{MODULE}: {answer.get('Error') or done.stderr.strip()}")
    if answer["Sum"] != SUM:
        raise NoKoordinatorError(f"{MODULE}: sum {answer['Sum']}, not {SUM}")
    rendered = kubectl("kustomize", f"{answer['Dir']}/config/default", kubeconfig=os.devnull)
    return [each for each in yaml.safe_load_all(rendered) if each["kind"] not in BESIDE_PODS]


def scheduler_configuration(installation: list[Json], credentials: Path) -> Json:
    """Return the installed configuration of koord-scheduler without a Lease.

    Version 1.6.0 leaves plugin Reservation out of the extension point reserve. As a consequence, owner pods reach the
    node of their Reservation without using it.
    """
    found = _configuration(installation, "koord-scheduler-config")
    (profile,) = found["profiles"]
    profile["plugins"]["reserve"]["enabled"].insert(0, {"name": "Reservation"})
    return found | {
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(credentials), "qps": 50, "burst": 100},
        "percentageOfNodesToScore": 100,
    }


def descheduler_configuration(installation: list[Json], credentials: Path, *, port: int) -> Json:
    """Return the installed configuration of koord-descheduler without plugins that choose pods, and with `LIMITS`."""
    found = _configuration(installation, "koord-descheduler-config")
    (profile,) = found["profiles"]
    profile["plugins"] |= {each: {"disabled": [{"name": "*"}]} for each in ("deschedule", "balance")}
    (args,) = (each["args"] for each in profile["pluginConfig"] if each["name"] == "MigrationController")
    args |= LIMITS
    return found | {
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(credentials), "qps": 50, "burst": 100},
        "healthzBindAddress": f"{LOOPBACK}:{port}",
        "metricsBindAddress": f"{LOOPBACK}:{port}",
    }


def _configuration(installation: list[Json], key: str) -> Json:
    (text,) = (each["data"][key] for each in installation if each["kind"] == "ConfigMap" and key in each["data"])
    found: Json = yaml.safe_load(text)
    return found
