"""What the extender knows of pods that stand for reservations."""

import pytest

from dra.api.reservations.model import API_VERSION, KIND
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.model.meta import ObjectMeta, OwnerReference, Uid
from dra.model.scheduling import SchedulerPod


def placeholder(uid, *, of="r"):
    owner = OwnerReference(api_version=API_VERSION, kind=KIND, name=of, uid=Uid(of), controller=True)
    meta = ObjectMeta(name=f"reservation-{of}", namespace="default", uid=Uid(uid), owner_references=[owner])
    return SchedulerPod(metadata=meta)


@pytest.fixture
def cache():
    found = SchedulerCache()
    found.observe_pod(placeholder("first"))
    return found


def waiting(cache):
    return [uid for uid in ("first", "second") if cache.pending_pod(Uid(uid)) is not None]


def test_a_placeholder_waits(cache):
    cache.observe_pod(placeholder("other", of="s"))
    assert waiting(cache) == ["first"]
    assert cache.pending_pod(Uid("first")).metadata.name == "reservation-r"


@pytest.mark.parametrize("gone_first", [True, False])
def test_of_two_with_one_name_the_later_one_waits(cache, gone_first):
    if gone_first:
        cache.forget_pod(placeholder("first"))
        assert waiting(cache) == []
    cache.observe_pod(placeholder("second"))
    if not gone_first:
        cache.forget_pod(placeholder("first"))
    assert waiting(cache) == ["second"]
    cache.forget_pod(placeholder("second"))
    assert waiting(cache) == []
