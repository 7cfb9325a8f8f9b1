"""Requests, and what can become of them.

An actor that talks to the API server is a generator. It stops before each request and gets the request's outcome when
it is resumed: between two requests of one actor everybody else may act, and a generator that is never resumed is a
process that died.
"""

from collections.abc import Callable, Generator
from enum import StrEnum
from typing import TypeAlias, TypeVar

T = TypeVar("T")


class RequestOutcome(StrEnum):
    """What becomes of a request."""

    DONE = "done"
    REFUSED = "refused"  # 429, 500 before the write, no connection
    LOST = "lost"  # the server has done it, the answer never comes


class ApiError(Exception):
    """The API server, or the network before it, has not done what was asked."""


class Unavailable(ApiError):  # noqa: N818 - named like the errors of dra.kube
    """No answer: nobody knows whether it was done."""


class NotFound(ApiError):  # noqa: N818
    """404."""


class Conflict(ApiError):  # noqa: N818
    """409: another resourceVersion or uid than the request named, or a pod that cannot be bound."""


class Invalid(ApiError):  # noqa: N818
    """422."""


RequestProcess: TypeAlias = Generator[None, RequestOutcome, T]


def send_request(call: Callable[[], T]) -> RequestProcess[T]:
    """Make one request: ``answer = yield from send(...)``."""
    outcome = yield
    if outcome is RequestOutcome.REFUSED:
        raise Unavailable("refused")
    answer = call()
    if outcome is RequestOutcome.LOST:
        raise Unavailable("lost")
    return answer


def start_process(process: RequestProcess[T]) -> bool:
    """Run a process up to its first request; return whether there is one."""
    return resume_process(process, None)


def resume_process(process: RequestProcess[T], outcome: RequestOutcome | None) -> bool:
    """Let a process make its request and run up to the next; return whether there is one."""
    try:
        process.send(outcome)  # type: ignore[arg-type]
    except StopIteration:
        return False
    return True
