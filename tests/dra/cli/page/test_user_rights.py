"""Rights are reviewed in an order that lets no user delay the pages of others."""

import json

import msgspec

from dra.cli.page.scopes import EVERYTHING
from dra.cli.page.token_reviews import User
from dra.cli.page.user_rights import RightsReviewer
from dra.kube.client import Client
from dra.kube.rate_limiter import RequestPriority
from dra.kube.transport import Response
from tests.dra.cli.page.test_token_reviews import Limiter


class Rights:
    """A transport that allows everything in some namespaces; "" stands for all."""

    def __init__(self, *namespaces):
        self.namespaces = namespaces

    async def send(self, request):
        review = json.loads(request.body)
        allowed = review["spec"]["resourceAttributes"]["namespace"] in self.namespaces
        return Response(201, {}, msgspec.json.encode({**review, "metadata": {}, "status": {"allowed": allowed}}))


async def test_a_right_that_was_not_granted_before_is_reviewed_after_watches(monkeypatch):
    for name in ("ALLOW_SECONDS", "DENY_SECONDS"):
        monkeypatch.setattr(f"dra.cli.page.review_cache.{name}", 0.0)
    limiter = Limiter()
    rights = RightsReviewer(Client(Rights("ml"), limiter))
    for namespace, priorities in (
        ("ml", {RequestPriority.BULK}),
        ("ml", {RequestPriority.NORMAL, RequestPriority.BULK}),
        ("other", {RequestPriority.BULK}),
        ("other", {RequestPriority.BULK}),
    ):
        limiter.priorities.clear()
        await rights.scope_of(User(name="ada"), namespace)
        assert set(limiter.priorities) == priorities


async def test_an_administrator_has_the_scope_whose_rows_are_always_kept():
    rights = RightsReviewer(Client(Rights("", "koordinator-system"), Limiter()))
    assert await rights.scope_of(User(name="admin"), "") == EVERYTHING


async def test_without_the_strategies_of_colocation_an_administrator_sees_all_else():
    rights = RightsReviewer(Client(Rights(""), Limiter()))
    found = await rights.scope_of(User(name="admin"), "")
    assert EVERYTHING.granted - found.granted == {"configmaps koordinator-system/slo-controller-config"}
    assert [gap.resource for gap in found.gaps()] == ["configmaps koordinator-system/slo-controller-config"]
