"""Waiting tells what it saw: most failures of scenarios are read from this one message."""

from __future__ import annotations

import pytest

from tests.scenarios.eventually import eventually, steadily


async def test_it_returns_the_first_sight_that_satisfies() -> None:
    sights = iter([1, 2, 3])
    assert await eventually(lambda: next(sights), until=lambda n: n > 1, saying="more than one") == 2


async def test_it_quotes_the_last_sight_when_time_is_up() -> None:
    with pytest.raises(AssertionError, match=r"the claim is free: still not so after 0 s; last seen: 'allocated'"):
        await eventually(lambda: "allocated", until=lambda _: False, within=0, saying="the claim is free")


async def test_a_failed_assertion_means_not_yet() -> None:
    sights = iter([False, True])

    async def look() -> bool:
        assert next(sights)
        return True

    assert await eventually(look, saying="it holds")


async def test_steadily_fails_at_the_first_exception() -> None:
    sights = iter([True, False])
    with pytest.raises(AssertionError, match="nobody writes: no longer so"):
        await steadily(lambda: next(sights), lasting=5, saying="nobody writes")
