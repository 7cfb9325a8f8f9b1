"""The two builds, and a cluster for processes of both: a local plane, or with DRA_CLUSTER=local a real Kubernetes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from tests.cluster.cluster import Cluster
from tests.cluster.fake_nodes import FAKE
from tests.cluster.options import WITHOUT_CLAIM_CONTROLLER, Options
from tests.cluster.ports import LOOPBACK, free
from tests.cluster.run_folder import RunFolder
from tests.older_build import builds, plane
from tests.older_build.builds import ROOT, Build, NoHistoryError
from tests.older_build.parts import Place
from tests.scenarios import api as kubernetes
from tests.scenarios import namespaces, target
from tests.scenarios.api import Api, ApiError
from tests.scenarios.namespaces import Namespace
from tests.scenarios.reservations.conftest import over_http
from tests.scenarios.resources import NODES

OWN_NAMESPACE = "dra-reserve"
"""The namespace of the leases."""
LOG_TAIL = 30
"""Lines of each log that a failure shows."""
REAL_NODES = ("node-1", "node-2", "node-3")


def pytest_configure(config: pytest.Config) -> None:
    for name in ("needs", "modes"):
        config.addinivalue_line("markers", f"{name}(*what): of scenarios, whose steps are used here")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the processes of both builds had to say when a test failed."""
    report = yield
    arguments = getattr(item, "funcargs", {})
    if report.failed and (home := arguments.get("place") or arguments.get("node")):
        for log in sorted(home.folder.path.glob("*.log")):
            report.sections.append((log.name, "\n".join(log.read_text(errors="replace").splitlines()[-LOG_TAIL:])))
    return report


@pytest.fixture(scope="session")
def older(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """The build of DRA_OLDER; where the clone lacks the default one (a shallow clone), its tests are skipped."""
    try:
        found = builds.older(tmp_path_factory.mktemp("older"))
    except NoHistoryError as error:
        if os.environ.get(builds.VARIABLE):
            raise
        pytest.skip(str(error))
    assert found.imported() == {str(found.tree)}, "another build would be tested"
    return found


@pytest.fixture(scope="session")
def newer() -> Build:
    """The build of this tree."""
    assert builds.THIS.imported() == {str(builds.ROOT)}, "another build would be tested"
    return builds.THIS


@pytest.fixture(scope="module")
def place(older: Build) -> Iterator[Place]:
    """A cluster whose scheduler calls an extender over HTTP; it has the CRDs of this build, as the upgrade wants it."""
    assert older.tree.is_dir()
    (port,) = free(1)
    with ExitStack() as stack:
        if target.Place.chosen() is target.Place.LOCAL:
            options = Options(controllers=WITHOUT_CLAIM_CONTROLLER, nodes=0, scheduler_configuration=over_http(port))
            cluster = stack.enter_context(Cluster(options))
            cluster.nodes.add(list(REAL_NODES))
            yield Place(folder=cluster.folder, admin=cluster.admin_kubeconfig, extender_port=port, translates=False)
            return
        folder = stack.enter_context(RunFolder())
        state = folder.path / "plane"
        state.mkdir()
        command = [sys.executable, "-P", "-m", plane.__name__, str(state), f"http://{LOOPBACK}:{port}"]
        process = folder.process("plane", command, ready=(state / plane.READY).exists)
        process.env = {**process.env, "PYTHONPATH": str(ROOT)}
        process.start()
        admin = as_json(state / "kubeconfig", folder.path / "admin.kubeconfig")
        yield Place(folder=folder, admin=admin, extender_port=port, translates=True)


def as_json(kubeconfig: Path, path: Path) -> Path:
    """Write a kubeconfig as the clients of the scenarios read it."""
    path.touch(mode=0o600)
    path.write_text(json.dumps(yaml.safe_load(kubeconfig.read_text())))
    return path


@pytest.fixture
async def api(place: Place) -> AsyncIterator[Api]:
    """A client of the cluster, which has the CRDs, the namespace of the leases, and nodes that take every pod."""
    async with kubernetes.connect(place.admin) as client:
        wanted = [yaml.safe_load(file.read_text()) for file in sorted((ROOT / "crds").glob("*.scheduling.*.yaml"))]
        for each in ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN_NAMESPACE}}, *wanted):
            try:
                await client.create(each)
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
        for node in await client.all(NODES):
            anybody = {"metadata": {"labels": {FAKE: "true"}}, "spec": {"taints": None}}
            await client.patch(NODES, node["metadata"]["name"], anybody)
        yield client


@pytest.fixture
async def namespace(api: Api, request: pytest.FixtureRequest) -> AsyncIterator[Namespace]:
    """A namespace for the objects of the test."""
    async with namespaces.temporary(api, purpose=request.node.originalname.removeprefix("test_")) as found:
        yield found
