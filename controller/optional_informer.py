"""An informer of a kind that not every API server serves: alpha and beta kinds depend on feature gates."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from dra.kube.backoff import Backoff
from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.codec import ApiObject
from dra.kube.discovery import Discovery
from dra.kube.errors import ApiError, NotFound
from dra.kube.reflector import EventHandler, Reflector
from dra.kube.resources import Resource
from dra.model.meta import Key
from dra.model.references import GroupResource

T = TypeVar("T", bound=ApiObject)

DISCOVERY_RETRY: Final = (10.0, 300.0)
"""Seconds, minimum and maximum, between discoveries of a kind that is not served: feature gates change when an API
server restarts."""

DISCOVERY_ERROR_RETRY: Final = (1.0, 10.0)
"""Seconds, minimum and maximum, after discovery failed: whether the kind is served is unknown then."""

STATUS_INTERVAL: Final = 1.0
"""Seconds between checks of the reflector's status."""

_log: Final = logging.getLogger(__name__)


class OptionalInformer(Generic[T]):
    """A reflector that runs only while its kind is served, in any version.

    Discovery must report twice, some time apart, that the kind is gone: while API servers are upgraded one after the
    other, one may not serve it yet, and when a version is no longer served, its objects remain in another version.
    """

    def __init__(  # noqa: PLR0913 - keyword-only: what a reflector needs, and what to do without it
        self,
        client: Client,
        *,
        kind: GroupResource,
        model: type[T],
        handler: EventHandler[T],
        on_served: Callable[[Resource | None], None] = lambda _: None,
        on_settled: Callable[[str], None] = lambda _: None,
        on_gone: Callable[[Iterable[T]], None],
        clock: Clock,
    ) -> None:
        """Create the informer; ``on_served`` receives the served version, ``on_gone`` objects gone without an event.

        ``on_settled`` is called with "" once it is known that the kind is not served, or which objects exist; otherwise
        with the reason why this is unknown.
        """
        self._client = client
        self._kind = kind
        self._model = model
        self._handler = handler
        self._on_served = on_served
        self._on_settled = on_settled
        self._on_gone = on_gone
        self._clock = clock
        self._discovery = Discovery(client, clock=clock)
        self._remaining: dict[Key, T] = {}
        """Objects that existed when the last watch ended, and have not been seen since."""

    async def run(self) -> None:
        """Watch the kind while it is served, and otherwise retry discovery, until cancelled."""
        backoff, after_error = Backoff(*DISCOVERY_RETRY), Backoff(*DISCOVERY_ERROR_RETRY)
        missed = False
        while True:
            try:
                resource = await self._discovery.resolve(self._kind)
            except ApiError as error:
                _log.warning("%s: API discovery failed, retrying (%s)", self._kind, error)
                self._on_settled(str(error))
                await asyncio.sleep(after_error.next())
                continue
            else:
                after_error.reset()
                if resource is not None:
                    missed = False
                    if await self._reflect(resource):
                        backoff.reset()
                        continue  # another version may be served
                elif missed or not self._remaining:
                    self._on_served(None)
                    self._report_gone()
                missed = resource is None
                if missed:
                    self._on_settled("")
            await asyncio.sleep(backoff.next())

    def _report_gone(self) -> None:
        remaining, self._remaining = self._remaining, {}
        if remaining:
            self._on_gone(remaining.values())

    async def _reflect(self, resource: Resource) -> bool:
        """Watch until the kind is no longer found under its path; return whether it was ever listed there."""
        self._on_served(resource)
        reflector = Reflector(self._client, resource, self._model, handler=self._handler, clock=self._clock)
        running = asyncio.create_task(reflector.run(), name=f"reflect {self._kind}")
        try:
            while not running.done():
                await asyncio.sleep(STATUS_INTERVAL)
                if reflector.synced.is_set():
                    self._remaining = {key: obj for key, obj in self._remaining.items() if key not in reflector.objects}
                    self._report_gone()
                    self._on_settled("")
                elif reflector.failure is not None:
                    self._on_settled(str(reflector.failure))
                if isinstance(reflector.failure, NotFound):
                    self._discovery.invalidate(self._kind.group)
                    self._remaining |= reflector.objects
                    return reflector.synced.is_set()
            running.result()  # raises the exception that ended it
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
