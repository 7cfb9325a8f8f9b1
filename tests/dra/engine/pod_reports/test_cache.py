"""Which pods are checked after a change, and what a decision about one reads."""

import pytest

from dra.engine.pod_reports.cache import PodReportCache
from dra.model.meta import ObjectMeta, PartialObjectMetadata
from tests.dra.engine.pod_reports.objects import allocated_claim, bound_pod
from tests.dra.engine.pod_reports.slices import SMALL, gpu, resource_slice

NAMESPACE = PartialObjectMetadata(metadata=ObjectMeta(name="ml"))
POD = ("ml", "p")
CARDS = resource_slice("n0", gpu(0, SMALL))


def checked(cache):
    return [name for _, name in cache.dirty.take()]


@pytest.fixture
def cache():
    """Returns a cache of an enabled namespace, where one pod names the claim c and one the claims c and d."""
    cache = PodReportCache()
    cache.observe_namespace(NAMESPACE)
    cache.observe_pod(bound_pod("p", "c"))
    cache.observe_pod(bound_pod("q", "c", "d"))
    assert checked(cache) == ["p", "q"]
    return cache


@pytest.mark.parametrize(
    ("change", "pods"),
    [
        pytest.param(lambda cache: cache.observe_pod(bound_pod("p", "c")), ["p"], id="a-pod"),
        pytest.param(lambda cache: cache.observe_pod(bound_pod("r")), [], id="a-pod-without-claims"),
        pytest.param(lambda cache: cache.observe_claim(allocated_claim("c")), ["p", "q"], id="a-claim-of-two-pods"),
        pytest.param(lambda cache: cache.observe_claim(allocated_claim("d")), ["q"], id="a-claim-of-one-pod"),
        pytest.param(lambda cache: cache.observe_claim(allocated_claim("e")), [], id="a-claim-of-no-pod"),
        pytest.param(lambda cache: cache.observe_namespace(NAMESPACE), [], id="a-namespace-that-is-enabled-already"),
        pytest.param(lambda cache: cache.observe_slice(CARDS), [], id="cards-that-no-pod-waits-for"),
        pytest.param(lambda cache: cache.mark_all_dirty(), ["p", "q"], id="the-begin-of-leadership"),
    ],
)
def test_the_pods_that_a_change_concerns_are_checked(cache, change, pods):
    change(cache)
    assert checked(cache) == pods


def test_a_pod_that_no_longer_uses_a_claim_is_not_checked_for_it(cache):
    cache.observe_pod(bound_pod("q", "d"))
    cache.forget_pod(bound_pod("p", "c"))
    checked(cache)
    cache.observe_claim(allocated_claim("c"))
    assert checked(cache) == []


def test_pods_of_other_namespaces_are_checked_once_their_namespace_is_enabled(cache):
    cache.forget_namespace(NAMESPACE)
    cache.observe_pod(bound_pod("r", "c"))
    cache.observe_claim(allocated_claim("c"))
    cache.mark_all_dirty()
    assert checked(cache) == []
    cache.observe_namespace(NAMESPACE)
    assert checked(cache) == ["p", "q", "r"]


@pytest.mark.parametrize("change", ["observe_slice", "forget_slice"])
def test_pods_that_wait_for_cards_are_checked_once_after_a_slice_has_changed(cache, change):
    cache.await_cards(("ml", "q"))
    cache.await_cards(POD)
    cache.forget_pod(bound_pod("q", "c", "d"))
    getattr(cache, change)(CARDS)
    assert checked(cache) == ["p"]
    cache.observe_slice(CARDS)
    assert checked(cache) == []


def test_a_view_has_the_claims_that_exist_and_the_reports_written_last(cache):
    pod, claim = bound_pod("q", "c", "d"), allocated_claim("d")
    cache.observe_slice(CARDS)
    cache.reports_written("uid-q", {"a": "b"})
    view = cache.view(("ml", "q"), pods={("ml", "q"): pod}, claims={("ml", "d"): claim})
    assert (view.pod, view.claims, view.written) == (pod, (claim,), {"a": "b"})
    assert view.cards.find("n0", "gpu-0") is not None
    cache.forget_pod(pod)
    cache.observe_pod(pod)
    assert cache.view(("ml", "q"), pods={("ml", "q"): pod}, claims={}).written == {}


def test_there_is_no_view_of_a_pod_without_reports(cache):
    assert cache.view(POD, pods={}, claims={}) is None
    cache.forget_namespace(NAMESPACE)
    assert cache.view(POD, pods={POD: bound_pod("p", "c")}, claims={}) is None
