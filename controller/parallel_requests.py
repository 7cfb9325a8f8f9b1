"""Requests of one plan that run at the same time."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from dra.kube.errors import ApiError

PARALLEL_MAX: Final = 32
"""Maximum number of requests of one plan in flight: a window of 240 pods is ungated in eight rounds."""

DeferredRequest: TypeAlias = Callable[[], Awaitable[None]]
"""A function that sends a request when it is called: until then there is nothing to cancel."""


class PartialFailureError(Exception):
    """Some requests about pods failed, others succeeded: no reason to wait for long."""

    def __init__(self, failures: Sequence[Exception], *, of: int) -> None:
        super().__init__(f"{len(failures)} of {of} requests about pods failed, the first: {failures[0]}")


async def run_in_parallel(requests: Sequence[DeferredRequest]) -> list[ApiError | None]:
    """Run all requests, at most `PARALLEL_MAX` at a time; return the failures, or None, in the order of the requests.

    Raises the first error that is no answer of the API server once all requests have ended.
    """
    slots = asyncio.Semaphore(PARALLEL_MAX)

    async def run_one(request: DeferredRequest) -> None:
        async with slots:
            await request()

    outcomes = await asyncio.gather(*map(run_one, requests), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, ApiError):
            raise outcome
    return [outcome if isinstance(outcome, ApiError) else None for outcome in outcomes]


def raise_failures(outcomes: Sequence[ApiError | None]) -> None:
    """Raise the error of requests that all failed, or PartialFailureError if some did."""
    failures = [error for error in outcomes if error is not None]
    if failures and len(failures) < len(outcomes):
        raise PartialFailureError(failures, of=len(outcomes))
    for error in failures:
        raise error
