"""A history without holes: what happened while the watch was cut off is asked for, state by state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.scenarios.history import WatchHistory
from tests.scenarios.resources import CLAIMS

Json = dict[str, Any]


class Server:
    """Remembers every state; its watch cache begins at `cached`, and its watches show nothing of what comes later."""

    def __init__(self, states: dict[int, dict[str, int]], *, cached: int) -> None:
        self.states = states
        self.now = min(states)
        self.cached = cached
        self.asked: list[int] = []

    async def request(self, _method: str, _path: str, *, query: dict[str, str]) -> Json:
        revision = int(query.get("resourceVersion", self.now))
        self.asked.append(revision)
        state = self.states[max(known for known in self.states if known <= revision)]
        items = [{"metadata": {"name": name, "uid": name, "resourceVersion": str(v)}} for name, v in state.items()]
        return {"metadata": {"resourceVersion": str(revision)}, "items": items}

    async def watch(self, _resource: object, **query: str | None) -> AsyncGenerator[tuple[str, Json]]:
        await asyncio.sleep(0)
        if int(query["resourceVersion"] or 0) < self.cached:
            yield "ERROR", {"code": 410}
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("states", "seen"),
    [
        pytest.param({10: {"a": 9}, 99: {"a": 9}}, ["ADDED a@9"], id="nothing"),
        pytest.param({10: {"a": 9}, 40: {"a": 40}}, ["ADDED a@9", "MODIFIED a@40"], id="one-write"),
        pytest.param(
            {10: {"a": 9}, 40: {"a": 40}, 41: {"a": 41}, 97: {"a": 97}},
            ["ADDED a@9", "MODIFIED a@40", "MODIFIED a@41", "MODIFIED a@97"],
            id="every-write",
        ),
        pytest.param(
            {10: {"a": 9}, 30: {"a": 9, "b": 30}, 60: {"b": 30}, 61: {"b": 61}},
            ["ADDED a@9", "ADDED b@30", "DELETED a@60", "MODIFIED b@61"],
            id="comings-and-goings",
        ),
    ],
)
async def test_the_states_in_between_are_found_by_halving(states: dict[int, dict[str, int]], seen: list[str]) -> None:
    server = Server(states, cached=50)
    history = WatchHistory(server, CLAIMS, namespace="ml")
    present, since = await history._look()
    for obj in present.values():
        history._record("ADDED", obj)
    server.now = 100
    assert await history._bridge(since) == "100"
    shown = [
        (v.change, v.object["metadata"]["name"], v.object["metadata"]["resourceVersion"]) for v in history.versions
    ]
    assert [f"{change} {name}@{revision}" for change, name, revision in shown] == seen
    assert len(server.asked) < 50


async def test_a_watch_that_comes_too_late_is_bridged() -> None:
    server = Server({10: {"a": 9}, 40: {"a": 40}}, cached=50)
    history = WatchHistory(server, CLAIMS, namespace="ml")
    await history.__aenter__()
    server.now = 100
    await history.catch_up()
    assert [version.object["metadata"]["resourceVersion"] for version in history.versions] == ["9", "40"]
    await history.__aexit__(None, None, None)
