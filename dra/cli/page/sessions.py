"""The part of a feed that one client of the page may see, and the gate that decides about it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from aiohttp import web

from dra.cli.page.access import Refusal
from dra.cli.page.cluster_feed import ClusterFeed


class PageSession:
    """A client of the page and the rows that it may see: without a subclass, all rows of the feed."""

    def __init__(self, feed: ClusterFeed) -> None:
        self.feed = feed

    @property
    def description(self) -> dict[str, str]:
        """The name of the user and the namespace that the user is limited to; empty where there is none."""
        return {"user": "", "namespace": ""}

    def view_refusal(self, view: str) -> Refusal | None:
        """Return why the client may not see a view."""
        del view
        return None

    def object_refusal(self, kind: str, namespace: str) -> Refusal | None:
        """Return why the client may not see objects of a kind, in a namespace; before the object is looked up."""
        del kind, namespace
        return None

    async def namespaces(self) -> frozenset[str] | None:
        """Return the namespaces whose history the client may see, once that is known; None: all.

        Raises FeedClosedError.
        """
        await self.feed.stream.ready.wait()
        namespace = await self.feed.ask(lambda tables: tables.cluster.snapshot.namespace)
        return None if namespace is None else frozenset({namespace})

    @contextmanager
    def open_stream(self) -> Iterator[None]:
        """Count a stream while it is open; raise RefusedError if the client has too many."""
        yield

    async def is_current(self) -> bool:
        """Report whether the client may still see the same; raise RefusedError if that cannot be found out."""
        return True


class Gate(Protocol):
    """Decides which requests are answered, and what each client may see."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of every response."""
        ...

    def refusal(self, headers: Mapping[str, str], *, is_data: bool) -> Refusal | None:
        """Return why a request is refused by its headers alone. ``is_data``: the answer is about the cluster."""
        ...

    async def admit(self, request: web.Request) -> PageSession:
        """Return what the client of a request about the cluster may see; raise RefusedError."""
        ...
