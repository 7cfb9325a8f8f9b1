import json

import pytest

from dra.kube import errors
from dra.kube.transport import Response
from tests.dra.kube.scripted import ok, refusal
from tests.violations import for_each_case

# Bodies recorded from kube-apiserver 1.36 (shared/golden/apiserver-1.36.md), shortened.
CONFLICT = {
    "kind": "Status",
    "status": "Failure",
    "message": 'Operation cannot be fulfilled on pods "p1": the object has been modified',
    "reason": "Conflict",
    "code": 409,
}


@for_each_case(
    [
        pytest.param(refusal(401, "Unauthorized"), errors.Unauthorized, id="401"),
        pytest.param(refusal(403, "Forbidden"), errors.Forbidden, id="403"),
        pytest.param(refusal(404, "NotFound"), errors.NotFound, id="404"),
        pytest.param(Response(404, {}, b"404 page not found\n"), errors.NotFound, id="404-path-in-plain-text"),
        pytest.param(refusal(404, "NotFound", "404 page not found"), errors.NotFound, id="404-path-in-json-since-1.38"),
        pytest.param(refusal(409, "Conflict"), errors.Conflict, id="409"),
        pytest.param(refusal(409, "AlreadyExists"), errors.AlreadyExists, id="409-name-is-taken"),
        pytest.param(refusal(410, "Expired"), errors.Expired, id="410"),
        pytest.param(refusal(410, "Gone"), errors.Expired, id="410-gone"),
        pytest.param(refusal(422, "Invalid"), errors.Invalid, id="422"),
        pytest.param(refusal(429, "TooManyRequests"), errors.TooManyRequests, id="429"),
        pytest.param(refusal(500, "InternalError"), errors.ServerError, id="500"),
        pytest.param(Response(502, {}, b"<html>bad gateway"), errors.ServerError, id="502-from-a-proxy"),
        pytest.param(refusal(504, "Timeout"), errors.Timeout, id="504"),
        pytest.param(refusal(405, "MethodNotAllowed"), errors.ApiError, id="405"),
        pytest.param(Response(302, {"location": "https://evil"}, b""), errors.ApiError, id="redirect"),
        pytest.param(Response(404, {}, b'{"kind": "Pod"}'), errors.NotFound, id="json-that-is-no-status"),
        pytest.param(Response(500, {}, b"[1]"), errors.ServerError, id="json-that-is-no-object"),
    ],
)
def test_each_answer_has_its_class(response, kind):
    with pytest.raises(errors.ApiError) as caught:
        errors.raise_for_status(response, "Pod ml/a")
    assert type(caught.value) is kind
    assert caught.value.status == response.status


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_a_success_raises_nothing(status):
    errors.raise_for_status(ok({}, status=status), "Pod ml/a")


@pytest.mark.parametrize(
    ("response", "text"),
    [
        pytest.param(Response(409, {}, json.dumps(CONFLICT).encode()), f"Pod ml/a: {CONFLICT['message']}", id="status"),
        pytest.param(Response(404, {}, b"404 page not found\n"), "Pod ml/a: 404 page not found", id="plain"),
        pytest.param(Response(500, {}, b""), "Pod ml/a: HTTP 500", id="empty"),
        pytest.param(Response(500, {}, b"\xff"), "Pod ml/a: �", id="not-even-text"),
        pytest.param(refusal(403, "Forbidden", ""), "Pod ml/a: Forbidden", id="only-a-reason"),
    ],
)
def test_texts_start_with_the_object(response, text):
    with pytest.raises(errors.ApiError) as caught:
        errors.raise_for_status(response, "Pod ml/a")
    assert str(caught.value) == text


def test_the_object_may_be_named_by_someone_who_knows_better():
    error = errors.Unreachable("/api/v1/pods", "refused", outcome_unknown=False)
    error.subject = "claim ml/train"
    assert str(error) == "claim ml/train: refused"


def test_texts_are_cut():
    with pytest.raises(errors.Invalid) as caught:
        errors.raise_for_status(refusal(422, "Invalid", "x" * 5000), "ResourceClaim ml/a")
    assert len(caught.value.message) == errors.TEXT_LIMIT


@pytest.mark.parametrize(
    ("headers", "details", "seconds"),
    [
        pytest.param({"retry-after": "7"}, {}, 7.0, id="header"),
        pytest.param({}, {"retryAfterSeconds": 3}, 3.0, id="details"),
        pytest.param({"retry-after": "7"}, {"retryAfterSeconds": 3}, 7.0, id="header-wins"),
        pytest.param({"retry-after": "Fri, 20 Nov 2026 12:00:00 GMT"}, {}, None, id="date-is-not-understood"),
        pytest.param({}, {}, None, id="nothing-said"),
    ],
)
def test_retry_after(headers, details, seconds):
    with pytest.raises(errors.TooManyRequests) as caught:
        errors.raise_for_status(refusal(429, "TooManyRequests", headers=headers, **details), "Pod ml/a")
    assert caught.value.retry_after == seconds
    assert caught.value.is_retriable == (seconds is not None)


def test_a_disruption_budget_says_no_and_not_later():
    eviction = refusal(
        429, "TooManyRequests", headers={"retry-after": "10"}, causes=[{"reason": "DisruptionBudget", "message": "m"}]
    )
    with pytest.raises(errors.TooManyRequests) as caught:
        errors.raise_for_status(eviction, "Pod ml/a")
    assert not caught.value.is_retriable
