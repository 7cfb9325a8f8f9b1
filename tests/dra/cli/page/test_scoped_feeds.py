"""The feeds of scopes: shared by equal rights, bounded, and dropped when nobody looks."""

import asyncio
import gc
from functools import partial

import pytest

from dra.cli.kubectl.connection import Connection
from dra.cli.page.access import RefusedError
from dra.cli.page.page_tables import PageTables
from dra.cli.page.scoped_feeds import IDLE_SECONDS, RECENT_SECONDS, ScopedFeeds
from dra.cli.page.scopes import EVERYTHING, Scope
from dra.cli.page.shared_cluster import SharedCluster
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from localplane.server import ApiServer
from localplane.transport import LocalTransport


class Clock:
    """A clock that a test moves."""

    def __init__(self):
        self.at = 0.0

    def now(self):
        return self.at


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def feeds(clock):
    transport = LocalTransport(ApiServer())
    connection = Connection(client=Client(transport, RateLimiter(1000.0, 1000)), transport=transport)
    found = ScopedFeeds(SharedCluster(connection, lease_namespace="dra-reserve"), scopes_max=2, clock=clock)
    yield found
    found.close()


def scope(namespace, *granted):
    return Scope(namespace=namespace, granted=frozenset(granted))


async def test_users_with_equal_rights_share_a_feed(feeds):
    assert feeds.get(scope("ml", "pods")) is feeds.get(scope("ml", "pods"))
    assert feeds.get(scope("ml", "pods")) is not feeds.get(scope("ml"))


async def test_the_last_feed_of_all_namespaces_stays_until_another_scope_needs_its_place(feeds, clock):
    earlier = feeds.get(scope(None))
    clock.at = 1.0
    last = feeds.get(scope(None, "pods"))
    clock.at = 2 * IDLE_SECONDS
    feeds.drop_idle()
    assert (earlier.feed.is_closed, last.feed.is_closed) == (True, False)
    feeds.get(scope("ml"))
    clock.at += RECENT_SECONDS
    feeds.get(scope("other"))
    assert (len(feeds), last.feed.is_closed) == (2, True)


async def test_rows_of_all_namespaces_are_there_before_the_first_administrator(feeds, monkeypatch):
    feeds.keep_one_of_all_namespaces()
    assert len(feeds) == 0, "the cluster has not been read"
    monkeypatch.setattr(SharedCluster, "is_filled", True)
    feeds.get(scope("ml"))
    feeds.keep_one_of_all_namespaces()
    feeds.keep_one_of_all_namespaces()
    assert len(feeds) == 2
    feeds.get(EVERYTHING)
    assert len(feeds) == 2


@pytest.fixture
def filled(monkeypatch):
    """The cluster has been read."""
    monkeypatch.setattr(SharedCluster, "is_filled", True)
    monkeypatch.setattr(SharedCluster, "not_ready_reasons", lambda _self: [])


NOT_COMPUTED = ["rows of all namespaces: not computed yet"]


async def test_before_the_cluster_has_been_read_the_page_is_not_ready(feeds):
    feeds.keep_one_of_all_namespaces()
    assert "pods: not listed yet" in feeds.not_ready_reasons()


@pytest.mark.usefixtures("filled")
async def test_the_page_is_ready_once_the_rows_of_administrators_are_computed(feeds, clock):
    assert feeds.not_ready_reasons() == NOT_COMPUTED
    feeds.keep_one_of_all_namespaces()
    assert feeds.not_ready_reasons() == NOT_COMPUTED
    async with asyncio.timeout(30):
        await feeds.get(EVERYTHING).feed.stream.ready.wait()
    assert feeds.not_ready_reasons() == []
    clock.at = 2 * IDLE_SECONDS
    feeds.close()
    feeds.keep_one_of_all_namespaces()
    assert feeds.not_ready_reasons() == [], "a page that was ready stays ready"


@pytest.mark.usefixtures("filled")
async def test_rows_that_cannot_be_computed_keep_no_other_user_out(feeds, monkeypatch):
    def fail(*_, **__):
        raise KeyError("n1")

    monkeypatch.setattr(PageTables, "update", fail)
    feeds.keep_one_of_all_namespaces()
    async with asyncio.timeout(30):
        while feeds.not_ready_reasons():  # noqa: ASYNC110 - a state of another task
            await asyncio.sleep(0.01)
    feeds.keep_one_of_all_namespaces()
    assert (len(feeds), feeds.not_ready_reasons()) == (1, [])


async def test_the_rows_of_administrators_are_frozen_while_they_are_kept(feeds, monkeypatch):
    calls = []
    for name in ("collect", "freeze", "unfreeze"):
        monkeypatch.setattr(gc, name, partial(calls.append, name))
    found = feeds.get(EVERYTHING)
    feeds.freeze_long_lived_objects()
    assert calls == [], "there are no rows yet"
    async with asyncio.timeout(30):
        await found.feed.stream.ready.wait()
    feeds.freeze_long_lived_objects()
    feeds.freeze_long_lived_objects()
    assert calls == ["collect", "freeze"]
    feeds.close()
    assert calls == ["collect", "freeze", "unfreeze"]


@pytest.mark.usefixtures("filled")
async def test_the_page_is_ready_where_other_scopes_have_all_places(feeds):
    for namespace in ("ml", "other"):
        feeds.get(scope(namespace))
    feeds.keep_one_of_all_namespaces()
    assert feeds.not_ready_reasons() == []


async def test_where_all_places_are_taken_the_first_administrator_waits(feeds, clock, monkeypatch):
    monkeypatch.setattr(SharedCluster, "is_filled", True)
    made = [feeds.get(scope(namespace)) for namespace in ("ml", "other")]
    clock.at = RECENT_SECONDS
    feeds.keep_one_of_all_namespaces()
    assert [each.feed.is_closed for each in made] == [False, False]


async def test_a_feed_that_nobody_looks_at_is_dropped(feeds, clock):
    watched, idle = feeds.get(scope("ml")), feeds.get(scope("other"))
    watched.streams = 1
    clock.at = IDLE_SECONDS - 1
    feeds.drop_idle()
    assert len(feeds) == 2
    clock.at = IDLE_SECONDS
    feeds.drop_idle()
    assert (len(feeds), idle.feed.is_closed, watched.feed.is_closed) == (1, True, False)
    watched.streams = 0
    clock.at = 2 * IDLE_SECONDS - 1
    feeds.drop_idle()
    assert len(feeds) == 1, "the time counts from the end of the last stream"
    clock.at = 2 * IDLE_SECONDS
    feeds.drop_idle()
    assert len(feeds) == 0


async def test_the_feed_that_nobody_has_looked_at_for_longest_makes_room(feeds, clock):
    first, second = feeds.get(scope("a")), feeds.get(scope("b"))
    clock.at = RECENT_SECONDS
    feeds.get(scope("a"))
    feeds.get(scope("c"))
    assert (first.feed.is_closed, second.feed.is_closed, len(feeds)) == (False, True, 2)


async def test_a_feed_that_was_looked_at_just_now_makes_no_room(feeds, clock):
    first, _ = feeds.get(scope("a")), feeds.get(scope("b"))
    clock.at = RECENT_SECONDS - 0.1
    with pytest.raises(RefusedError) as refused:
        feeds.get(scope("c"))
    assert refused.value.refusal.status == 503
    assert feeds.get(scope("a")) is first


async def test_a_scope_more_than_there_is_room_for_is_refused(feeds):
    for namespace in ("a", "b"):
        feeds.get(scope(namespace)).streams = 1
    with pytest.raises(RefusedError) as refused:
        feeds.get(scope("c"))
    assert (refused.value.refusal.status, refused.value.refusal.retry_after) == (503, 30)
    assert "maxScopes" in refused.value.refusal.text


@pytest.fixture
async def roomy(clock):
    transport = LocalTransport(ApiServer())
    connection = Connection(client=Client(transport, RateLimiter(1000.0, 1000)), transport=transport)
    found = ScopedFeeds(SharedCluster(connection, lease_namespace="dra-reserve"), scopes_max=16, clock=clock)
    yield found
    found.close()


async def test_the_accounts_of_one_namespace_do_not_take_the_places_of_others(roomy):
    kinds = ["pods", "nodes", "reservations", "podmigrationjobs", "namespaces"]
    for kind in kinds[:4]:
        roomy.get(scope("evil", kind)).streams = 1
    with pytest.raises(RefusedError) as refused:
        roomy.get(scope("evil", kinds[4]))
    assert refused.value.refusal.text.startswith("namespace evil: ")
    roomy.get(scope("ml", "pods"))


async def test_a_namespace_replaces_its_own_feeds_first(roomy, clock):
    other = roomy.get(scope("ml"))
    feeds = [roomy.get(scope("evil", kind)) for kind in ("pods", "nodes", "reservations", "podmigrationjobs")]
    clock.at = RECENT_SECONDS
    roomy.get(scope("evil", "namespaces"))
    assert [each.feed.is_closed for each in (other, *feeds)] == [False, True, False, False, False]


async def test_places_are_kept_for_administrators(roomy):
    for number in range(14):
        roomy.get(scope(f"ns-{number}")).streams = 1
    with pytest.raises(RefusedError):
        roomy.get(scope("ns-14"))
    roomy.get(EVERYTHING)
    roomy.get(scope(None, "pods"))
    assert len(roomy) == 16


async def test_a_defect_in_the_rows_of_one_scope_ends_only_its_feed(feeds, caplog):
    broken, other = feeds.get(scope("a")), feeds.get(scope("b"))
    broken.feed.queue(lambda: 1 // 0)
    await asyncio.wait([broken._work])
    assert (broken.feed.is_closed, other.feed.is_closed) == (True, False)
    assert "the rows of a scope cannot be computed" in caplog.text
