"""What users of the page are answered while others flood it: with tokens that nobody knows, questions, and claims.

The page has an eighth of its limits here. What a flood does depends on how it compares with them, and the CPU that it
takes on its size.
"""

import asyncio
import contextlib
import dataclasses
from collections import Counter

import pytest

from bench.page_cluster import claim
from dra.cli.page import application, shared_cluster, team_gate
from dra.cli.page.cluster_feed import ClusterFeed
from dra.engine.claims.workload_kinds import KINDS_PER_NAMESPACE
from dra.httpserver.connections import ConnectionState
from dra.model.workload_reservations import RESERVED_FOR
from tests.dra.cli.page.team_cluster import SlowReviews, TeamServer, read_event, running, two_tenants

PART = 8
LIMITS = dataclasses.replace(
    application.CONNECTION_LIMITS,
    max_connections=application.CONNECTION_LIMITS.max_connections // PART,
    max_opening=application.CONNECTION_LIMITS.max_opening // PART,
)
FIRST_REVIEWS_MAX = team_gate.FIRST_REVIEWS_MAX // PART

MAX = LIMITS.max_connections

CONNECTIONS = MAX + 4
"""Connections of a flood: more than the page has places."""

PAUSE = 0.05
"""Seconds after which a client of a flood asks or connects again."""

OPENING = ConnectionState.OPENING

REQUESTS = 19
"""Requests of users during a flood, each over a connection of its own."""

PATIENCE = 60
"""Seconds that one answer may take on a busy machine."""


@pytest.fixture(autouse=True)
def small_page(monkeypatch):
    """Give the page its part of the limits."""
    monkeypatch.setattr(application, "CONNECTION_LIMITS", LIMITS)
    monkeypatch.setattr(team_gate, "FIRST_REVIEWS_MAX", FIRST_REVIEWS_MAX)
    monkeypatch.setattr(team_gate, "ADDRESS_FIRST_REVIEWS_MAX", team_gate.ADDRESS_FIRST_REVIEWS_MAX // PART)


async def session_status(page, token, *, source="127.0.0.2"):
    """Return the status of a user's request over a connection of its own; 0 if the connection is closed first."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        async with connected(page, source=source) as (reader, writer):
            return await ask(reader, writer, "/api/session?ns=ml", token)
    return 0


@contextlib.asynccontextmanager
async def connected(page, *, source="127.0.0.1"):
    host, _, port = page.address.rpartition("/")[2].rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), local_addr=(source, 0))
    try:
        yield reader, writer
    finally:
        writer.close()


async def ask(reader, writer, path, token):
    """Return the status of an answer; raise asyncio.IncompleteReadError or OSError if the connection is closed."""
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    async with asyncio.timeout(PATIENCE):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        await reader.readexactly(int(head.partition("content-length: ")[2].partition("\r\n")[0]))
    return int(head[9:12])


class Flood:
    """Clients that ask without an end, each with its token, and connect again when their connection is closed."""

    def __init__(self, page, *, path, asking_as):
        self.page, self.path, self.asking_as = page, path, asking_as
        self.answers = Counter()

    async def client(self, number):
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                async with connected(self.page) as (reader, writer):
                    while True:
                        self.answers["asked"] += 1
                        self.answers[await ask(reader, writer, self.path, self.asking_as.format(number))] += 1
                        await asyncio.sleep(PAUSE)
            self.answers["closed"] += 1
            await asyncio.sleep(PAUSE)

    @contextlib.asynccontextmanager
    async def running(self):
        """Run the flood, from when all places of the listener are taken by clients that have asked."""
        places = self.page._listener._connections
        async with asyncio.TaskGroup() as group:
            clients = [group.create_task(self.client(number)) for number in range(CONNECTIONS)]
            async with asyncio.timeout(PATIENCE):
                while len(places) < MAX or places.count(OPENING):  # noqa: ASYNC110 - states of many clients
                    await asyncio.sleep(0.01)
            yield self
            for each in clients:
                each.cancel()


async def users_during(flood, *, source):
    """Return the statuses of requests of users while a flood runs."""
    async with flood.running():
        return [await session_status(flood.page, "ml-token", source=source) for _ in range(REQUESTS)]


SOURCES = pytest.mark.parametrize("source", ["127.0.0.2", "127.0.0.1"], ids=["another-address", "address-of-the-flood"])


@pytest.mark.parametrize("reviews_max", [FIRST_REVIEWS_MAX, 10_000], ids=["few-reviews-at-once", "all-reviews-at-once"])
@SOURCES
async def test_connections_with_unknown_tokens_keep_no_user_out(monkeypatch, reviews_max, source):
    """Each connection kept a place of the listener while its token was reviewed: 18 of 19 requests failed."""
    monkeypatch.setattr(team_gate, "FIRST_REVIEWS_MAX", reviews_max)
    monkeypatch.setattr(team_gate, "ADDRESS_FIRST_REVIEWS_MAX", reviews_max // 2)
    server = SlowReviews()
    await server.create("Namespace", {"metadata": {"name": "ml"}})
    async with running(server) as browser:
        assert await session_status(browser.application, "ml-token") == 200
        flood = Flood(browser.application, path="/api/session", asking_as="stranger-{}")
        assert await users_during(flood, source=source) == [200] * REQUESTS
        server.over.set()


@SOURCES
async def test_questions_of_one_user_keep_no_other_out(monkeypatch, source):
    """The questions of a user about objects wait for the rows of the user, and have no limit of their own."""
    questions, over = Counter(), asyncio.Event()

    async def slow_question(*_):
        questions["asked"] += 1
        await over.wait()
        return {}

    async with running(await two_tenants()) as browser:
        await browser.view("claims", "other-token", "other", wanted={"other/secret", "other/secret-too"})
        assert await session_status(browser.application, "ml-token") == 200
        monkeypatch.setattr(ClusterFeed, "ask", slow_question)
        path = "/api/object?ns=other&kind=claim&namespace=other&name=secret"
        flood = Flood(browser.application, path=path, asking_as="other-token")
        assert await users_during(flood, source=source) == [200] * REQUESTS
        assert questions["asked"] >= MAX - REQUESTS
        over.set()


async def test_open_streams_are_kept_during_a_flood():
    server = SlowReviews()
    await server.create("Namespace", {"metadata": {"name": "ml"}})
    async with running(server) as browser:
        stream = await browser.stream("claims", "ml-token", "ml")
        await users_during(Flood(browser.application, path="/api/session", asking_as="stranger-{}"), source="127.0.0.2")
        await server.create("ResourceClaim", claim("new", "ml"), "ml")
        async with asyncio.timeout(PATIENCE):
            while "ml/new" not in (await read_event(stream))["data"]:
                pass
        stream.close()
        server.over.set()


class CountedRequests(TeamServer):
    """Counts requests that look up the kinds which a flood of claims names."""

    def __init__(self):
        super().__init__()
        self.lookups = 0
        self.looked_up = asyncio.Event()

    async def handle(self, request):
        if "example.com" in request.path:
            self.lookups += 1
            self.looked_up.set()
        return await super().handle(request)

    async def create_claims(self, count):
        """Create claims in namespace evil, each for another kind that does not exist."""
        for name in ("ml", "evil"):
            await self.create("Namespace", {"metadata": {"name": name}})
        for number in range(count):
            annotations = {RESERVED_FOR: f"things.g{number}.example.com/x"}
            found = {"metadata": {"name": f"c{number}", "annotations": annotations}, "spec": {"devices": {}}}
            await self.create("ResourceClaim", found, "evil")


CLAIMS = 1_500


async def test_claims_for_kinds_that_do_not_exist_cost_a_start_no_more_than_a_few_claims(monkeypatch):
    """Each of 1,500 kinds cost a request in each reading, so that the page was not ready for 72 s."""
    monkeypatch.setattr(shared_cluster, "SURROUNDINGS_INTERVAL", 0.01)
    server = CountedRequests()
    await server.create_claims(CLAIMS)
    async with running(server) as browser:
        assert server.lookups <= KINDS_PER_NAMESPACE
        rows = await browser.view("claims", "operator-token", wanted={f"evil/c{number}" for number in range(CLAIMS)})
        assert len(rows) == CLAIMS
        assert server.lookups <= KINDS_PER_NAMESPACE, "a later reading asks no more"


async def test_users_sign_in_while_kinds_that_claims_name_are_looked_up():
    server = CountedRequests()
    await server.create_claims(KINDS_PER_NAMESPACE)
    async with running(server, ready=False, qps=50.0, burst=1) as browser:
        async with asyncio.timeout(PATIENCE):
            await server.looked_up.wait()
        before = server.lookups
        status, text = await browser.answer("/api/session?ns=ml", "ml-token")
        assert server.lookups - before <= 2
        assert status in {200, 503}, text
        async with asyncio.timeout(PATIENCE):
            while browser.application.feeds.not_ready_reasons():  # noqa: ASYNC110 - states of two parts
                await asyncio.sleep(0.01)
        assert server.lookups == KINDS_PER_NAMESPACE
