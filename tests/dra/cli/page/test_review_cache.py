"""The answers of reviews are kept for seconds, and no longer."""

import asyncio

import pytest

from dra.cli.page.review_cache import ALLOW_SECONDS, ANSWERS_MAX, DENY_SECONDS, ReviewCache


class Reviews:
    """Reviews that count how often they are asked."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = 0

    async def __call__(self):
        self.asked += 1
        await asyncio.sleep(0)
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(found, Exception):
            raise found
        return found


class Clock:
    """A clock that a test moves."""

    def __init__(self):
        self.at = 0.0

    def now(self):
        return self.at


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [pytest.param("allowed", ALLOW_SECONDS, id="allowed"), pytest.param("", DENY_SECONDS, id="denied")],
)
async def test_an_answer_is_kept_for_its_time(answer, seconds):
    clock, review = Clock(), Reviews(answer)
    cache = ReviewCache(clock=clock)
    for at, asked in ((0.0, 1), (seconds - 0.1, 1), (seconds, 2)):
        clock.at = at
        assert await cache.answer("x", review) is answer
        assert review.asked == asked


async def test_requests_at_the_same_time_share_one_review():
    cache, review = ReviewCache(clock=Clock()), Reviews("allowed")
    assert await asyncio.gather(*(cache.answer("x", review) for _ in range(9))) == ["allowed"] * 9
    assert review.asked == 1


async def test_a_request_that_is_cancelled_does_not_cancel_the_others():
    cache, review = ReviewCache(clock=Clock()), Reviews("allowed")
    first, second = (asyncio.ensure_future(cache.answer("x", review)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second
    assert review.asked == 1


async def test_a_review_ends_with_the_last_request_that_waits_for_it():
    cache, begun = ReviewCache(clock=Clock()), asyncio.Event()

    async def review():
        begun.set()
        await asyncio.Event().wait()

    requests = [asyncio.ensure_future(cache.answer("x", review)) for _ in range(2)]
    await begun.wait()
    for left, each in zip((1, 0), requests, strict=True):
        each.cancel()
        await asyncio.wait([each])
        assert cache.pending == left
    again = Reviews("allowed")
    assert await cache.answer("x", again) == "allowed"


async def test_answers_that_deny_displace_no_answer_that_allows():
    cache, allowed, denied = ReviewCache(clock=Clock(), answers_max=2), Reviews("allowed"), Reviews("")
    await cache.answer("user", allowed)
    for number in range(9):
        await cache.answer(number, denied)
    assert (len(cache), cache.last_answer("user")) == (3, "allowed")


async def test_an_answer_that_changes_replaces_the_earlier_one():
    clock, review = Clock(), Reviews("allowed", "")
    cache = ReviewCache(clock=clock)
    for at, answer in ((0.0, "allowed"), (ALLOW_SECONDS, "")):
        clock.at = at
        assert await cache.answer("x", review) == answer
    assert (len(cache), cache.last_answer("x")) == (1, "")


async def test_a_review_that_fails_is_no_answer():
    cache, review = ReviewCache(clock=Clock()), Reviews(OSError("no server"), "allowed")
    with pytest.raises(OSError, match="no server"):
        await cache.answer("x", review)
    assert len(cache) == 0
    assert await cache.answer("x", review)


async def test_the_answer_unused_for_longest_is_forgotten():
    cache, review = ReviewCache(clock=Clock(), answers_max=2), Reviews("allowed")
    for key in ("a", "b", "a", "c"):
        await cache.answer(key, review)
    assert (len(cache), review.asked) == (2, 3)
    await cache.answer("a", review)
    assert review.asked == 3
    await cache.answer("b", review)
    assert review.asked == 4


async def test_the_number_of_answers_has_a_limit():
    cache, review = ReviewCache(clock=Clock()), Reviews("")
    for number in range(ANSWERS_MAX + 10):
        await cache.answer(number, review)
    assert len(cache) == ANSWERS_MAX
