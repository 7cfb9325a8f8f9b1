"""The handle that users' evictors and controllers get to work with, and the runner of their controllers."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from controller.runtime import ProcessMetrics, Runtime
from dra.engine.descheduling.cache import DeschedulingCache
from dra.kube.backoff import Backoff
from dra.kube.client import Client
from dra.kube.shared_informers import SharedInformers

RESTART: Final = (1.0, 300.0)
"""Seconds, minimum and maximum, before a controller that has ended or failed is run again."""

_log: Final = logging.getLogger(__name__)


class PluginHandle:
    """The process as users' evictors and controllers see it: they act with the rights of its account."""

    def __init__(
        self, runtime: Runtime[ProcessMetrics], *, cache: DeschedulingCache, informers: SharedInformers
    ) -> None:
        self._runtime = runtime
        self._cache = cache
        self._informers = informers

    @property
    def client(self) -> Client:
        """Return the client of the process, whose rate of requests is limited."""
        return self._runtime.client

    def write_timeout(self) -> float:
        """Return how long a write that begins now may take, in seconds: it must end before the lease can expire."""
        return self._runtime.write_timeout()

    def request_round(self, cause: str) -> None:
        """Have a round begin at once, some seconds after the last one at the earliest."""
        self._cache.request_round(cause)
        self._informers.notify()


async def run_controllers(controllers: Mapping[str, Any], handle: PluginHandle) -> None:
    """Run users' controllers until cancelled; one that ends or fails is run again, later and later."""
    async with asyncio.TaskGroup() as group:
        for name, controller in controllers.items():
            group.create_task(_run_again_and_again(name, controller, handle), name=f"plugin {name}")


async def _run_again_and_again(name: str, controller: Any, handle: PluginHandle) -> NoReturn:  # noqa: ANN401 - a user's
    backoff = Backoff(*RESTART)
    while True:
        try:
            await controller.run(handle)
            _log.warning("plugin %s: its controller has ended, and is run again", name)
        except Exception:  # noqa: BLE001 - a user's controller must not end the process
            _log.exception("plugin %s: its controller failed, and is run again", name)
        await asyncio.sleep(backoff.next())
