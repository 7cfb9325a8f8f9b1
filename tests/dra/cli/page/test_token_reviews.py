"""Tokens are reviewed for the audience of the page, and tokens of strangers after everything else."""

import json

import msgspec
import pytest

from dra.cli.page import token_reviews
from dra.cli.page.token_reviews import TokenReviewer
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter, RequestPriority
from dra.kube.transport import Response


class Reviews:
    """A transport that answers TokenReviews."""

    def __init__(self, **status):
        self.status = status
        self.specs = []

    async def send(self, request):
        review = json.loads(request.body)
        self.specs.append(review["spec"])
        body = msgspec.json.encode({**review, "metadata": {}, "status": self.status})
        return Response(201, {}, body)


class Limiter(RateLimiter):
    """A rate limiter that remembers the priorities of requests."""

    def __init__(self):
        super().__init__(1000.0, 1000)
        self.priorities = []

    def try_acquire(self, priority=RequestPriority.NORMAL):
        self.priorities.append(priority)
        return super().try_acquire(priority)


VALID = {"authenticated": True, "user": {"username": "ada", "groups": ["team"]}, "audiences": ["page"]}


@pytest.mark.parametrize(
    ("status", "name"),
    [
        pytest.param(VALID, "ada", id="valid"),
        pytest.param({**VALID, "authenticated": False}, None, id="not-authenticated"),
        pytest.param({**VALID, "audiences": ["other"]}, None, id="another-audience"),
        pytest.param({**VALID, "audiences": []}, None, id="a-server-that-knows-no-audiences"),
        pytest.param({**VALID, "user": {}}, None, id="no-user"),
        pytest.param({"error": "invalid bearer token"}, None, id="an-error"),
    ],
)
async def test_whose_token_it_is(status, name):
    transport = Reviews(**status)
    reviewer = TokenReviewer(Client(transport, Limiter()), audience="page")
    user = await reviewer.user_of("a.b.c")
    assert (user.name if user else None) == name
    assert transport.specs == [{"token": "a.b.c", "audiences": ["page"]}]


@pytest.mark.parametrize("token", ["", "x" * (token_reviews.TOKEN_LENGTH_MAX + 1), "tökén"])
async def test_what_cannot_be_a_token_is_not_reviewed(token):
    transport = Reviews(**VALID)
    assert await TokenReviewer(Client(transport, Limiter()), audience="page").user_of(token) is None
    assert transport.specs == []


async def test_tokens_of_strangers_are_reviewed_after_everything_else(monkeypatch):
    monkeypatch.setattr("dra.cli.page.review_cache.ALLOW_SECONDS", 0.0)
    monkeypatch.setattr("dra.cli.page.review_cache.DENY_SECONDS", 0.0)
    transport, limiter = Reviews(**VALID), Limiter()
    reviewer = TokenReviewer(Client(transport, limiter), audience="page")
    await reviewer.user_of("known")
    await reviewer.user_of("known")
    transport.status = {}
    await reviewer.user_of("stranger")
    await reviewer.user_of("stranger")
    last, normal = RequestPriority.REPORT, RequestPriority.NORMAL
    assert limiter.priorities == [last, normal, last, last]
