"""Finds out by a TokenReview whose token a request has.

Anybody who reaches the page can send tokens. So tokens that were not valid before are reviewed after everything else: a
flood of such tokens delays neither watches nor the reviews of users who have signed in.

The review names an audience of the page. An API server that does not know audiences answers without one; such an answer
is refused, because the token may have been made for any other service (KEP-1205).
"""

import hashlib
from typing import Final

from dra.cli.page.review_cache import ReviewCache
from dra.kube.client import Client
from dra.kube.clock import SYSTEM, Clock
from dra.kube.rate_limiter import RequestPriority
from dra.kube.resources import Resource
from dra.model.meta import Struct

TOKEN_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)

TOKEN_LENGTH_MAX: Final = 16_384
"""Maximum number of characters of a token."""


class User(Struct, frozen=True):
    """A user as the API server knows it: the input of every SubjectAccessReview."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class _UserInfo(Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] | None = None


class _TokenReviewStatus(Struct, frozen=True):
    authenticated: bool = False
    user: _UserInfo = _UserInfo()
    audiences: tuple[str, ...] = ()


class _TokenReview(Struct, frozen=True):
    status: _TokenReviewStatus = _TokenReviewStatus()


class TokenReviewer:
    """Reviews tokens; answers are kept by the hash of the token, never by the token itself."""

    def __init__(self, client: Client, *, audience: str, clock: Clock = SYSTEM) -> None:
        self._client = client
        self._audience = audience
        self._cache: ReviewCache[bytes, User | None] = ReviewCache(clock=clock)

    async def user_of(self, token: str) -> User | None:
        """Return the user of a token; None if the token is not valid for the page. Raises ApiError."""
        if not token or len(token) > TOKEN_LENGTH_MAX or not token.isascii():
            return None
        key = _key(token)
        priority = RequestPriority.NORMAL if self._cache.last_answer(key) else RequestPriority.REPORT
        return await self._cache.answer(key, lambda: self._review(token, priority))

    def is_known(self, token: str) -> bool:
        """Report whether the token was valid when it was last reviewed."""
        return self._cache.last_answer(_key(token)) is not None

    async def _review(self, token: str, priority: RequestPriority) -> User | None:
        spec = {"token": token, "audiences": [self._audience]}
        review = await self._client.create(TOKEN_REVIEWS, {"spec": spec}, model=_TokenReview, priority=priority)
        status = review.status
        reviewed = status.user
        if not status.authenticated or self._audience not in status.audiences or not reviewed.username:
            return None
        extra = tuple(sorted((reviewed.extra or {}).items()))
        return User(name=reviewed.username, uid=reviewed.uid, groups=reviewed.groups, extra=extra)


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
