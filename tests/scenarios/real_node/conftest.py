"""Fixtures of the plugin's scenarios: one node for all of them, and plugins that leave it as they found it."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from typing import Any, Final

import pytest

from tests.cluster.node import RealNode
from tests.scenarios import installation, namespaces, objects
from tests.scenarios.api import Api
from tests.scenarios.conftest import NODE
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.real_node import cpus
from tests.scenarios.real_node.plugin import Plugin, cdi_files
from tests.scenarios.target import Target

PLUGINS: Final = pytest.StashKey[list[Plugin]]()

StartPlugin = Callable[..., Awaitable[Plugin]]

CLEAN_WITHIN: Final = 45.0
"""Seconds from the deletion of a scenario's pods to a node without them: the kubelet looks every ten."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the plugins of a failed test had to say."""
    report = yield
    if report.failed:
        for plugin in (each for each in item.stash.get(PLUGINS, []) if each.process.log.exists()):
            report.sections.append((f"log of {plugin.process.name}", plugin.process.tail()))
    return report


@pytest.fixture(scope="package")
def real_node(target: Target, request: pytest.FixtureRequest) -> Iterator[RealNode]:
    """A node with a kubelet, for all scenarios of this folder."""
    with RealNode(target.cluster) as node:
        request.config.stash[NODE] = node
        yield node


@pytest.fixture(scope="session")
def plugin_installed(target: Target) -> None:
    """What deploy/kubelet-plugin installs, but for the DaemonSet."""
    installation.install(target.admin, kustomization=installation.PLUGIN_KUSTOMIZATION)


@pytest.fixture
async def start_plugin(
    real_node: RealNode, target: Target, plugin_installed: None, request: pytest.FixtureRequest
) -> AsyncIterator[StartPlugin]:
    """Starts plugins; after the test, and its namespace, nothing may be left on the node of what they prepared."""
    del plugin_installed
    plugins: list[Plugin] = []
    account = installation.plugin_kubeconfig(target.admin, real_node.folder.path, node=real_node.name)

    async def start(**settings: Any) -> Plugin:
        plugin = Plugin(real_node, kubeconfig=account, **settings)
        plugins.append(plugin)
        request.node.stash.setdefault(PLUGINS, []).append(plugin)
        await plugin.start()
        return plugin

    yield start
    running = [each for each in plugins if each.process.alive]
    try:
        assert running, "a scenario leaves a plugin running: pods could not end otherwise"
        await eventually(
            lambda: (cdi_files(real_node), running[0].prepared()),
            until=lambda left: left == (set(), set()),
            within=CLEAN_WITHIN,
            saying="with its last pod, nothing is left of what was prepared",
        )
        for each in running:
            each.stop()
    finally:
        for each in plugins:
            each.process.stop()
            each.forget()
        if not real_node.kubelet.alive:  # a scenario that stopped the kubelet failed; the next ones need one
            real_node.start_kubelet()


@pytest.fixture
async def namespace(start_plugin: StartPlugin, api: Api, request: pytest.FixtureRequest) -> AsyncIterator[Namespace]:
    """As everywhere, but it ends before the plugins do: they are needed to end its pods."""
    del start_plugin
    async with namespaces.temporary(api, purpose=request.node.originalname.removeprefix("test_")) as found:
        yield found


@pytest.fixture
async def plugin(start_plugin: StartPlugin) -> Plugin:
    """One plugin with one GPU."""
    return await start_plugin()


@pytest.fixture
async def start_cpus(real_node: RealNode, request: pytest.FixtureRequest) -> AsyncIterator[cpus.StartCpus]:
    """Makes plugins with the CPU driver; they end after the namespace."""
    plugins: list[cpus.CpuPlugin] = []

    def make(instance: str, **settings: Any) -> cpus.CpuPlugin:
        plugins.append(cpus.CpuPlugin(real_node, instance, **settings))
        request.node.stash.setdefault(PLUGINS, []).append(plugins[-1])
        return plugins[-1]

    yield make
    for each in plugins:
        each.process.stop()
    shutil.rmtree(real_node.plugins / cpus.DRIVER, ignore_errors=True)
    for file in (*real_node.cdi.glob(f"{cpus.DRIVER}*"), *real_node.plugins_registry.glob(f"{cpus.DRIVER}*")):
        file.unlink(missing_ok=True)


@pytest.fixture
async def cpu_namespace(
    start_cpus: cpus.StartCpus, api: Api, request: pytest.FixtureRequest
) -> AsyncIterator[Namespace]:
    """A namespace with a class of CPUs; it ends before the plugins do."""
    del start_cpus
    async with namespaces.temporary(api, purpose=request.node.originalname.removeprefix("test_")[:40]) as found:
        await found.create(objects.device_class(cpus.device_class(found), driver=cpus.DRIVER))
        yield found


@pytest.fixture
def kubelet_again(real_node: RealNode) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Starts the kubelet with a configuration and a new state of its CPU manager; in the end with its usual ones."""

    def again(configuration: dict[str, Any]) -> None:
        real_node.stop_kubelet()
        (real_node.plugins.parent / cpus.STATE).unlink()
        real_node.reconfigure(configuration)
        real_node.start_kubelet()

    yield again
    again({})
