"""Virtual time: a release waits for minutes."""

from tests.dra.kube.virtual import VirtualLoop


def pytest_asyncio_loop_factories(config, item):  # noqa: ARG001 - the hook's signature
    return {"virtual": VirtualLoop}
