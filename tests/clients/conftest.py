"""Sessions with kubectl on the local plane, compared with what the same sessions were on a real API server.

Recorded with: ``DRA_CLUSTER=local pytest tests/clients/test_kubectl.py --record``. With ``DRA_CLUSTER=local``
alone, the real server is compared with its own recordings.
"""

import asyncio
import difflib
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from dra.kube.client import Client
from dra.kube.clock import SYSTEM
from dra.kube.rate_limiter import RateLimiter
from dra.kube.resources import NAMESPACES, SERVICE_ACCOUNTS
from dra.model.meta import PartialObjectMetadata
from localplane.controller_manager.garbage_collector.collector import GarbageCollector
from localplane.controller_manager.informer import Informer
from localplane.controller_manager.namespace_controller import NamespaceController
from localplane.https_server import serve_https
from localplane.schemas.builtin_schemas import Dialect
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.clients.kubectl import BINARY, Kubectl
from tests.cluster.cluster import Cluster
from tests.cluster.options import Component, Options
from tests.scenarios.target import Place

RECORDED = Path(__file__).with_name("recorded")
CONTROLLERS = "namespace-controller,garbage-collector-controller,serviceaccount-controller"
"""Nothing that would write what the sessions write themselves."""


PENDING = {
    "test_get_managed_fields": "managed fields are kept from the first server-side apply on, not from the beginning",
}
"""Sessions in which the local plane says something else, and why."""


def pytest_addoption(parser):
    parser.addoption("--record", action="store_true", help="write down what kubectl says to the real API server")


@pytest.fixture(scope="session")
def real():
    """The kubeconfig of a real cluster, if there shall be one."""
    if Place.chosen() is not Place.LOCAL:
        yield None
        return
    without = frozenset({Component.SCHEDULER, Component.NODES})
    with Cluster(Options(controllers=CONTROLLERS, without=without, nodes=0)) as cluster:
        yield cluster.admin_kubeconfig


@asynccontextmanager
async def local_plane(folder):
    """Serve an API server with the controllers of garbage and of namespaces."""
    server = ApiServer(api=Dialect.STOCK)
    client = Client(LocalTransport(server), RateLimiter(1e6, 1_000_000, clock=SYSTEM), clock=SYSTEM)
    garbage = GarbageCollector(client, informers=(), clock=SYSTEM, random=Random(1))  # noqa: S311 - pace of retries
    namespaces, accounts = (
        Informer(client, resource, PartialObjectMetadata, clock=SYSTEM, random=Random(1))  # noqa: S311 - pace of retries
        for resource in (NAMESPACES, SERVICE_ACCOUNTS)
    )
    emptying = NamespaceController(
        client, namespaces=namespaces, accounts=accounts, kinds=lambda: garbage.kinds, clock=SYSTEM
    )
    async with serve_https(server.handle, folder=folder) as endpoint:
        works = (garbage, emptying, namespaces.reflector, accounts.reflector)
        tasks = [asyncio.create_task(each.run()) for each in works]
        yield endpoint
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def kubectl(real, request, tmp_path):
    """A session in a namespace of its own; at its end it must have been as on the real server."""
    if BINARY is None:
        pytest.skip("there is no kubectl on PATH (https://kubernetes.io/docs/tasks/tools)")
    name = request.node.name.removeprefix("test_").replace("_", "-")
    if real is None:
        async with local_plane(tmp_path) as endpoint:
            session = Kubectl(endpoint.kubeconfig, namespace=name)
            await _run(session)
            yield session
    else:
        session = Kubectl(real, namespace=name)
        await _run(session)
        yield session
        await session.quiet(f"delete namespace {name} --wait=false")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """Compare what was said, inside of the test."""
    result = yield
    session = pyfuncitem.funcargs.get("kubectl")
    if session is not None:
        file = RECORDED / f"{session.namespace}.txt"
        if pyfuncitem.config.getoption("--record", default=False):
            assert pyfuncitem.funcargs["real"] is not None, "only a real server is worth a recording: DRA_CLUSTER=local"
            file.write_text(session.story)
        told = difflib.unified_diff(file.read_text().splitlines(), session.story.splitlines(), "real", "here", n=3)
        assert not (difference := "\n".join(told)), difference
    return result


def pytest_collection_modifyitems(items):
    for item in items:
        if item.name in PENDING:
            strict = Place.chosen() is not Place.LOCAL  # the real server may well be as it was
            item.add_marker(pytest.mark.xfail(reason=PENDING[item.name], strict=strict))


async def _run(session):
    await session.quiet(f"create namespace {session.namespace}")
    await session.quiet("create serviceaccount default")
