"""The Events about an object: the latest first, bounded, and read seldom."""

import pytest

from dra.cli.page.event_reader import SHOWN_MAX, EventReader
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from localplane import status_errors
from localplane.routes import Route
from localplane.server import ApiServer
from localplane.transport import LocalTransport


class Counting:
    """A server that counts requests, and refuses all of them if it is told to."""

    def __init__(self):
        self.server, self.asked, self.refuses = ApiServer(), [], False

    async def handle(self, request):
        self.asked.append(request.query)
        if self.refuses:
            return status_errors.StatusError(403, "Forbidden", "no").response
        return await self.server.handle(request)

    def add(self, name, *, about="uid-1", at="12:00:00", note="m"):
        kind = next(k for k in self.server.catalog if (k.name, k.group) == ("Event", "events.k8s.io"))
        content = {
            "metadata": {"name": name},
            "eventTime": f"2026-11-21T{at}.000000Z",
            "reportingController": "example.com/c",
            "reportingInstance": "c-1",
            "action": "Deallocating",
            "reason": "Deallocated",
            "type": "Normal",
            "note": note,
            "regarding": {"kind": "ResourceClaim", "namespace": "ml", "name": "train", "uid": about},
        }
        self.server.registry.create(Route(kind, namespace="ml"), kind.converter.to_storage(content))


@pytest.fixture
def counting():
    counted = Counting()
    kind = next(k for k in counted.server.catalog if k.name == "Namespace")
    counted.server.registry.create(Route(kind), {"metadata": {"name": "ml"}})
    return counted


@pytest.fixture
def reader(counting):
    return EventReader(Client(LocalTransport(counting), RateLimiter(1000.0, 1000)))


async def test_the_events_about_an_object_come_the_latest_first(counting, reader):
    counting.add("early", at="11:00:00", note="first")
    counting.add("late", at="12:30:00", note="second")
    counting.add("other", about="uid-2")
    rows = await reader.events_of("ml", "uid-1")
    assert [(reason, count, note) for _, reason, count, note in rows] == [
        ("Deallocated", 1, "second"),
        ("Deallocated", 1, "first"),
    ]
    assert counting.asked == [{"fieldSelector": "regarding.uid=uid-1", "limit": "500"}]


async def test_an_open_page_asks_seldom(counting, reader):
    counting.add("one")
    assert await reader.events_of("ml", "uid-1") == await reader.events_of("ml", "uid-1")
    assert len(counting.asked) == 1


async def test_many_events_are_cut(counting, reader):
    for number in range(SHOWN_MAX + 5):
        counting.add(f"e{number}", at=f"12:{number:02}:00")
    rows = await reader.events_of("ml", "uid-1")
    assert (len(rows), rows[0][0][11:16]) == (SHOWN_MAX, f"12:{SHOWN_MAX + 4}")


async def test_events_that_may_not_be_read_are_none(counting, reader):
    counting.refuses = True
    assert await reader.events_of("ml", "uid-1") == ()
