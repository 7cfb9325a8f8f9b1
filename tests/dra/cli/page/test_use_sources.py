"""Where the view "Idle" has its numbers from: a Prometheus that is asked seldom, or what the page has seen."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from dra.cli.page import use_sources
from dra.cli.page.access import RefusedError
from dra.cli.page.cluster_feed import bundle_feed
from dra.cli.page.use_sources import FAILURE_SECONDS, PrometheusUse, SeenUse
from dra.cli.prometheus import PrometheusAddress, PrometheusError
from dra.engine.device_usage.over_time import tabulate
from dra.engine.device_usage.timelines import SPANS
from tests.dra.engine.diagnosis.cluster_states import claim, entry, pod, snapshot

DAY, WEEK = SPANS["24h"], SPANS["7d"]
START = 1_795_000_000.0


class HandClock:
    """A clock that tests set."""

    def __init__(self):
        self.time = START

    def now(self):
        return self.time

    def wall(self):
        return datetime.fromtimestamp(self.time, UTC)


@pytest.fixture
def clock():
    return HandClock()


class Asked:
    """What a Prometheus was asked, and whether it fails."""

    def __init__(self):
        self.questions = []
        self.fails = False
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def ask(self, address, *, by, span, namespaces, labels):
        self.questions.append((by, span, namespaces, labels))
        await self.may_answer.wait()
        if self.fails:
            raise PrometheusError(f"{address}: it burns")
        return tabulate(by, {}, {}, span=span, now=START)


@pytest.fixture
def asked(monkeypatch):
    made = Asked()
    monkeypatch.setattr(use_sources, "ask_use", made.ask)
    return made


def prometheus(clock, *, tells_why=True):
    address = PrometheusAddress.parse("http://prometheus.secret:9090")
    return PrometheusUse(address, labels={"cluster": "eu"}, tells_why=tells_why, clock=clock)


def read(source, *, by="namespace", span=DAY, namespaces=None):
    return source.read(by=by, span=span, namespaces=namespaces)


async def test_equal_questions_share_an_answer_for_a_part_of_the_span(asked, clock):
    source = prometheus(clock)
    await asyncio.gather(*(read(source) for _ in range(20)))
    clock.time += 59
    await read(source)
    assert len(asked.questions) == 1
    clock.time += 2
    await read(source)
    assert len(asked.questions) == 2
    await read(source, span=WEEK)
    clock.time += 400
    await read(source, span=WEEK)
    assert len(asked.questions) == 3, "a week may be seven minutes old"


async def test_no_user_gets_the_answer_for_other_namespaces(asked, clock):
    source = prometheus(clock)
    for namespaces in (None, frozenset({"ml"}), frozenset({"web"}), frozenset()):
        await read(source, namespaces=namespaces)
    assert [namespaces for _, _, namespaces, _ in asked.questions] == [None, {"ml"}, {"web"}, set()]
    assert {str(labels) for *_, labels in asked.questions} == {"{'cluster': 'eu'}"}


@pytest.mark.parametrize(
    ("tells_why", "names_server"), [(True, True), (False, False)], ids=["own-page", "in-a-cluster"]
)
async def test_a_failure_is_kept_for_seconds_and_names_the_server_to_its_owner_alone(
    asked, clock, caplog, tells_why, names_server
):
    asked.fails = True
    source = prometheus(clock, tells_why=tells_why)
    for _ in range(3):
        with pytest.raises(RefusedError) as error:
            await read(source)
    assert ("prometheus.secret" in error.value.refusal.text) == names_server
    assert "prometheus.secret:9090: it burns" in caplog.text
    assert (error.value.refusal.status, len(asked.questions)) == (503, 1)
    clock.time += FAILURE_SECONDS
    asked.fails = False
    await read(source)


async def test_a_flood_of_different_questions_is_refused_and_few_are_under_way(asked, clock):
    asked.may_answer.clear()
    source = prometheus(clock)
    tasks = [asyncio.create_task(read(source, namespaces=frozenset({str(number)}))) for number in range(100)]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(asked.questions) == use_sources.ASKED_MAX
    refused = [task.exception().refusal.status for task in tasks if task.done()]
    assert set(refused) == {503}
    asked.may_answer.set()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(not isinstance(answer, Exception) for answer in done) == use_sources.ASKED_MAX + use_sources.WAITING_MAX


async def test_a_client_that_leaves_takes_no_answer_from_others(asked, clock):
    asked.may_answer.clear()
    source = prometheus(clock)
    leaves, stays = (asyncio.create_task(read(source)) for _ in range(2))
    await asyncio.sleep(0)
    leaves.cancel()
    asked.may_answer.set()
    assert (await stays).by == "namespace"


async def test_old_answers_are_forgotten(asked, clock):
    source = prometheus(clock)
    for number in range(use_sources.ANSWERS_MAX + 10):
        await read(source, namespaces=frozenset({str(number)}))
    await read(source, namespaces=frozenset({"0"}))
    assert len(asked.questions) == use_sources.ANSWERS_MAX + 11


@pytest.fixture
async def feed():
    taken = snapshot(
        claim("train", "n1/gpu-0", listed=(entry("a"),)),
        claim("idle", "n1/gpu-1", "n1/gpu-2"),
        pods=(pod("a", "train", on="n1", phase="Running", started=True),),
    )
    async with bundle_feed(taken, now=datetime.fromtimestamp(START, UTC)) as made:
        yield made


async def test_the_page_remembers_what_it_has_seen(feed, clock):
    source = SeenUse(lambda: feed, clock=clock)
    with pytest.raises(RefusedError, match="not looked at devices yet"):
        await read(source)
    async with asyncio.timeout(30):
        await feed.stream.ready.wait()
    assert await source.look()
    clock.time += 240
    assert await source.look()
    use = await read(source)
    (row,) = use.rows
    assert (row.name, row.history.held, row.history.used, use.known_since) == ("ml", 3, 1, START)
    assert row.history.idle_hours == pytest.approx(2 * 240 / 3600)
    assert (await read(source, namespaces=frozenset({"web"}))).rows == ()
    assert await read(source) is use, "until the next look"
    assert await source.look()
    assert await read(source) is not use


async def test_without_complete_rows_nothing_is_recorded(feed, clock):
    assert not await SeenUse(lambda: None, clock=clock).look()
    async with asyncio.timeout(30):
        await feed.stream.ready.wait()
    feed.close()
    assert not await SeenUse(lambda: feed, clock=clock).look()
