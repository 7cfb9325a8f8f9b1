"""The sources of the use of devices over time: a Prometheus, or what the page itself has seen.

A source answers for the namespaces that a session may see. A request can choose one of three groupings and one of two
spans, but neither a namespace that the session lacks nor an address.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NoReturn, Protocol

from dra.cli.page.access import Refusal, RefusedError
from dra.cli.page.cluster_feed import ClusterFeed, FeedClosedError
from dra.cli.page.page_tables import PageTables
from dra.cli.prometheus import PrometheusAddress, PrometheusError, ask_use
from dra.engine.device_usage.groups import DeviceNumbers, UsageGroup
from dra.engine.device_usage.over_time import UseOverTime, shown_groups, tabulate
from dra.engine.device_usage.recorded import RecordedUse
from dra.engine.device_usage.timelines import Span
from dra.engine.diagnosis.devices import device_groups
from dra.kube.clock import SYSTEM, Clock

LOOK_INTERVAL: Final = 60.0
"""Seconds between two looks at what is held and used."""

FIRST_LOOK_INTERVAL: Final = 1.0
"""The same while the rows are not complete."""

KEPT_PART: Final = 1_440
"""An answer about a span is kept for one part in so many of the span: a minute for a day."""

FAILURE_SECONDS: Final = 5.0
"""Seconds for which a failure of Prometheus is kept, so that many open tabs do not ask a server that is ill."""

ANSWERS_MAX: Final = 128
"""Maximum number of answers that are kept."""

ASKED_MAX: Final = 4
"""Maximum number of questions to Prometheus about history that are under way; each has a few queries at once."""

WAITING_MAX: Final = 32
"""Maximum number of questions that wait for their turn."""

Namespaces = frozenset[str] | None
_Key = tuple[str, Span, Namespaces]

_log: Final = logging.getLogger(__name__)


class UseSource(Protocol):
    """Knows the use of devices over time."""

    async def read(self, *, by: str, span: Span, namespaces: Namespaces) -> UseOverTime:
        """Return the use in a span, of some namespaces alone if they are given; raise RefusedError."""
        ...


class PrometheusUse:
    """Asks a Prometheus; equal questions share an answer, which is kept for a while."""

    def __init__(
        self, address: PrometheusAddress, *, labels: Mapping[str, str], tells_why: bool, clock: Clock = SYSTEM
    ) -> None:
        """Create the source; ``tells_why``: users may learn the address of the Prometheus, and what it says."""
        self._address = address
        self._labels = labels
        self._tells_why = tells_why
        self._clock = clock
        self._answers: OrderedDict[_Key, tuple[float, asyncio.Task[UseOverTime]]] = OrderedDict()
        self._turns = asyncio.Semaphore(ASKED_MAX)

    async def read(self, *, by: str, span: Span, namespaces: Namespaces) -> UseOverTime:
        """Return the use in a span; raise RefusedError if the Prometheus cannot be asked, or too many ask."""
        key = (by, span, namespaces)
        until, task = self._answers.get(key, (0.0, None))
        if task is None or (task.done() and until <= self._clock.now()):
            task = self._ask(key)
        try:
            return await asyncio.shield(task)  # other requests may wait for the same answer
        except PrometheusError as error:
            text = str(error) if self._tells_why else "the history cannot be read now; the log of the page says why"
            raise RefusedError(Refusal(503, text, retry_after=int(FAILURE_SECONDS))) from error

    def _ask(self, key: _Key) -> asyncio.Task[UseOverTime]:
        if sum(not task.done() for _, task in self._answers.values()) >= ASKED_MAX + WAITING_MAX:
            raise RefusedError(Refusal(503, "too many users ask for history at once", retry_after=5))
        task = asyncio.create_task(self._answer(*key), name="history of devices")
        task.add_done_callback(partial(self._on_done, key))
        self._answers[key] = (0.0, task)
        self._answers.move_to_end(key)
        return task

    async def _answer(self, by: str, span: Span, namespaces: Namespaces) -> UseOverTime:
        async with self._turns:
            return await ask_use(self._address, by=by, span=span, namespaces=namespaces, labels=self._labels)

    def _on_done(self, key: _Key, task: asyncio.Task[UseOverTime]) -> None:
        if task.cancelled():
            self._answers.pop(key, None)
            return
        failure = task.exception()
        if failure is not None:
            _log.warning("the history of devices cannot be read: %s", failure)
        kept = FAILURE_SECONDS if failure is not None else key[1].seconds / KEPT_PART
        self._answers[key] = (self._clock.now() + kept, task)
        for old in [known for known, (_, other) in self._answers.items() if other.done()][:-ANSWERS_MAX]:
            del self._answers[old]


class SeenUse:
    """Remembers what the page has seen since its start."""

    def __init__(self, find_feed: Callable[[], ClusterFeed | None], *, clock: Clock = SYSTEM) -> None:
        """Create the source; ``find_feed`` returns the feed that has every object which the page reads."""
        self._find_feed = find_feed
        self._clock = clock
        self._seen = RecordedUse()
        self._answers: dict[_Key, UseOverTime] = {}
        """Answers since the last look: a question about very many changes takes a quarter of a second."""

    async def read(self, *, by: str, span: Span, namespaces: Namespaces) -> UseOverTime:
        """Return the use in a span as far as it was seen; raise RefusedError before the first look."""
        known_since = self._seen.known_since(namespaces)
        if known_since is None:
            raise RefusedError(Refusal(503, "the page has not looked at devices yet; wait a moment", retry_after=5))
        known = self._answers.get((by, span, namespaces))
        if known is not None:
            return known
        now = self._clock.wall().timestamp()
        history = self._seen.history(span=span, namespaces=namespaces, now=now)
        shown = frozenset(shown_groups(by, history))
        lines = self._seen.timelines(by, shown, span=span, namespaces=namespaces, now=now)
        use = tabulate(by, history, lines, span=span, now=now, known_since=known_since)
        if len(self._answers) < ANSWERS_MAX:
            self._answers[by, span, namespaces] = use
        return use

    async def run(self) -> NoReturn:
        """Look each minute until cancelled."""
        while True:
            has_seen = await self.look()
            await asyncio.sleep(LOOK_INTERVAL if has_seen else FIRST_LOOK_INTERVAL)

    async def look(self) -> bool:
        """Record what is held and used now; return whether there were complete rows to look at."""
        feed = self._find_feed()
        if feed is None or not feed.stream.is_ready:
            return False
        now = self._clock.wall()

        def count(tables: PageTables) -> Mapping[UsageGroup, DeviceNumbers]:
            tables.cluster.refresh()
            return device_groups(tables.cluster, now=now)

        try:
            groups = await feed.ask(count)
        except FeedClosedError:
            return False
        self._seen.record(groups, now=now.timestamp())
        self._answers.clear()
        return True
