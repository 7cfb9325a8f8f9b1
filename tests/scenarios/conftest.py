"""Fixtures of the scenarios: one cluster for the whole session, a namespace and controllers for each test.

A test that takes `target` or anything built on it needs Kubernetes. It runs in both modes unless it says
``@pytest.mark.modes(Mode.REPLACE)``; pytest groups the tests by mode, so that the cluster changes over only once.
"""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import AsyncExitStack
from typing import Any, Final

import pytest

from tests import remarks
from tests.cluster import binaries, fake_nodes, kubeconfig, prerequisites
from tests.cluster.cluster import Cluster
from tests.cluster.fake_nodes import FakeNodes
from tests.cluster.node import RealNode
from tests.cluster.options import ALL_CONTROLLERS, WITHOUT_CLAIM_CONTROLLER, Options
from tests.cluster.run_folder import RunFolder
from tests.scenarios import api as kubernetes
from tests.scenarios import installation, namespaces, planes, plugin
from tests.scenarios.api import Api
from tests.scenarios.controller import INSTALLED, Controller, Settings
from tests.scenarios.features import Feature, kubernetes_version
from tests.scenarios.namespaces import Namespace
from tests.scenarios.proxy import Proxy
from tests.scenarios.resources import LEASES
from tests.scenarios.stock import StockController
from tests.scenarios.target import COMMAND, EXISTING_MODE, Capability, Mode, Place, Target, capabilities, only_mode

CONTROLLERS: Final = {Mode.REPLACE: WITHOUT_CLAIM_CONTROLLER, Mode.ALONGSIDE: ALL_CONTROLLERS}

ADMIN: Final = "admin.kubeconfig"

SOUND_NODES: Final = 3
BROKEN_NODES: Final = 1

ALONE: Final = {"leaderElection": {"enabled": False}}
"""Configuration of a controller that needs no lease: a new leader frees nothing for the first ten seconds."""

WITHOUT_NODE: Final = pytest.StashKey[tuple[int, str]]()
STARTED: Final = pytest.StashKey[list[Controller]]()
NODE: Final = pytest.StashKey[RealNode]()

StartController = Callable[..., Awaitable[Controller]]
StartProxy = Callable[..., Awaitable[Proxy]]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "modes(*modes): the modes a scenario runs in, both unless said otherwise")
    config.addinivalue_line("markers", "needs(*what): capabilities and features that not every cluster has")


def pytest_report_header() -> str | None:
    place = Place.chosen()
    if place is Place.LOCAL:
        return f"scenarios: on Kubernetes {kubernetes_version()}, started here"
    if place.api:
        return f"scenarios: on our own control plane, --api {place.api}, with kwok's nodes"
    if place is Place.EXISTING:
        return f"scenarios: on the existing cluster of KUBECONFIG={os.environ['KUBECONFIG']}, mode {EXISTING_MODE}"
    return None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "mode" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("modes")
        metafunc.parametrize("mode", marker.args if marker else tuple(Mode), indirect=True, scope="session", ids=str)


@pytest.hookimpl(tryfirst=True)  # before -m cluster is looked at
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "target" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.cluster)
    if Place.chosen() is Place.NOWHERE:
        left_out = [item for item in items if item.get_closest_marker("cluster")]
        items[:] = [item for item in items if not item.get_closest_marker("cluster")]
        config.hook.pytest_deselected(items=left_out)
        if left_out:
            remarks.remark(config, f"left out: {len(left_out)} scenarios on real Kubernetes; run them with: {COMMAND}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    wanted = {each for marker in item.iter_markers("needs") for each in marker.args}
    missing = {each for each in wanted if isinstance(each, Capability)} - capabilities(Place.chosen())
    if missing:
        pytest.skip(f"{Place.chosen()}: does not have: {', '.join(sorted(missing))}")
    if Capability.KUBELET in wanted and (lacking := prerequisites.missing()):
        why = f"no real node can run here without {'; '.join(lacking)}"
        item.config.stash[WITHOUT_NODE] = (item.config.stash.get(WITHOUT_NODE, (0, ""))[0] + 1, why)
        pytest.skip(why)
    for feature in wanted:
        if isinstance(feature, Feature) and not feature.among(version := kubernetes_version()):
            pytest.skip(f"not so in Kubernetes {version}: {feature.does}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the controllers of a failed test had to say: their logs end with the run."""
    report = yield
    if report.failed:
        started = item.stash.get(STARTED, [])
        for controller in (each for each in started if each.process.log.exists()):  # not after the cluster's end
            report.sections.append((f"log of {controller.process.name}", controller.process.tail()))
        if "real_node" in getattr(item, "fixturenames", ()) and NODE in item.config.stash:
            report.sections.append(("logs of the real node", item.config.stash[NODE].tail()))
    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    count, why = config.stash.get(WITHOUT_NODE, (0, ""))
    if count:
        terminalreporter.write_line(f"SKIPPED: {count} scenarios on a real kubelet; {why}", yellow=True, bold=True)


@pytest.fixture
def remark(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Says something that is printed at the end, whether or not the test passes."""
    return functools.partial(remarks.remark, request.config)


@pytest.fixture(scope="session")
def mode(request: pytest.FixtureRequest) -> Mode:
    return Mode(request.param)


@pytest.fixture(scope="session")
def own_cluster() -> Iterator[Cluster | None]:
    if Place.chosen() is not Place.LOCAL:
        yield None
        return
    with Cluster(Options(nodes=SOUND_NODES, broken_nodes=BROKEN_NODES)) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def visited() -> Iterator[RunFolder | None]:
    """The existing cluster or the plane of ours, with the fake nodes that it has as long as we visit it."""
    place = Place.chosen()
    if place.api is None and place is not Place.EXISTING:
        yield None
        return
    with RunFolder() as folder:
        found = planes.start(folder, api=place.api) if place.api else os.environ["KUBECONFIG"]
        admin = kubeconfig.flatten(folder.path / ADMIN, kubeconfig=str(found))
        nodes = FakeNodes(folder, binaries.build(binaries.kwok()), kubeconfig=admin)
        nodes.kwok.start()
        try:
            nodes.add(fake_nodes.names(SOUND_NODES, broken=BROKEN_NODES))
            yield folder
        finally:
            nodes.remove_all()


@pytest.fixture(scope="session")
def target(mode: Mode, own_cluster: Cluster | None, visited: RunFolder | None) -> Target:
    """The cluster in the mode of the test."""
    place = Place.chosen()
    if own_cluster is not None:
        own_cluster.run_controllers(CONTROLLERS[mode])
    elif mode is not only_mode(place):
        pytest.skip(f"{place}: is for mode {only_mode(place)}")
    folder = own_cluster.folder if own_cluster else visited
    assert folder is not None
    admin = folder.path / ADMIN
    # Helm is for clusters that are there for the tests alone.
    way = installation.Way.KUSTOMIZE if own_cluster is None else installation.way(mode)
    installation.change_over(admin, mode=mode, way=way)
    if not place.api:  # a plane of ours evaluates no policies
        installation.guard(admin)
    # A plane of ours knows one token, and keeps nobody from anything.
    installed = admin if place.api else installation.controller_kubeconfig(admin, folder.path)
    return Target(mode=mode, admin=admin, controller=installed, folder=folder, own=own_cluster)


@pytest.fixture(scope="module")
def real_node(target: Target, request: pytest.FixtureRequest) -> Iterator[RealNode]:
    """A node with a kubelet, for all tests of a module; those need `Capability.KUBELET`."""
    with RealNode(target.cluster) as node:
        request.config.stash[NODE] = node
        yield node


@pytest.fixture
async def api(target: Target) -> AsyncIterator[Api]:
    async with kubernetes.connect(target.admin) as client:
        yield client


@pytest.fixture
async def namespace(api: Api, request: pytest.FixtureRequest) -> AsyncIterator[Namespace]:
    async with namespaces.temporary(api, purpose=request.node.originalname.removeprefix("test_")) as found:
        yield found


@pytest.fixture
async def start_proxy(target: Target) -> AsyncIterator[StartProxy]:
    """Starts proxies on the controllers' way to the API server; to be asked for before `start_controller`."""
    async with AsyncExitStack() as stack:

        async def start(*, seed: int = 0) -> Proxy:
            return await stack.enter_async_context(Proxy(target.controller, admin=target.admin, seed=seed))

        yield start


@pytest.fixture
async def start_controller(
    target: Target, namespace: Namespace, request: pytest.FixtureRequest
) -> AsyncIterator[StartController]:
    """Starts controllers of this test; at its end those that still run must stop without complaint."""
    started = request.node.stash.setdefault(STARTED, [])

    async def start(
        *,
        configuration: dict[str, Any] | None = None,
        arguments: tuple[str, ...] = (),
        program: tuple[str, ...] = INSTALLED,
        via: Proxy | None = None,
        mode: Mode | None = None,
    ) -> Controller:
        name = f"{namespace.name}-{len(started)}"
        way = via.kubeconfig(target.folder.path / f"{name}.kubeconfig") if via else target.controller
        settings = Settings(
            kubeconfig=way,
            mode=mode or target.mode,
            configuration=configuration or {},
            arguments=arguments,
            program=program,
        )
        controller = Controller(target.folder, settings, name=name)
        started.append(controller)
        await controller.start()
        return controller

    yield start
    for controller in reversed(started):
        if controller.process.alive:
            await controller.stop()


@pytest.fixture
async def controller(start_controller: StartController) -> Controller:
    """One controller in its default configuration, but for the lease."""
    return await start_controller(configuration=ALONE)


@pytest.fixture
async def dra(target: Target, api: Api, namespace: Namespace) -> AsyncIterator[plugin.Run]:
    """Runs `kubectl dra COMMAND` as an administrator; at the end controllers may act again."""

    async def run(command: str, *arguments: str) -> plugin.Answer:
        here = (f"--namespace={namespace.name}",) if command == "downgrade" else ()
        return await plugin.run(target.admin, command, *here, "--output=json", *arguments)

    yield run
    if await api.find(LEASES, installation.LEASE, namespace=installation.NAMESPACE) is not None:
        goes_on = {"metadata": {"annotations": {plugin.STAND_DOWN: None}}}
        await api.patch(LEASES, installation.LEASE, goes_on, namespace=installation.NAMESPACE)


@pytest.fixture
async def stock(target: Target) -> AsyncIterator[StockController]:
    """The stock claim controller, to be switched; at the end it is as the mode of the test has it."""
    controller = StockController(target.cluster)
    yield controller
    await controller.switch(on=target.mode is Mode.ALONGSIDE)
