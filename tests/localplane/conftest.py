"""Modules that say ``VIRTUAL_TIME = True`` run in virtual time; the others use sockets, or need no time."""

import asyncio

from tests.dra.kube.virtual import VirtualLoop


def pytest_asyncio_loop_factories(config, item):  # noqa: ARG001 - the hook's signature
    virtual = getattr(item.module, "VIRTUAL_TIME", False)
    return {"virtual": VirtualLoop} if virtual else {"real": asyncio.new_event_loop}
