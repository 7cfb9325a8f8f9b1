"""A cluster whose scheduler asks our extender, and nodes without taints: manifests of users are used as they stand."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.cluster import binaries, kubeconfig
from tests.cluster.cluster import Cluster
from tests.cluster.fake_nodes import FAKE, FakeNodes
from tests.cluster.kubectl import kubectl
from tests.cluster.memory import Limited, NoCgroupError, installed, limited
from tests.cluster.options import WITHOUT_CLAIM_CONTROLLER, Options
from tests.cluster.ports import LOOPBACK, free
from tests.cluster.probes import healthy
from tests.cluster.processes import Process
from tests.cluster.run_folder import RunFolder
from tests.controller.extender.authority import SERVER, Authority
from tests.scenarios import installation, planes
from tests.scenarios.api import Api
from tests.scenarios.eventually import eventually
from tests.scenarios.resources import DISRUPTION_BUDGETS, POD_MIGRATION_JOBS, PODS, RESERVATIONS
from tests.scenarios.target import Mode, Place, Target

ADMIN: Final = "admin.kubeconfig"
NODES: Final = ("node-0", "node-1", "node-2")
DEPLOY: Final = installation.DEPLOY / "reservations"
DESCHEDULER: Final = installation.DEPLOY / "descheduler"
PROFILES: Final = installation.DEPLOY / "descheduler-profiles"
ROOT: Final = Path(__file__).parents[3]
EXAMPLES: Final = ROOT / "examples" / "reservations"
PROGRAM: Final = (str(ROOT / ".venv" / "bin" / "python"), "-m", "dra.cli.main")
"""What is installed, run from the working tree."""

SCHEDULER_FIELDS: Final = ("profiles", "percentageOfNodesToScore", "extenders")
"""What the samples of the scheduler's file say of the extender."""

RUNNING: Final = pytest.StashKey[list[Process]]()
"""The processes whose logs are shown where a test fails."""

PEAKS: Final[dict[str, Limited]] = {}
"""The memory of what runs; nothing where it cannot be limited."""


@pytest.fixture(scope="package")
def port() -> int:
    (found,) = free(1)
    return found


@pytest.fixture(scope="package")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return certified(tmp_path_factory.mktemp("certificates"))


def certified(folder: Path) -> dict[str, Path]:
    """Return files by their names in the sample."""
    authority = Authority(folder)
    shown, key = authority.sign("kube-scheduler", usage="clientAuth")
    server, server_key = authority.sign(SERVER, usage="serverAuth")
    client = {"extender-client.crt": shown, "extender-client.key": key, "extender-ca.crt": authority.certificate}
    return {**client, "tls.crt": server, "tls.key": server_key, "ca.crt": authority.certificate}


@pytest.fixture(scope="package")
def real(port: int, certificates: dict[str, Path]) -> Iterator[Cluster | None]:
    """A cluster of our own, whose scheduler's configuration names the extender."""
    if Place.chosen() is not Place.LOCAL:
        yield None
        return
    options = Options(
        controllers=WITHOUT_CLAIM_CONTROLLER,
        nodes=0,
        scheduler_configuration=over_https(port, certificates),
    )
    with Cluster(options) as cluster:
        install(cluster)
        yield cluster


def install(cluster: Cluster) -> None:
    """Add nodes without taints, and what the controller and the extender need."""
    cluster.nodes.add(list(NODES))
    kubectl("taint", "nodes", "--all", f"{FAKE}-", kubeconfig=cluster.admin_kubeconfig)
    installation.install(cluster.admin_kubeconfig)
    installation.install(cluster.admin_kubeconfig, kustomization=DEPLOY)


@pytest.fixture(scope="package")
def plane() -> Iterator[RunFolder | None]:
    """A plane of ours that plays reservations, with kwok's nodes; the extender is a part of it."""
    api = Place.chosen().api
    if api is None:
        yield None
        return
    with RunFolder() as folder:
        admin = folder.path / ADMIN
        kubeconfig.flatten(admin, kubeconfig=str(planes.start(folder, api=api, reservations=True)))
        nodes = FakeNodes(folder, binaries.build(binaries.kwok()), kubeconfig=admin)
        nodes.kwok.start()
        nodes.add(list(NODES))
        kubectl("taint", "nodes", "--all", f"{FAKE}-", kubeconfig=admin)
        yield folder


@pytest.fixture(scope="package")
def cluster(real: Cluster | None) -> Cluster:
    """The cluster with its components."""
    if real is None:
        pytest.skip("is about processes that a plane does not have: a cluster of its own")
    return real


def section(certificates: dict[str, Path]) -> dict[str, str]:
    """Return section `tls` of the extender's file."""
    files = {"certificate": "tls.crt", "key": "tls.key", "clientAuthority": "ca.crt"}
    return {field: str(certificates[name]) for field, name in files.items()}


def over_https(
    port: int, certificates: dict[str, Path], *, sample: str = "scheduler-configuration.yaml"
) -> dict[str, Any]:
    """Return a sample's, for an extender on this machine, with these files in place of those of the same name."""
    (configuration,) = yaml.safe_load_all((DEPLOY / sample).read_text())
    (extender,) = configuration["extenders"]
    extender["urlPrefix"] = f"https://{LOOPBACK}:{port}"
    files = {
        each: str(certificates[Path(extender["tlsConfig"][each]).name]) for each in ("certFile", "keyFile", "caFile")
    }
    extender["tlsConfig"] |= files
    return {name: value for name, value in configuration.items() if name in SCHEDULER_FIELDS}


def over_http(port: int) -> dict[str, Any]:
    """Return the sample's, for an extender on this machine that shows and asks for no certificate."""
    (sample,) = yaml.safe_load_all((DEPLOY / "scheduler-configuration.yaml").read_text())
    (extender,) = sample["extenders"]
    extender["urlPrefix"] = f"http://{LOOPBACK}:{port}"
    del extender["enableHTTPS"], extender["tlsConfig"]
    return {field: sample[field] for field in SCHEDULER_FIELDS}


@pytest.fixture(scope="package")
def target(real: Cluster | None, plane: RunFolder | None) -> Target:
    """The cluster as the fixtures for controllers know it."""
    if real is not None:
        admin, folder = real.admin_kubeconfig, real.folder
        installed = installation.controller_kubeconfig(admin, folder.path)
        return Target(mode=Mode.REPLACE, admin=admin, controller=installed, folder=folder, own=real)
    if plane is None:
        pytest.skip("the scheduler's configuration names the extender: a cluster of its own, or a plane")
    admin = plane.path / ADMIN
    return Target(mode=Mode.REPLACE, admin=admin, controller=admin, folder=plane, own=None)


@pytest.fixture(scope="package")
def extender(
    cluster: Cluster, port: int, certificates: dict[str, Path], request: pytest.FixtureRequest
) -> Iterator[Process]:
    """The extender, with its installed rights."""
    with extending(request, cluster, port, certificates) as process:
        yield process


@contextlib.contextmanager
def extending(
    request: pytest.FixtureRequest, cluster: Cluster, port: int, certificates: dict[str, Path], **more: Any
) -> Iterator[Process]:
    """Run the extender on a cluster whose scheduler knows it at this port; ``more``: fields of its configuration."""
    admin, folder = cluster.admin_kubeconfig, cluster.folder.path
    account = {"namespace": installation.NAMESPACE, "name": "dra-reserve-extender"}
    own = kubeconfig.for_service_account(folder / "extender.kubeconfig", admin=admin, **account)
    (probes,) = free(1)
    configuration = {
        "serve": {"address": LOOPBACK, "port": port},
        "tls": section(certificates),
        "probes": {"address": LOOPBACK, "port": probes},
        "metrics": None,
        "leaderElection": {"leaseSeconds": 15, "renewSeconds": 10, "retrySeconds": 1},
        "logging": {"format": "text"},
        **more,
    }
    yield from _running(request, cluster.folder, "extender", "scheduler-extender", own, configuration, probes=probes)


@pytest.fixture(scope="package")
def reserving(target: Target, request: pytest.FixtureRequest) -> Iterator[Process]:
    """The controller, with reservations switched on, and the extender beside it, unless the plane has it."""
    if target.own is not None:
        extender: Process = request.getfixturevalue("extender")
        assert extender.alive
    (probes,) = free(1)
    configuration = {
        "mode": "replace",
        "reservations": True,
        "probes": {"address": LOOPBACK, "port": probes},
        "metrics": None,
        "leaderElection": {"enabled": False},
        "logging": {"format": "text"},
    }
    yield from _running(
        request, target.folder, "reserving", "controller", target.controller, configuration, probes=probes
    )


@pytest.fixture(scope="package")
def descheduler_settings() -> dict[str, Any]:
    """Return section `migration` of the descheduler's file: no limit on the rate, which the tests would wait for."""
    return {"objectLimiters": {"workload": {"duration": "0s"}}, "evictQPS": 100, "evictBurst": 100}


@pytest.fixture(scope="package")
def descheduling(
    target: Target, reserving: Process, descheduler_settings: dict[str, Any], request: pytest.FixtureRequest
) -> Iterator[Process]:
    """The descheduler, with its installed rights, beside controller and extender."""
    assert reserving.alive
    with descheduler(request, target, descheduler_settings) as process:
        yield process


@contextlib.contextmanager
def descheduler(
    request: pytest.FixtureRequest,
    target: Target,
    settings: dict[str, Any],
    *,
    credentials: Path | None = None,
    packages: Path = ROOT,
    **more: Any,
) -> Iterator[Process]:
    """Run a descheduler with the given limits; ``more``: further fields of its configuration, such as profiles.

    ``credentials``: a kubeconfig; None: of the installed account. ``packages``: a folder with plugins of users.
    """
    if target.own is not None:
        installation.install(target.admin, kustomization=DESCHEDULER)
        if "profiles" in more:
            installation.install(target.admin, kustomization=PROFILES)
        account = {"namespace": installation.NAMESPACE, "name": "dra-reserve-descheduler"}
        credentials = credentials or kubeconfig.for_service_account(
            target.folder.path / "descheduler.kubeconfig", admin=target.admin, **account
        )
    (probes,) = free(1)
    configuration = {
        "migration": settings,
        "probes": {"address": LOOPBACK, "port": probes},
        "metrics": None,
        "leaderElection": {
            "leaseSeconds": 15,
            "renewSeconds": 10,
            "retrySeconds": 1,
            "enabled": target.own is not None,
        },
        "logging": {"format": "text", "level": "debug" if more else "info"},
        **more,
    }
    yield from _running(
        request,
        target.folder,
        "descheduling",
        "descheduler",
        credentials or target.admin,
        configuration,
        probes=probes,
        packages=packages,
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the extender and the controller had to say when a test failed."""
    report = yield
    if report.failed:
        for process in (each for each in item.config.stash.get(RUNNING, []) if each.log.exists()):
            report.sections.append((f"log of {process.name}", process.tail()))
    return report


def _running(
    request: pytest.FixtureRequest,
    folder: RunFolder,
    name: str,
    command: str,
    credentials: Path,
    configuration: dict[str, Any],
    *,
    probes: int,
    packages: Path = ROOT,
) -> Iterator[Process]:
    """Run a process, with the memory that it is installed with if that can be limited here."""
    file = folder.path / f"{name}.yaml"
    file.write_text(json.dumps(configuration), encoding="utf-8")
    started = [*PROGRAM, command, f"--kubeconfig={credentials}", f"--config={file}"]
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(NoCgroupError):
            memory = stack.enter_context(limited(name, mebibytes=installed(command)))
            started = memory.within(started)
            PEAKS[name] = memory
        process = folder.process(name, started, ready=partial(healthy, probes, "/readyz", tls=False))
        process.env = {**process.env, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, packages)))}
        try:
            process.start(within=40)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{process.tail()}") from error
        running = request.config.stash.setdefault(RUNNING, [])
        running.append(process)
        try:
            yield process
        finally:
            running.remove(process)
            code = process.stop()
            PEAKS.pop(name, None)
        assert code == 0, process.tail()


@pytest.fixture
async def emptied(api: Api, reserving: Process) -> AsyncIterator[Api]:
    """The API, without pods and reservations at the end."""
    assert reserving.alive
    yield api
    for each in await api.all(RESERVATIONS):
        await api.delete(RESERVATIONS, each["metadata"]["name"])
    await api.request("DELETE", "/apis/apps/v1/namespaces/default/deployments")
    await api.request("DELETE", "/apis/batch/v1/namespaces/default/jobs?propagationPolicy=Background")
    await api.delete_collection(PODS, namespace="default")

    async def gone() -> bool:
        return not await api.all(PODS, namespace="default") and not await api.all(RESERVATIONS)

    await eventually(gone, saying="nothing is left of the test")


@pytest.fixture
async def migrating(emptied: Api, descheduling: Process) -> AsyncIterator[Api]:
    """The API, without jobs and budgets at the end."""
    assert descheduling.alive
    yield emptied
    for each in await emptied.all(POD_MIGRATION_JOBS):
        await emptied.delete(POD_MIGRATION_JOBS, each["metadata"]["name"])
    await emptied.delete_collection(DISRUPTION_BUDGETS, namespace="default")
