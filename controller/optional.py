"""Watches a kind that not every API server has: alpha and beta kinds come and go with its feature gates."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from dra.kube.backoff import Backoff
from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.codec import ApiObject
from dra.kube.discovery import Discovery
from dra.kube.errors import ApiError, NotFound
from dra.kube.reflector import Reflector, Sink
from dra.kube.resources import Resource
from dra.model.references import GroupResource

T = TypeVar("T", bound=ApiObject)

ASK_AGAIN: Final = (10.0, 300.0)
"""Seconds, first and longest, between looks for a kind that is not served: gates change when an API server restarts."""

_log: Final = logging.getLogger(__name__)


class OptionalWatch(Generic[T]):
    """A reflector that runs only while its kind is served, in whichever version."""

    def __init__(  # noqa: PLR0913 - keyword-only: what a reflector needs, and what to do without it
        self,
        client: Client,
        *,
        kind: GroupResource,
        model: type[T],
        sink: Sink[T],
        served: Callable[[Resource], None] = lambda _: None,
        gone: Callable[[list[T]], None],
        clock: Clock,
    ) -> None:
        self.known = asyncio.Event()
        """Set once it is known that the kind is not served, or what objects there are."""

        self._client = client
        self._kind = kind
        self._model = model
        self._sink = sink
        self._served = served
        self._gone = gone
        self._clock = clock
        self._discovery = Discovery(client, clock=clock)

    async def run(self) -> None:
        """Watch the kind for as long as it is served, and look for it else, until cancelled."""
        backoff = Backoff(*ASK_AGAIN)
        while True:
            try:
                resource = await self._discovery.resolve(self._kind)
            except ApiError as error:
                _log.warning("%s: not resolved (%s)", self._kind, error)
            else:
                if resource is not None:
                    await self._reflect(resource)
                    backoff.reset()
                self.known.set()
            await asyncio.sleep(backoff.next())

    async def _reflect(self, resource: Resource) -> None:
        """Watch until the kind is gone."""
        self._served(resource)
        reflector = Reflector(self._client, resource, self._model, sink=self._sink, clock=self._clock)
        running = asyncio.create_task(reflector.run(), name=f"reflect {self._kind}")
        try:
            while not running.done():
                await asyncio.sleep(1.0)
                if reflector.synced.is_set() or reflector.failure is not None:
                    self.known.set()
                if isinstance(reflector.failure, NotFound):
                    self._discovery.forget(self._kind.group)
                    self._gone(list(reflector.objects.values()))
                    return
            running.result()  # raises what ended it
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
