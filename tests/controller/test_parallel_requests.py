"""Requests that run at the same time."""

import asyncio
from functools import partial

import pytest

from controller.parallel_requests import PARALLEL_MAX, PartialFailureError, raise_failures, run_in_parallel
from dra.kube.errors import ServerError, Status


def failure(name):
    return ServerError(name, Status(code=500))


async def test_at_most_so_many_requests_are_in_flight_and_their_order_is_kept():
    now, most = 0, 0

    async def request(error):
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1
        if error is not None:
            raise error

    errors = [failure(str(number)) if number % 3 == 0 else None for number in range(2 * PARALLEL_MAX)]
    assert await run_in_parallel([partial(request, error) for error in errors]) == errors
    assert most == PARALLEL_MAX


async def test_an_internal_error_is_raised_once_all_requests_have_ended():
    ended = []

    async def request(name):
        if name == "bug":
            raise ValueError(name)
        await asyncio.sleep(1.0)
        ended.append(name)

    with pytest.raises(ValueError, match="bug"):
        await run_in_parallel([partial(request, name) for name in ("bug", "a")])
    assert ended == ["a"]


@pytest.mark.parametrize(
    ("outcomes", "raised"),
    [
        pytest.param([], None, id="none"),
        pytest.param([None, None], None, id="no-failure"),
        pytest.param([None, failure("b")], PartialFailureError, id="some-failures"),
        pytest.param([failure("a"), failure("b")], ServerError, id="only-failures"),
    ],
)
def test_what_is_raised_for_failures(outcomes, raised):
    if raised is None:
        raise_failures(outcomes)
    else:
        with pytest.raises(raised):
            raise_failures(outcomes)
