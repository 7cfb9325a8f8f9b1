"""One feed of rows for each scope, made only of objects that the scope covers.

A feed that got all objects and left out rows would have to find every name in every text of a row. Here, a row cannot
contain the name of an object that its feed never got. Users with equal rights share a feed; a feed that nobody looks
at is dropped after a while, or earlier if another scope needs its place. One feed of all namespaces is always kept.
"""

import asyncio
import gc
import logging
import secrets
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NoReturn

from dra.cli.page.access import Refusal, RefusedError
from dra.cli.page.cluster_feed import ClusterFeed
from dra.cli.page.feed_listener import FeedListener
from dra.cli.page.patch_stream import PatchStream
from dra.cli.page.scopes import EVERYTHING, Scope
from dra.cli.page.shared_cluster import SharedCluster
from dra.engine.diagnosis.snapshot import Snapshot
from dra.kube.clock import SYSTEM, Clock
from dra.kube.resources import EVENTS, Resource

IDLE_SECONDS: Final = 300.0
"""Seconds without a request or an open stream after which a feed is dropped."""

RECENT_SECONDS: Final = 5.0
"""Seconds after a request for which a feed makes no room for another: making a feed reads every object that is known,
and a user with rights in many namespaces could have the feeds of all others made again and again."""

NAMESPACE_SHARE: Final = 4
"""Part of all places, one in so many, that scopes of one namespace can take: the administrator of a namespace can make
any number of accounts with different rights there. Two at least."""

KEPT_SHARE: Final = 8
"""Part of all places, one in so many, that only scopes of all namespaces can take."""

SWEEP_INTERVAL: Final = 10.0
"""Seconds between two searches for feeds that nobody looks at."""

FIRST_SWEEP_INTERVAL: Final = 1.0
"""Seconds between two searches while the garbage collector still looks at all rows."""

TOO_MANY_SCOPES: Final = "users with too many different rights look at the page; see maxScopes of its configuration"

_log: Final = logging.getLogger(__name__)


class ScopedFeed(FeedListener):
    """The feed of one scope, which listens to the cluster."""

    def __init__(self, scope: Scope, cluster: SharedCluster, *, used_at: float, on_end: Callable[[], None]) -> None:
        self.hidden = scope.hidden(cluster.absent)
        """The views that are not shown, with the missing permissions."""

        feed = ClusterFeed(PatchStream(secrets.token_hex(4)), hidden=self.hidden, is_permanent=False)
        super().__init__(cluster, feed)
        self.scope = scope
        self.streams = 0
        """Number of open streams."""

        self.used_at = used_at
        """Time of the last request, on the monotonic clock."""

        self._on_end = on_end
        self._work: asyncio.Task[None] | None = None

    def covers(self, resource: Resource, namespace: str) -> bool:
        """Report whether the scope covers objects of a kind in a namespace."""
        return self.scope.covers(resource, namespace)

    def cut(self, surroundings: Snapshot) -> Snapshot:
        """Return the kinds that are not watched, as far as the scope covers them."""
        return self.scope.cut(surroundings, self.cluster.gaps(), absent=self.cluster.absent)

    def start(self) -> None:
        """Pass everything that is known to the feed, listen to changes, and compute rows."""
        super().start()
        if not self.covers(EVENTS, self.scope.namespace or ""):
            self.feed.events = None
        self._work = asyncio.create_task(self._run(), name="rows of a scope")

    async def _run(self) -> None:
        try:
            await self.feed.run()
        except Exception:  # noqa: BLE001 - a defect in one user's rows must not end the page of all others
            if self.feed.is_closed:
                return  # another feed may have the scope by now
            _log.exception("the rows of a scope cannot be computed; its clients begin again")
            self._on_end()

    def stop(self) -> None:
        """Stop listening, and let all clients connect again."""
        super().stop()
        if self._work is not None:
            self._work.cancel()
        self.feed.close()

    def kinds_changed(self) -> None:
        """Begin again with another feed."""
        self._on_end()


class ScopedFeeds:
    """The feeds of all scopes that users look at."""

    def __init__(self, cluster: SharedCluster, *, scopes_max: int, clock: Clock = SYSTEM) -> None:
        self._cluster = cluster
        self._scopes_max = scopes_max
        self._clock = clock
        self._feeds: dict[Scope, ScopedFeed] = {}
        self._has_begun = False
        self._spared: ScopedFeed | None = None
        """The feed that the garbage collector passes over."""

        self._first: ScopedFeed | None = None
        """The first feed of all namespaces; None until there is one, and if other scopes had all places."""

    def __len__(self) -> int:
        return len(self._feeds)

    def get(self, scope: Scope) -> ScopedFeed:
        """Return the feed of a scope; raise RefusedError if there is none and every place is taken."""
        feed = self._feeds.get(scope)
        if feed is None:
            self._make_room(scope.namespace)
            feed = ScopedFeed(scope, self._cluster, used_at=self._clock.now(), on_end=partial(self._drop, scope))
            self._feeds[scope] = feed
            feed.start()
        feed.used_at = self._clock.now()
        return feed

    async def run(self) -> NoReturn:
        """Drop feeds that nobody looks at, and keep one of all namespaces, until cancelled."""
        await self._cluster.wait_until_filled()
        while True:
            self.keep_one_of_all_namespaces()
            await asyncio.sleep(SWEEP_INTERVAL if self._spared is not None else FIRST_SWEEP_INTERVAL)
            self.drop_idle()
            self.freeze_long_lived_objects()

    def keep_one_of_all_namespaces(self) -> None:
        """Make the feed of administrators once the cluster has been read, so that the first of them does not wait.

        The feed takes a free place only: in the place of another feed, the two would be made again and again.
        """
        if not self._cluster.is_filled:
            return
        feed = next(iter(self._of_all_namespaces()), None)
        if feed is None and len(self._feeds) < self._scopes_max:
            feed = self.get(EVERYTHING)
        if not self._has_begun:
            self._has_begun, self._first = True, feed

    def not_ready_reasons(self) -> list[str]:
        """Return what has not been read yet, or that the first rows of administrators have not been computed yet.

        While a new replica computes rows, users stay with the old one, which has them. Rows that cannot be computed
        keep no other user out.
        """
        if reasons := self._cluster.not_ready_reasons():
            return reasons
        first = self._first
        is_waiting = first is not None and not (first.feed.stream.is_ready or first.feed.is_closed)
        return ["rows of all namespaces: not computed yet"] if is_waiting or not self._has_begun else []

    def freeze_long_lived_objects(self) -> None:
        """Exclude the objects of the cluster and the rows of administrators from garbage collections.

        In a large cluster, a collection that visits all of them stops the process for a third of a second. Frozen
        objects that refer to each other in a cycle are never freed: so nothing is frozen once the rows are dropped.
        """
        ready = (feed for feed in self._of_all_namespaces() if feed.feed.stream.is_ready)
        if self._spared is None and (first_ready := next(ready, None)) is not None:
            gc.collect()
            gc.freeze()
            self._spared = first_ready

    def drop_idle(self) -> None:
        """Drop the feeds that nobody has looked at for a while.

        The last used feed of all namespaces stays until another scope needs its place: in a large cluster, its rows
        take seconds to compute, and the next administrator would wait.
        """
        now = self._clock.now()
        kept = max(self._of_all_namespaces(), key=lambda feed: feed.used_at, default=None)
        for scope, feed in tuple(self._feeds.items()):
            if feed.streams:
                feed.used_at = now
            elif feed is not kept and feed.used_at + IDLE_SECONDS <= now:
                self._drop(scope)

    def complete_feed(self) -> ClusterFeed | None:
        """Return the feed of everything; None while other scopes have its place."""
        scoped = self._feeds.get(EVERYTHING)
        return scoped.feed if scoped is not None else None

    def close(self) -> None:
        """Drop all feeds, so that their worker threads end."""
        for scope in tuple(self._feeds):
            self._drop(scope)

    def _of_all_namespaces(self) -> list[ScopedFeed]:
        return [feed for feed in self._feeds.values() if feed.scope.namespace is None]

    def _make_room(self, namespace: str | None) -> None:
        """Drop a feed if a scope of a namespace, or of all, finds no free place; raise RefusedError if all are used."""
        feeds = tuple(self._feeds.values())
        of_namespaces = [feed for feed in feeds if feed.scope.namespace is not None]
        there = [feed for feed in of_namespaces if feed.scope.namespace == namespace]
        if namespace is not None and len(there) >= max(2, self._scopes_max // NAMESPACE_SHARE):
            text = f"namespace {namespace}: users with too many different rights there look at the page"
            self._drop_unused(there, text)
        elif namespace is not None and len(of_namespaces) >= self._scopes_max - self._scopes_max // KEPT_SHARE:
            self._drop_unused(of_namespaces, TOO_MANY_SCOPES)
        elif len(feeds) >= self._scopes_max:
            self._drop_unused(feeds, TOO_MANY_SCOPES)

    def _drop_unused(self, feeds: Iterable[ScopedFeed], refusal: str) -> None:
        """Drop the one of the feeds that nobody has looked at for longest; raise RefusedError if all are used."""
        until = self._clock.now() - RECENT_SECONDS
        unused = [feed for feed in feeds if not feed.streams and feed.used_at <= until]
        if not unused:
            raise RefusedError(Refusal(503, refusal, retry_after=30))
        self._drop(min(unused, key=lambda feed: feed.used_at).scope)

    def _drop(self, scope: Scope) -> None:
        feed = self._feeds.pop(scope, None)
        if feed is None:
            return
        feed.stop()
        if feed is self._spared:
            self._spared = None
            gc.unfreeze()
